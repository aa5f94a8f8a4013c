"""Simulate one policy on one list of jobs."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gavelx.allocation import Allocation
from gavelx.asking import Answers
from gavelx.cluster import Cluster
from gavelx.drive import drive
from gavelx.errors import PolicyError
from gavelx.fallback import Steady
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Mechanism, Rules
from gavelx.prices import Prices
from gavelx.result import Result
from gavelx.simulator.backend import SimulatedCluster
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Throughputs
from gavelx.workload import check_workload


def simulate(
    policy: Answers,
    jobs: Sequence[Job],
    cluster: Cluster,
    throughputs: Throughputs,
    prices: Prices | None = None,
    *,
    rules: Rules = DEFAULT,
    window: slice | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Run ``jobs`` under ``policy`` to the end, on a simulated clock.

    With a ``window`` only those jobs (by position) are measured, and the run ends when they are complete.
    ``on_progress(completed, total)`` is called now and then. Raises :class:`WorkloadError` for a job that can
    never run on this cluster, :class:`PolicyError` for a policy that fails or answers nonsense, and for one that
    wants what cannot be simulated yet (see :func:`check_simulated`). A policy that
    starves a job does not raise: the job counts as not completed. Nor do solvers that fail: the previous
    allocation is carried over, and ``solver_failures`` of the result says why.
    """
    check_simulated(policy)
    check_workload(jobs, cluster, throughputs)
    started = time.perf_counter()
    measured = None if window is None else frozenset(job.id for job in jobs[window])
    backend = SimulatedCluster(jobs, cluster, throughputs, measured, whole_rounds=rules.whole_steps)
    mechanism = Mechanism(throughputs, prices, rules)
    stopwatch = _Stopwatch(Steady(policy), backend, len(jobs) if measured is None else len(measured), on_progress)
    drive(mechanism, stopwatch.allocate, backend)
    stopwatch.report()
    completion_s = backend.recorder.completion_s
    return Result(
        policy=str(policy),
        rules=rules.name,
        cluster=cluster,
        jobs=tuple(jobs),
        throughput_JA=throughputs.matrix(jobs, cluster.accelerators),
        usd_per_hour_A=(prices or Prices({})).array(cluster.accelerators),
        completion_s_J=np.array([completion_s.get(job.id, np.nan) for job in jobs]),
        leases=backend.recorder.leases(jobs, cluster.accelerators),
        rounds=mechanism.rounds,
        end_s=backend.recorder.end_s,
        measured=window,
        solver_failures=tuple(stopwatch.policy.failures),
        policy_seconds=stopwatch.seconds,
        wall_seconds=time.perf_counter() - started,
    )


def check_simulated(policy: Answers) -> None:
    """Raise :class:`PolicyError` for a policy that opens pairs or placements.

    The rounds run each job alone and together: such a policy would be measured as if it were not there.
    """
    what = {"pairs": "pairs of jobs on shared devices", "placements": "gangs spread over servers"}
    if unknown := [text for kind, text in what.items() if kind in getattr(policy, "opens", ())]:
        raise PolicyError(
            f"{' and '.join(unknown)} cannot be simulated yet",
            where=str(policy),
            hint="gavelx allocate, for one decision; or the policy without packed(...) and placed(...)",
        )


@dataclass
class _Stopwatch:
    """Asks the policy, measures how long it took, and reports progress on the way."""

    policy: Steady
    backend: SimulatedCluster
    jobs_total: int
    on_progress: Callable[[int, int], None] | None
    seconds: float = 0.0

    def allocate(self, snapshot: Snapshot) -> Allocation:
        started = time.perf_counter()
        allocation = self.policy.allocate(snapshot)
        self.seconds += time.perf_counter() - started
        self.report()
        return allocation

    def report(self) -> None:
        if self.on_progress:
            self.on_progress(min(len(self.backend.recorder.completion_s), self.jobs_total), self.jobs_total)
