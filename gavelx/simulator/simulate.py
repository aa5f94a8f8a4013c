"""Simulate one policy on one list of jobs."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gavelx.allocation import Allocation
from gavelx.asking import Answers
from gavelx.cluster import Cluster
from gavelx.drive import drive
from gavelx.fallback import Steady
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Mechanism, Rules
from gavelx.prices import Prices
from gavelx.result import Result
from gavelx.simulator.backend import SimulatedCluster
from gavelx.simulator.faults import NO_FAULTS, Faults
from gavelx.snapshot import Kind, Snapshot
from gavelx.throughputs import Throughputs
from gavelx.workload import check_workload, checked


def simulate(
    policy: Answers,
    jobs: Iterable[Job],
    cluster: Cluster,
    throughputs: Throughputs,
    prices: Prices | None = None,
    *,
    rules: Rules = DEFAULT,
    window: slice | None = None,
    faults: Faults = NO_FAULTS,
    price_changes: Sequence[tuple[float, Prices]] = (),
    on_progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Run ``jobs`` under ``policy`` to the end, on a simulated clock.

    With a ``window`` only those jobs (by position) are measured, and the run ends when they are complete; then
    ``jobs`` may also be an endless iterator, in order of arrival, and the result holds those that came.
    ``faults`` says what goes wrong on the way, ``price_changes`` when prices become others.
    ``on_progress(completed, total)`` is called now and then. Raises :class:`WorkloadError` for a job that can
    never run on this cluster, :class:`PolicyError` for a policy that fails or answers nonsense. A policy that
    starves a job does not raise: the job counts as not completed. Nor do solvers that fail: the previous
    allocation is carried over, and ``solver_failures`` of the result says why. The books of the run are kept by an
    independent ledger, and a run whose books do not add up raises :class:`LedgerError`.
    """
    started = time.perf_counter()
    if isinstance(jobs, Sequence):
        check_workload(jobs, cluster, throughputs)
        jobs = sorted(jobs, key=lambda job: job.arrival_s)
        measured = None if window is None else range(len(jobs))[window]
    else:
        assert window is not None, "jobs without end need a window"
        jobs, measured = checked(jobs, cluster, throughputs), range(window.start, window.stop)
    backend = SimulatedCluster(jobs, cluster, throughputs, rules, measured, faults, price_changes)
    mechanism = Mechanism(throughputs, prices, rules, policy_opens(policy))
    stopwatch = _Stopwatch(Steady(policy, rules.interior), backend, on_progress)
    drive(mechanism, stopwatch.allocate, backend)
    stopwatch.report()
    completion_s = backend.recorder.completion_s
    submitted, accelerators = tuple(backend.submitted), cluster.accelerators
    return Result(
        policy=str(policy),
        rules=rules.name,
        cluster=cluster,
        jobs=submitted,
        throughput_JA=throughputs.matrix(submitted, accelerators),
        usd_per_hour_A=(prices or Prices({})).array(accelerators),
        completion_s_J=np.array([completion_s.get(job.id, np.nan) for job in submitted]),
        leases=backend.recorder.leases({job.id: j for j, job in enumerate(submitted)}, accelerators),
        rounds=mechanism.rounds,
        end_s=backend.recorder.end_s,
        measured=window,
        solver_failures=tuple(stopwatch.policy.failures),
        price_changes=tuple((time_s, later.array(accelerators)) for time_s, later in price_changes),
        given_up=tuple(mechanism.given_up),
        policy_seconds=stopwatch.seconds,
        wall_seconds=time.perf_counter() - started,
    )


def policy_opens(policy: Answers) -> frozenset[Kind]:
    """The kinds of configuration that a policy is to be told of; one that is not ours may say nothing of it."""
    return getattr(policy, "opens", frozenset())


@dataclass
class _Stopwatch:
    """Asks the policy, measures how long it took, and reports progress on the way."""

    policy: Steady
    backend: SimulatedCluster
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
            self.on_progress(*self.backend.progress())
