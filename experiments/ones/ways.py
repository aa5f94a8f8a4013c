"""What is compared in ONES's workload, in which settings; and one run of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from experiments.ones.curves import Reporting
from experiments.ones.jobs import DEVICE, PER_SERVER, draw
from experiments.ones.one_shot import OneShot, Planned
from gavelx.cluster import Cluster
from gavelx.mechanism import DEFAULT
from gavelx.mechanism.lengths import Known
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import Goodput, Las2d, Ones, Optimus, Policy, Pollux, SrtfProgram, elastic, load_policy
from gavelx.policies.baselines.ones import OnesPublished
from gavelx.policies.size_limits import Limits
from gavelx.result import Result
from gavelx.simulator import simulate

ROUND_S = 10.0
FULL = 64
BASE = "ones"
"""What every other row is compared with."""
THRESHOLDS = ((1000.0,), (3200.0,), (8000.0,), (1000.0, 8000.0))
"""Of Tiresias, in device-seconds: the best of these for each setting is reported."""
KEPT = "kept"
"""Any number of devices, and the batch as asked."""
Make = Callable[[float], Policy]


@dataclass(frozen=True)
class Way:
    """A policy, told what a change of size costs, and what it knows and may do."""

    make: Make
    batch: str
    lengths: Known = "told"
    reports: bool = False
    request: int | None = None


def _ones(
    *, start: bool = False, up: str = "free", down: str = "none", halve: bool = False, **options: object
) -> Make:
    limits = Limits(start=start, up=up, down=down, halve=halve)  # type: ignore[arg-type]
    return lambda cost_s: elastic(Ones(limits=limits, **{"restart_s": cost_s} | options))  # type: ignore[arg-type]


RULES_OF_ONES: Mapping[str, Way] = {
    "ones": Way(_ones(), "elastic"),
    "ones, lengths believed": Way(_ones(), "elastic", "believed"),
    "ones, training reported": Way(_ones(), "elastic", "believed", reports=True),
    "ones, evolution": Way(_ones(search="evolution"), "elastic"),
    "ones, first epoch on one device": Way(_ones(start=True), "elastic"),
    "ones, the same and doubling": Way(_ones(start=True, up="double"), "elastic"),
    "ones, halving": Way(_ones(halve=True), "elastic"),
    "ones, limit of the largest falls": Way(_ones(down="largest"), "elastic"),
    "ones, printed limit": Way(_ones(start=True, down="paper"), "elastic"),
    "ones, Beta draw": Way(_ones(left="draw"), "elastic"),
    "ones, changes thought free": Way(_ones(restart_s=0.0), "elastic"),
    "ones_published": Way(lambda cost_s: elastic(OnesPublished()), "elastic"),
}
TIRESIAS: Mapping[str, Way] = {
    f"las_2d {' '.join(f'{one:g}' for one in thresholds)}": Way(lambda _, t=thresholds: Las2d(t), "as asked")
    for thresholds in THRESHOLDS
}
OTHERS: Mapping[str, Way] = {
    "srtf_program, power 1": Way(lambda cost_s: elastic(SrtfProgram(1.0, restart_s=cost_s)), "elastic"),
    "srtf_program": Way(lambda cost_s: elastic(SrtfProgram(restart_s=cost_s)), "elastic"),
    "srtf_program, lengths believed": Way(
        lambda cost_s: elastic(SrtfProgram(restart_s=cost_s)), "elastic", "believed"
    ),
    "srtf_program, training reported": Way(
        lambda cost_s: elastic(SrtfProgram(restart_s=cost_s)), "elastic", "believed", reports=True
    ),
    "goodput": Way(lambda cost_s: elastic(Goodput(restart_s=cost_s)), "elastic"),
    "pollux": Way(lambda cost_s: elastic(Pollux(restart_s=cost_s)), "elastic"),
    "max_min_fairness": Way(lambda _: elastic(load_policy("max_min_fairness")), "elastic"),
    "srtf, elastic": Way(lambda _: elastic(load_policy("srtf")), "elastic"),
    "optimus, each minute": Way(lambda _: elastic(Optimus(60.0)), "elastic"),
    "optimus, each ten minutes": Way(lambda _: elastic(Optimus(600.0)), "elastic"),
    **TIRESIAS,
    "las_2d 1000, all ask for 16": Way(lambda _: Las2d((1000.0,)), "as asked", request=16),
    "optimus, planned each ten minutes": Way(
        lambda _: elastic(Planned(Optimus(600.0), 600.0, at_once=False)), KEPT
    ),
    "optimus, the same, free devices at once": Way(
        lambda _: elastic(Planned(Optimus(600.0), 600.0, at_once=True)), KEPT
    ),
    "sized once, 8 to 12": Way(lambda _: elastic(OneShot(0.7, 8, 12)), KEPT),
    "sized once, 4 to 8": Way(lambda _: elastic(OneShot(0.7, 4, 8)), KEPT),
    "sized once, batch grows": Way(lambda _: elastic(OneShot(0.5, 8, 16)), "elastic"),
    "gang_fifo": Way(lambda _: load_policy("gang_fifo"), "as asked"),
}
WAYS: Mapping[str, Way] = {**RULES_OF_ONES, **OTHERS}
NARROW = (
    *("ones", "ones_published", "srtf_program", "goodput", "pollux", "max_min_fairness", *TIRESIAS),
    *("srtf, elastic", "las_2d 1000, all ask for 16", "sized once, 8 to 12"),
    *("optimus, planned each ten minutes", "optimus, the same, free devices at once"),
)
"""What is run on smaller clusters as well."""
AT_ONE_SECOND = frozenset(
    name
    for name, way in WAYS.items()
    if way.reports or name.startswith(("sized", "optimus, planned", "optimus, the"))
)
"""What is run at the full size only where a change takes a second."""


@dataclass(frozen=True)
class Setting:
    """What is the same for all policies that are compared."""

    devices: int
    noise: bool
    change_s: float
    gap_s: float = 30.0

    def __str__(self) -> str:
        worth = "noise scale" if self.noise else "efficiency 1"
        gap = "" if self.gap_s == 30.0 else f", a job each {self.gap_s:g} s"
        return f"{self.devices} devices, {worth}, {self.change_s:g} s a change{gap}"


@dataclass(frozen=True)
class Point:
    setting: Setting
    way: str
    seed: int


def points(devices: Sequence[int], seeds: int, gaps: Sequence[float]) -> Iterator[Point]:
    """Everything at the full size; a part of it on smaller clusters and with other gaps, seed by seed."""
    for noise, change_s in product((False, True), (1.0, 20.0)):
        names = [name for name in WAYS if change_s == 1.0 or name not in AT_ONE_SECOND]
        for way, seed in product(names, range(seeds)):
            yield Point(Setting(FULL, noise, change_s), way, seed)
    others = [(n, 30.0) for n in devices if n != FULL] + [(FULL, gap_s) for gap_s in gaps]
    for seed, (n, gap_s), noise, way in product(range(seeds), others, (False, True), NARROW):
        yield Point(Setting(n, noise, 1.0, gap_s), way, seed)


def run(point: Point, count: int = 50) -> dict[str, float]:
    """One point of those below."""
    return figures(simulated(point.setting, WAYS[point.way], point.seed, count))


def figures(result: Result) -> dict[str, float]:
    """Mean completion of the jobs, and how often they changed their size or were restarted."""
    count = len(result.jobs)
    return {
        "jobs_total": count,
        "jobs_completed": count - len(result.unfinished),
        "stopped": 0,
        "jct_mean_s": float(result.jct_s_J.mean()),
        "jct_max_s": float(result.jct_s_J.max()),
        "changes": float((result.resizes_J + result.restarts_J).sum()) / count,
    }


def simulated(setting: Setting, way: Way, seed: int, count: int = 50) -> Result:
    """So many jobs under a policy."""
    facts = {"noise": setting.noise, "request": way.request, "keep_batch": way.batch == KEPT}
    workload = draw(seed, jobs=count, gap_s=setting.gap_s, **facts)
    overhead = Overhead(checkpoint_s=0.0, restart_s=setting.change_s, resize_s=setting.change_s)
    rules = replace(DEFAULT.with_round(ROUND_S), overheads=Overheads(overhead))
    cluster = Cluster.of({DEVICE: setting.devices}, PER_SERVER)
    return simulate(
        way.make(setting.change_s),
        workload.jobs,
        cluster,
        workload.table,
        rules=rules,
        lengths=way.lengths,
        watch=(lambda _, backend: Reporting(backend, workload.curves)) if way.reports else None,
    )
