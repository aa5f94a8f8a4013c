"""The workload of EasyScale's trace experiment as a generator: 62 jobs of eight models, for one of three types.

The trace of the artifact (SC'23) states no licence, so it is not here. Jobs are drawn with its proportions: how
many are of which model; how many workers they ask for (32: 53 %, 16: 27 %, 8: 18 %, 4: 2 %) of which accelerator
type (V100 77 %, P100 18 %, T4 5 %; at most the 16 that there are of P100 and T4); a gap of 77 s between jobs on
average; and a lognormal time on the devices that they ask for (median 38 s, standard deviation of its logarithm
1.77, at most 2500 s). Seconds of a mini-batch on a V100, and how much slower P100 and T4 are, are those of the
paper's figure 12 (deterministic), to two digits. As in its simulator, devices exchange gradients for nothing;
``exchange`` adds it. Speeds are known for as many devices of each type as a job asks for, also of a type of which
there are fewer: such a job runs there in a smaller size.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.part_plans import DeviceType, best_plan
from gavelx.throughputs import Setting, Throughputs

DEVICES = {"v100": 32, "p100": 16, "t4": 16}
PER_SERVER = 8
WIDTHS, WIDTH_CHANCES = (32, 16, 8, 4), (0.53, 0.27, 0.18, 0.02)
TYPE_CHANCES = (0.77, 0.18, 0.05)
GAP_S, MEDIAN_S, LOG_SPREAD, LONGEST_S = 77.0, 38.0, 1.77, 2500.0
MB_S = 6e3
"""How fast gradients are exchanged between servers, for ``exchange``."""
On = Literal["asked", "any", "mixed"]


@dataclass(frozen=True)
class Model:
    """Seconds of a mini-batch on a V100, how much slower P100 and T4 are, gradients, and jobs of 62."""

    batch_s: float
    slower_p100: float
    slower_t4: float
    gradient_mb: float
    jobs: int


MODELS = {
    "bert": Model(0.44, 1.4, 1.5, 418, 15),
    "electra": Model(0.44, 1.4, 1.6, 440, 14),
    "resnet50": Model(0.27, 1.6, 2.5, 98, 14),
    "yolov3": Model(0.46, 1.6, 1.8, 247, 7),
    "neumf": Model(0.011, 1.2, 1.0, 120, 4),
    "swintransformer": Model(0.41, 1.4, 1.5, 113, 3),
    "shufflenetv2": Model(0.22, 1.5, 1.9, 9, 3),
    "vgg19": Model(0.39, 1.7, 2.4, 575, 2),
}


@dataclass(frozen=True)
class Workload:
    """Jobs in order of arrival, and how fast each is in every size; ``asked``: on the type that it asked for."""

    jobs: tuple[Job, ...]
    table: Throughputs
    asked: Throughputs

    def on(self, types: On) -> Throughputs:
        return self.asked if types == "asked" else self.table

    def jobs_on(self, types: On) -> tuple[Job, ...]:
        """The jobs, which may have devices of several types at once or not."""
        if types != "mixed":
            return self.jobs
        return tuple(replace(job, elastic=replace(job.elastic, mixed=True)) for job in self.jobs if job.elastic)


def draw(seed: int, *, jobs: int = 62, exchange: bool = False) -> Workload:
    """So many jobs, each elastic from 1 worker up to those that it asks for, in as many parts."""
    random = np.random.default_rng([seed, 62])
    arrival_s = np.cumsum(random.exponential(GAP_S, jobs))
    of = np.array([model.jobs for model in MODELS.values()], dtype=float)
    models = random.choice(list(MODELS), size=jobs, p=of / of.sum())
    types = random.choice(list(DEVICES), size=jobs, p=TYPE_CHANCES)
    widths = random.choice(WIDTHS, size=jobs, p=WIDTH_CHANCES)
    long_s = np.clip(random.lognormal(np.log(MEDIAN_S), LOG_SPREAD, jobs), 1.0, LONGEST_S)
    drawn, table, asked = list[Job](), dict[Setting, float](), dict[Setting, float]()
    for j in range(jobs):
        model, own, job_type = MODELS[models[j]], str(types[j]), f"{models[j]} #{j}"
        width = min(int(widths[j]), DEVICES[own])
        for name in DEVICES:
            for n in range(1, width + 1):
                table[Setting(job_type, name, n)] = steps_per_s(model, name, n, width, exchange)
        asked |= {setting: speed for setting, speed in table.items() if setting[:2] == (job_type, own)}
        steps = float(long_s[j]) * table[Setting(job_type, own, width)]
        elastic = Elastic("workers", 1, width, parts=width)
        drawn.append(Job(j, job_type, steps, width, arrival_s=float(arrival_s[j]), elastic=elastic))
    return Workload(tuple(drawn), Throughputs(table), Throughputs(asked))


def steps_per_s(model: Model, accelerator: str, devices: int, parts: int, exchange: bool) -> float:
    """Steps/s of a job with so many parts on equal devices that had the same part of the work each.

    A job on devices that do not divide its parts is slower than that by what its plan wastes.
    """
    slower = {"v100": 1.0, "p100": model.slower_p100, "t4": model.slower_t4}[accelerator]
    plan = best_plan([DeviceType(devices, 1.0 / (model.batch_s * slower))], parts)
    assert plan is not None
    even_s = (plan.step_s * parts / devices) / max(plan.parts_each)
    spread = devices > PER_SERVER
    exchange_s = 2 * (devices - 1) / devices * model.gradient_mb / MB_S if exchange and spread else 0.0
    return 1.0 / (even_s + exchange_s)
