"""The audit: after each event, what the mechanism believes against what is so.

It may be behind the facts, by what it has not been told yet, and by nothing else. What is so, the simulated
machines say, and the ledger that they write to.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from gavelx.mechanism import Mechanism
from gavelx.mechanism.commands import Lease
from gavelx.mechanism.events import (
    Event,
    LeaseEnded,
    Progress,
    ServerOffers,
    WorkerDrained,
    WorkerJoined,
    WorkerLost,
)
from gavelx.simulator.backend import SimulatedCluster
from gavelx.simulator.ledger import ROUNDING

TAKES = WorkerDrained | WorkerJoined | WorkerLost | ServerOffers
"""What takes devices from jobs, protected or not."""


@dataclass
class Audit:
    """Compares a mechanism with the cluster that it runs. Raises :class:`LedgerError` for what does not agree."""

    mechanism: Mechanism
    backend: SimulatedCluster
    _lost_s: Counter[int] = field(default_factory=Counter)  # by job id, by what leases said
    _protected: set[int] = field(default_factory=set)  # ids of jobs that lost their work and saved nothing since
    _ended: set[int] = field(default_factory=set)  # leases that said so
    _since_s: dict[int, float] = field(default_factory=dict)  # of each lease

    def after(self, event: Event, before: Mapping[int, Lease]) -> None:
        """The event has been handled and its commands carried out; these were the leases ``before`` it, by job."""
        self._note(event)
        self._a_protected_job_is_not_preempted(event, before)
        self._nobody_is_credited_with_more_than_was_done()
        self._what_was_lost_is_not_credited(event, before)
        self._leases_are_what_runs()
        self._the_books_agree()
        self._servers_are_known()

    def at_the_end(self) -> None:
        """Nothing can happen any more: every job is complete or was given up for a reason, and that is known."""
        given_up, ledger = self.mechanism.given_up, self.backend.ledger
        for job_id in given_up:
            failed, most = ledger.failures[job_id], self.mechanism.rules.max_failures
            ledger.require(failed >= most, f"job {job_id} given up after {failed} failures, of {most} allowed")
        over = self.backend.recorder.completion_s.keys() | set(given_up)
        for job in self.backend.jobs:
            ledger.require(job.id in over, f"job {job.id} is never done")
        live, leases = self.mechanism.live, self.mechanism.leasing.leases
        unknown = [job.id for job, done in zip(live.jobs, live.done.tolist(), strict=True) if not done]
        ledger.require(not unknown, f"jobs {unknown} are done, and the mechanism does not know")
        ledger.require(not leases, f"leases of jobs that are done: {leases}")

    def _note(self, event: Event) -> None:
        """What was said of work that is lost, and of work that is saved."""
        for lease in self.mechanism.leasing.leases.values():
            since_s = self._since_s.get(lease.id if lease.continues is None else lease.continues, event.time_s)
            self._since_s.setdefault(lease.id, since_s)
        if isinstance(event, LeaseEnded) and event.lease_id not in self._ended:
            self._ended.add(event.lease_id)
            self._lost_s[event.job_id] += event.lost_s  # type: ignore[assignment]
            if event.lost_s > 0:
                self._protected.add(event.job_id)
            elif event.steps_done > 0:
                self._protected.discard(event.job_id)
        if isinstance(event, Progress):
            saved_L = event.saved_steps_L > 0
            self._protected -= set(event.job_id_L[saved_L].tolist())

    def _a_protected_job_is_not_preempted(self, event: Event, before: Mapping[int, Lease]) -> None:
        """Its lease ends by itself, or with its server, or when it has had its time.

        With one owner that is all there is to it; an allocation without backfill may take its share away.
        """
        mechanism, leasing, live = self.mechanism, self.mechanism.leasing, self.mechanism.live
        one_owner = len({job.owner for job in self.backend.jobs}) == 1
        if isinstance(event, TAKES | LeaseEnded) or not one_owner:
            return
        for job_id, lease in before.items():
            j = live.index.get(job_id)
            present = leasing.leases.get(job_id)
            if (
                lease is present
                or (present is not None and present.continues == lease.id)
                or j is None
                or live.done[j]
                or (not mechanism.execution.backfill and not live.share[j])
            ):
                continue  # it runs on, or may not
            option = live.jobs[j].preemptible
            protected = option == "no" or (option == "auto" and job_id in self._protected)
            may_s = max(mechanism.rules.protect_s, 2.0 * self._lost_s[job_id])
            had_s = event.time_s - self._since_s[lease.id]
            self.backend.ledger.require(
                not protected or had_s >= may_s * (1 - ROUNDING),
                f"job {job_id} was preempted, and may have lost its work",
            )

    def _nobody_is_credited_with_more_than_was_done(self) -> None:
        live = self.mechanism.live
        credited = {job.id: steps for job, steps in zip(live.jobs, live.steps_done.tolist(), strict=True)}
        self.backend.ledger.check_credit(self.backend.now_s, credited)

    def _what_was_lost_is_not_credited(self, event: Event, before: Mapping[int, Lease]) -> None:
        """Who has just been heard to have lost his devices is credited with what he has left."""
        if not isinstance(event, LeaseEnded | WorkerLost | WorkerJoined):
            return
        live, leases = self.mechanism.live, self.mechanism.leasing.leases
        for job_id in before.keys() - leases.keys():
            if (j := live.index.get(job_id)) is not None and not live.done[j]:
                left = self.backend.ledger.stands(job_id)
                self.backend.ledger.at_most(
                    float(live.steps_done[j]), left, f"credit of job {job_id} after a loss"
                )

    def _leases_are_what_runs(self) -> None:
        """A lease is held, waits for its devices, or the news of its end is on its way; and nothing else runs."""
        ledger, leases = self.backend.ledger, self.mechanism.leasing.leases
        launched = self.backend.launched()
        for lease in leases.values():
            known = lease.id in launched or self._unheard(lease)
            ledger.require(known, f"the mechanism believes in {lease}, which is over")
        stray = launched - {lease.id for lease in leases.values()}
        ledger.require(not stray, f"leases {stray} run, and the mechanism has forgotten them")

    def _unheard(self, lease: Lease) -> bool:
        servers = {device.server_id for device in lease.devices}
        return any(
            (isinstance(event, LeaseEnded) and event.lease_id == lease.id)
            or (isinstance(event, WorkerLost) and event.server_id in servers)
            or (isinstance(event, WorkerJoined) and event.server.id in servers)
            or (isinstance(event, ServerOffers) and event.server_id in servers)
            for event in self.backend.unheard()
        )

    def _the_books_agree(self) -> None:
        try:
            self.mechanism.validate()
        except AssertionError as error:
            self.backend.ledger.require(False, str(error))

    def _servers_are_known(self) -> None:
        """The mechanism knows the servers that there are."""
        ledger, hardware = self.backend.ledger, self.mechanism.hardware
        told = {
            e.server.id if isinstance(e, WorkerJoined) else e.server_id
            for e in self.backend.unheard()
            if isinstance(e, WorkerJoined | WorkerLost | ServerOffers)
        }
        wrong = (hardware.servers.keys() ^ ledger.servers.keys()) - told
        ledger.require(not wrong, f"servers {wrong}: whether they are there, the mechanism is wrong and was told")
        for server_id in hardware.servers.keys() - told - wrong:
            lends, offered = (books.servers[server_id].device_count for books in (ledger, hardware))
            ledger.require(
                offered <= lends,
                f"server {server_id} lends {lends} devices, and the mechanism thinks {offered} and was told",
            )
