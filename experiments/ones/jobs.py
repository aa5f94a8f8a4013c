"""The workload of ONES as a generator: fifty kinds of jobs, each with a model of its speed and of its training.

There are fifty kinds, as in table 2 of ONES (SC'21): four networks on six parts of ImageNet, three on five parts
of CIFAR-10, and BERT on eleven tasks and parts. Requests are drawn like those of its artifact (2, 4, 8 and 16
devices: 80, 120, 40 and 160 of 400), gaps between jobs are exponential with a mean of 30 s, and a job stops ten
epochs after it has met its target. Speeds, epochs to the target and noise scales are ours: nothing of the paper's
testbed is known.
"""

from dataclasses import dataclass

import numpy as np

from experiments.ones.curves import Curve
from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.throughputs import Setting, Size, Throughputs

DEVICE = "gpu"
REQUESTS, CHANCES = (2, 4, 8, 16), (0.2, 0.3, 0.1, 0.4)
WIDEST = 16
PER_SERVER = 4
WITHIN_MB_S, ACROSS_MB_S = 20e3, 6e3
"""How fast gradients are exchanged within a server, and over several."""
OVERLAP = 1.5
"""Compute and exchange overlap in part: the total is their norm of this order (Pollux, OSDI'21, equation 11)."""
EPOCHS_OVER_TARGET = 10


@dataclass(frozen=True)
class Network:
    """One device's samples/s and batch, MB of gradients, the least time of an update, epochs to the target."""

    samples_per_s: float
    batch: int
    gradient_mb: float
    update_s: float
    epochs: float
    noise_scale: float


NETWORKS = {
    "alexnet": Network(1500, 256, 244, 0.03, 40, 6000),
    "resnet50": Network(350, 64, 98, 0.03, 30, 4000),
    "vgg16": Network(220, 64, 528, 0.03, 30, 4000),
    "inception": Network(240, 64, 92, 0.04, 30, 4000),
    "resnet18": Network(2500, 256, 45, 0.025, 35, 4500),
    "vgg-cifar": Network(4000, 256, 60, 0.02, 35, 4500),
    "googlenet": Network(900, 256, 25, 0.04, 30, 4500),
    "bert": Network(110, 32, 418, 0.04, 4, 300),
}
KINDS = (
    *(
        (name, size)
        for name in ("alexnet", "resnet50", "vgg16", "inception")
        for size in range(10_000, 20_001, 2000)
    ),
    *((name, size) for name in ("resnet18", "vgg-cifar", "googlenet") for size in range(20_000, 40_001, 5000)),
    *(("bert", size) for size in (3600, 5000, 6000, 7000, 8000, *range(10_000, 20_001, 2000))),
)
"""A network and the samples of its data set."""


@dataclass(frozen=True)
class Workload:
    """Jobs in order of arrival, how fast each is in every size, and what it reports of its training, by id."""

    jobs: tuple[Job, ...]
    table: Throughputs
    curves: dict[int, Curve]


def draw(
    seed: int,
    *,
    jobs: int = 50,
    gap_s: float = 30.0,
    noise: bool = True,
    request: int | None = None,
    keep_batch: bool = False,
) -> Workload:
    """Jobs of the fifty kinds. ``noise``: large batches are worth less; ``request``: every user asks for so many.

    ``keep_batch``: jobs may run on other numbers of devices, with the batch that their users asked for.

    The work of a job is the same whatever its user asked for: a number of samples at the batch of one device.
    """
    random = np.random.default_rng([seed, 50])
    arrival_s = np.cumsum(random.exponential(gap_s, jobs))
    kinds, requests = random.integers(len(KINDS), size=jobs), random.choice(REQUESTS, size=jobs, p=CHANCES)
    spread = np.clip(random.lognormal(0.0, 0.5, size=jobs), 0.2, 3.0)
    drawn, isolated, sizes, scales = list[Job](), dict[Setting, float](), dict[Size, float](), dict[str, float]()
    curves, chance = dict[int, Curve](), np.random.default_rng([seed, 51])
    for j in range(jobs):
        name, samples = KINDS[kinds[j]]
        network, job_type = NETWORKS[name], f"{name} {samples} #{j}"
        own = request or int(requests[j])
        batch = network.batch * own
        for devices in range(1, WIDEST + 1):
            of_all = batch if keep_batch else network.batch * devices
            updates_per_s = 1.0 / update_s(network, devices, of_all)
            sizes[Size(job_type, DEVICE, devices, of_all)] = updates_per_s
            if devices == own:
                isolated[Setting(job_type, DEVICE, own)] = updates_per_s
        worth = 1.0
        if noise:
            scales[job_type] = network.noise_scale
            worth = (network.noise_scale + network.batch) / (network.noise_scale + batch)
        epochs = max(2.0, network.epochs * spread[j]) + EPOCHS_OVER_TARGET
        least, most = (batch, batch) if keep_batch else (network.batch, network.batch * WIDEST)
        elastic = Elastic("batch", 1, WIDEST, batch=batch, batch_least=least, batch_most=most)
        steps = epochs * samples / batch / worth
        drawn.append(Job(j, job_type, steps, own, arrival_s=float(arrival_s[j]), elastic=elastic))
        facts = {"steps": steps, "epochs": epochs, "over": EPOCHS_OVER_TARGET, "samples": samples}
        curves[j] = Curve.draw(chance, **facts, text=name == "bert")
    return Workload(tuple(drawn), Throughputs(isolated, sizes=sizes, noise_scale=scales), curves)


def update_s(network: Network, devices: int, batch: int) -> float:
    """Seconds of an update with so many samples on all of so many devices together.

    A device takes up to twice the network's batch at once; of more it does several in turn.
    """
    samples = batch / devices
    turns = max(1.0, samples / (2 * network.batch))
    compute_s = network.update_s * turns + samples / network.samples_per_s
    if devices == 1:
        return compute_s
    mb_per_s = WITHIN_MB_S if devices <= PER_SERVER else ACROSS_MB_S
    exchange_s = 2 * (devices - 1) / devices * network.gradient_mb / mb_per_s + 0.003 + 0.0003 * devices
    return float((compute_s**OVERLAP + exchange_s**OVERLAP) ** (1.0 / OVERLAP))
