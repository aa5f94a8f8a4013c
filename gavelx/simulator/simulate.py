"""Simulate one policy on one list of jobs."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gavelx.allocation import Allocation
from gavelx.asking import Allocator, policy_opens
from gavelx.cluster import Cluster
from gavelx.drive import Backend, drive
from gavelx.fallback import FallbackPolicy
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Mechanism, Rules
from gavelx.mechanism.lengths import Known as Lengths
from gavelx.mechanism.lengths import Lengths as BelievedLengths
from gavelx.prices import Prices
from gavelx.result import Result
from gavelx.simulator.backend import SimulatedCluster
from gavelx.simulator.capacity import Capacity
from gavelx.simulator.faults import NO_FAULTS, Faults
from gavelx.simulator.learning import RELEARN_S, Learning, Learns, Lessons, where_it_runs
from gavelx.simulator.ledger import Ledger, usd_between
from gavelx.simulator.recorder import Known
from gavelx.snapshot import Kind, Snapshot
from gavelx.throughputs import Throughputs
from gavelx.workload import check_workload, checked

if TYPE_CHECKING:
    from gavelx.published import AnyRules
    from gavelx.published.run import PublishedRun

    Ran = SimulatedCluster | PublishedRun

SLEEP_S = 1e6
"""A simulated scheduler does not fall silent."""


def simulate(
    policy: Allocator,
    jobs: Iterable[Job],
    cluster: Cluster,
    throughputs: Throughputs,
    prices: Prices | None = None,
    *,
    rules: "AnyRules" = DEFAULT,
    window: slice | None = None,
    faults: Faults = NO_FAULTS,
    price_changes: Sequence[tuple[float, Prices]] = (),
    capacities: Sequence[Capacity] = (),
    on_progress: Callable[[int, int], None] | None = None,
    watch: Callable[[Mechanism, SimulatedCluster], Backend] | None = None,
    believed: Throughputs | Learns | None = None,
    lengths: Lengths = "told",
) -> Result:
    """Run ``jobs`` under ``policy`` to the end, on a simulated clock.

    With a ``window`` only those jobs (by position) are measured, and the run ends when they are complete; then
    ``jobs`` may also be an endless iterator, in order of arrival, and the result holds those that came.
    ``faults`` says what goes wrong on the way, ``price_changes`` when prices become others, ``capacities`` when
    servers are taken away and given back.
    ``on_progress(completed, total)`` is called now and then; ``watch`` may put a backend that looks on before
    the simulated one. With ``believed``, jobs run at the speeds of ``throughputs`` while policy and mechanism know
    only those believed: a table, or a learner that is told how fast leases ran (:mod:`gavelx.simulator.learning`).
    ``lengths`` is what they know of the lengths of jobs: ``told``, the truth; ``believed``, what the jobs of the
    same type and owner show that ended before (:mod:`gavelx.mechanism.lengths`); ``unknown``, nothing.
    The rules ``published`` have a simulator of their own (:mod:`gavelx.published`): no message is lost or late in
    it, no policy slow, no server taken away, and ``watch`` has nothing to look at.

    Raises :class:`WorkloadError` for a job that can never run on this cluster, :class:`PolicyError` for a policy
    that fails or answers nonsense, :class:`OptionError` for what the rules know nothing of. A policy that starves
    a job does not raise: the job counts as not completed. Nor do solvers that fail: the previous allocation is
    carried over, and ``solver_failures`` of the result says why. The books of the run are kept by an independent
    ledger, and a run whose books do not add up raises :class:`LedgerError`.
    """
    started = time.perf_counter()
    told = _told(throughputs, believed)
    jobs, measured = _in_order(jobs, cluster, told, window, policy_opens(policy))
    prices, price_changes = prices or Prices({}), sorted(price_changes, key=lambda change: change[0])
    ledger, opens = Ledger(usd_between(prices, price_changes)), policy_opens(policy)
    lessons = None if believed is None or isinstance(believed, Throughputs) else Lessons(believed, throughputs)
    ran: Ran
    if isinstance(rules, Rules):
        world = (jobs, cluster, throughputs, rules, measured, faults, price_changes, capacities)
        ran = SimulatedCluster(*world, ledger=ledger, hide_lengths=lengths != "told")
        history = BelievedLengths(learns=lengths == "believed")
        sleep_s = (
            SLEEP_S if lessons is None else RELEARN_S
        )  # what is learned may change a round like the one before
        mechanism = Mechanism(told, prices, replace(rules, sleep_s=sleep_s), opens, history)
        stopwatch = _Stopwatch(FallbackPolicy(policy), ran, on_progress)
        _drive(mechanism, stopwatch, ran, watch(mechanism, ran) if watch else ran, lessons)
        known = known_by(mechanism)
    else:
        from gavelx.published import policies, run  # noqa: PLC0415

        run.refuse(rules, faults, capacities, watch, lengths, opens)
        facts = (jobs, cluster, throughputs, rules, measured, faults, price_changes, ledger)
        ran = run.PublishedRun(*facts, told, prices, opens, lessons)
        stopwatch = _Stopwatch(FallbackPolicy(policies.as_published(policy)), ran, on_progress)
        known = ran.run(stopwatch.allocate)
    stopwatch.report()
    failures = tuple(stopwatch.policy.failures)
    result = result_of(ran, known, prices, window, failures=failures, policy_seconds=stopwatch.seconds)
    result = replace(result, policy=str(policy))
    return replace(result, wall_seconds=time.perf_counter() - started)


def _drive(
    mechanism: Mechanism, stopwatch: "_Stopwatch", ran: SimulatedCluster, seen: Backend, lessons: Lessons | None
) -> None:
    """Run to the end; with ``lessons``, the scheduler learns how fast leases ran."""
    if lessons is not None:
        ran.ran, seen = lessons.ran, Learning(seen, lessons)
    drive(mechanism, stopwatch.allocate, seen)


def _in_order(
    jobs: Iterable[Job], cluster: Cluster, told: Throughputs, window: slice | None, opens: frozenset[Kind]
) -> tuple[Iterable[Job], range | None]:
    """Jobs as they arrive, each of which can run, and the positions of those that are measured (None: all)."""
    if isinstance(jobs, Sequence):
        check_workload(jobs, cluster, told, opens=opens)
        return sorted(jobs, key=lambda job: job.arrival_s), None if window is None else range(len(jobs))[window]
    assert window is not None, "jobs without end need a window"
    return checked(jobs, cluster, told, opens=opens), range(window.start, window.stop)


def known_by(mechanism: Mechanism) -> Known:
    """What the scheduler believes at the end."""
    live = mechanism.live
    credited = {job_id: float(live.steps_done[j]) for job_id, j in live.index.items()}
    most_behind_s = mechanism.accounts.most_behind_s
    return Known(mechanism.rounds, tuple(mechanism.given_up), most_behind_s, credited)


def result_of(
    ran: "Ran",
    known: Known,
    prices: Prices,
    window: slice | None = None,
    *,
    failures: tuple[str, ...] = (),
    policy_seconds: float = 0.0,
) -> Result:
    """What has happened, by the log of the run. Raises :class:`LedgerError` if the books do not add up."""
    submitted, log, types = tuple(ran.submitted), ran.recorder, ran.cluster.accelerators
    result = Result(
        policy="",
        rules=ran.rules.name,
        cluster=ran.cluster,
        jobs=submitted,
        throughput_JA=ran.throughputs.matrix(submitted, types),
        usd_per_hour_A=prices.array(types),
        completion_s_J=np.array([log.completion_s.get(job.id, np.nan) for job in submitted]),
        leases=log.leases({job.id: j for j, job in enumerate(submitted)}, types),
        rounds=known.rounds,
        end_s=log.end_s,
        measured=window,
        solver_failures=failures,
        price_changes=tuple((time_s, later.array(types)) for time_s, later in ran.price_changes),
        given_up=known.given_up,
        most_behind_s=known.most_behind_s,
        lost_device_s=ran.ledger.lost_device_s,
        policy_seconds=policy_seconds,
        prices=prices.name,
    )
    until_s = [*result.periods_s[1:], result.end_s]
    there_s_KA = [[ran.ledger.available_s(name, time_s) for name in types] for time_s in until_s]
    result = replace(result, up_s_KA=np.diff(there_s_KA, axis=0, prepend=0.0))
    _check_books(result, ran, known)
    return result


def _told(true: Throughputs, believed: Throughputs | Learns | None) -> Throughputs:
    """What the scheduler is told about speeds."""
    if believed is None:
        return true
    return where_it_runs(believed if isinstance(believed, Throughputs) else believed.throughputs(), true)


def _check_books(result: Result, ran: "Ran", known: Known) -> None:
    """What the scheduler believes and what is billed, against what the devices did."""
    ledger = ran.ledger
    ledger.check_credit(ran.now_s, known.credited)
    completed = zip(result.jobs, np.isfinite(result.completion_s_J).tolist(), strict=True)
    ledger.check_complete({job.id: job.total_steps for job, complete in completed if complete})
    if isinstance(ran, SimulatedCluster):  # the published one bills more than the time of devices
        types = result.cluster.accelerators
        ledger.check_bill_by_type(dict(zip(types, result.cost_usd_A.tolist(), strict=True)))


@dataclass
class _Stopwatch:
    """Asks the policy, measures how long it took, and reports progress on the way."""

    policy: FallbackPolicy
    ran: "Ran"
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
            self.on_progress(*self.ran.progress())
