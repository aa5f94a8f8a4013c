"""One point of a figure: a policy under a load, with a seed and rules; and what a simulation measures of it."""

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import islice
from typing import Any

import numpy as np

from experiments.mixes import draw_cost_jobs
from gavelx.allocation import Allocation
from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.errors import GavelxError, UserError
from gavelx.files.price_tables import load_prices
from gavelx.files.throughput_tables import load_throughputs
from gavelx.files.traces import find_trace, read_trace
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT
from gavelx.policies import load_policy
from gavelx.policies.base import Policy
from gavelx.policies.modifiers import Modifier
from gavelx.published import PUBLISHED, AnyRules, seeded
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.simulator.random_jobs import draw_jobs
from gavelx.snapshot import Snapshot
from gavelx.spelling import as_spelled
from gavelx.throughputs import Throughputs
from gavelx.workload import runnable

Record = dict[str, Any]
"""What is known of a finished point, as a line of the store holds it."""


@dataclass(frozen=True)
class Point:
    """A simulation, in full but for the throughput table (``simulation``) and the meaning of the rules' name.

    * ``policy``: as on the command line of ``gavelx simulate``;
    * ``rate``: jobs that arrive per hour; 0: all are there at the start;
    * ``jobs``: how many there are; None: they keep coming until those of the ``window`` are complete;
    * ``window``: positions (first, end) of the jobs that are measured; None: all;
    * ``prices``: dollars per device-hour, as ``--prices``; empty: no bill;
    * ``mix``: what kind of jobs; empty: the published recipe, ``cost``: `mixes.draw_cost_jobs`;
    * ``trace``: a bundled one, of which all jobs are taken that can run somewhere; empty: jobs are drawn;
    * ``devices_per_server``: as ``--devices-per-server``; ``elasticity``: as ``--elasticity``.
    """

    policy: str
    cluster: str
    rate: float
    jobs: int | None = None
    window: tuple[int, int] | None = None
    multi_gpu: bool = False
    seed: int = 0
    rules: str = "published"
    prices: str = ""
    mix: str = ""
    trace: str = ""
    devices_per_server: int = 1
    elasticity: str = ""

    @property
    def measured(self) -> range:
        """Ids of the jobs that are measured."""
        if self.window is not None:
            return range(*self.window)
        if self.trace:
            return range(len(_of_trace(self)))
        assert self.jobs is not None, self
        return range(self.jobs)

    def to_json(self) -> Record:
        return asdict(self)

    @staticmethod
    def from_json(fields: Record) -> "Point":
        return Point(**{**fields, "window": tuple(fields["window"]) if fields["window"] else None})

    def __str__(self) -> str:
        load = f"{self.rate:g} jobs/h" if self.rate else self.trace or f"{self.jobs} jobs"
        return f"{self.policy}, {load}, {'several devices, ' * self.multi_gpu}seed {self.seed}, {self.rules}"


TRIAL = Point("fifo", "v100=1,p100=1,k80=1", rate=0.0, jobs=1, prices="v100=3,p100=2,k80=1")


@dataclass(frozen=True)
class Limits:
    """When to give a point up: overloaded clusters may never be done with the jobs that are measured.

    ``patience_h`` are simulated hours after the last measured job was due; ``cpu_s`` seconds of processor time.
    """

    cpu_s: float = 300.0
    patience_h: float = 5000.0


def measure(point: Point, rules: AnyRules, limits: Limits) -> Record:
    """Simulate the point and say what came of it.

    Where a limit ended the run, ``stopped`` says which and ``jobs_completed`` how many of the measured jobs were
    done; there are no means, for a mean over those that happened to be done would flatter the policy. Raises what
    `simulate` raises.
    """
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    try:
        figures = _figures(_simulate(point, rules, limits), point)
    except LimitReachedError as limit:
        figures = {"stopped": limit.why, "jobs_total": len(point.measured), "jobs_completed": limit.completed}
    spent = {"wall_seconds": time.perf_counter() - wall_s, "cpu_seconds": time.process_time() - cpu_s}
    return {"point": point.to_json(), "limits": asdict(limits), **figures, **spent}


def why_not(policy: str) -> str:
    """Why this policy cannot be simulated (yet), found by trying it on a job; empty where it can."""
    try:
        rules = DEFAULT if "sizes" in load_policy(policy).opens else PUBLISHED  # of which these know nothing
        measure(replace(TRIAL, policy=policy), rules, Limits())
    except UserError as error:
        return error.problem
    return ""


def _simulate(point: Point, rules: AnyRules, limits: Limits) -> Result:
    cluster = cluster_of(point)
    return simulate(
        Limited(load_policy(point.policy), point, limits),
        jobs_of(point),
        cluster,
        speeds(),
        load_prices(point.prices, cluster.accelerators) if point.prices else None,
        rules=seeded(rules, point.seed),
        window=slice(*point.window) if point.window else None,
    )


def cluster_of(point: Point) -> Cluster:
    """The cluster of the point."""
    return Cluster.parse(point.cluster, point.devices_per_server)


def jobs_of(point: Point) -> Iterable[Job]:
    """The jobs of the point; without end where they keep coming."""
    if point.trace:
        return _of_trace(point)
    if point.mix == "cost":
        jobs = draw_cost_jobs(speeds(), rate_per_hour=point.rate, seed=point.seed)
    else:
        assert not point.mix, point
        jobs = draw_jobs(speeds(), arrival_rate_per_hour=point.rate, seed=point.seed, multi_gpu=point.multi_gpu)
    if point.elasticity:
        elastic = Elastic.of(point.elasticity)
        jobs = (replace(job, elastic=elastic.around(job.scale_factor)) for job in jobs)
    return jobs if point.jobs is None else tuple(islice(jobs, point.jobs))


@cache
def _of_trace(point: Point) -> tuple[Job, ...]:
    """The jobs of the trace that can run somewhere in the cluster, numbered anew."""
    jobs = as_spelled(read_trace(find_trace(point.trace)), speeds().job_types)
    can_run = runnable(jobs, cluster_of(point), speeds())
    return tuple(replace(job, id=n) for n, job in enumerate(can_run))


def _figures(result: Result, point: Point) -> Record:
    figures = {"stopped": "", **result.summary()}
    for name in ("policy", "rules", "wall_seconds"):
        del figures[name]
    if point.window and point.seed == 0:  # the published ratio of fairness compares seed 0, job by job
        figures["jct_s_J"] = [
            None if np.isnan(jct_s) else round(jct_s, 1) for jct_s in result.jct_s_J[slice(*point.window)].tolist()
        ]
    return figures


@cache
def speeds() -> Throughputs:
    """The table behind all points."""
    return load_throughputs("simulation")


class LimitReachedError(GavelxError):
    """The run has taken too long; ``completed`` of the measured jobs are done."""

    def __init__(self, why: str, completed: int) -> None:
        super().__init__(why)
        self.why, self.completed = why, completed


class Limited(Modifier):
    """The same policy, until a limit is reached: then it raises :class:`LimitReachedError`.

    It is asked at every arrival and completion, so it is the one that notices, whatever the simulator does.
    """

    def __init__(self, policy: Policy, point: Point, limits: Limits) -> None:
        super().__init__(policy)
        due_h = point.measured.stop / point.rate if point.rate else 0.0
        self.end_s = (due_h + limits.patience_h) * 3600.0
        self.cpu_end_s = time.process_time() + limits.cpu_s
        self.limits, self.measured, self.arrived = limits, point.measured, 0

    def allocate(self, snapshot: Snapshot) -> Allocation:
        self.arrived = max(self.arrived, snapshot.jobs[-1].id + 1)
        if snapshot.time_s > self.end_s:
            raise LimitReachedError(f"{self.end_s / 3600:,.0f} simulated hours", self._completed(snapshot))
        if time.process_time() > self.cpu_end_s:
            raise LimitReachedError(f"{self.limits.cpu_s:g} s of processor time", self._completed(snapshot))
        return self.policy.allocate(snapshot)

    def _completed(self, snapshot: Snapshot) -> int:
        """Measured jobs that have come and are no longer there."""
        live = {job.id for job in snapshot.jobs}
        return sum(job_id < self.arrived and job_id not in live for job_id in self.measured)
