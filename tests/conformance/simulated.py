"""The simulator as a backend of the scenarios."""

from collections.abc import Iterable
from pathlib import Path

from gavelx.drive import Backend
from gavelx.mechanism import Mechanism
from gavelx.mechanism.commands import Command, WakeAt
from gavelx.mechanism.events import Event, JobCancelled, ServerOffers, WorkerDrained, WorkerLost
from gavelx.mechanism.history import History
from gavelx.policies import load_policy
from gavelx.simulator import simulate
from gavelx.simulator.backend import SimulatedCluster
from gavelx.simulator.faults import Faults
from tests.conformance.observed import Account, Observed
from tests.conformance.scenario import NOTICE_S, PRICES, TABLE, Happening, Scenario


class Watched:
    """A simulated cluster that somebody looks at, and meddles with."""

    def __init__(self, mechanism: Mechanism, backend: SimulatedCluster, happenings: Iterable[Happening]) -> None:
        self.mechanism, self.backend, self.happenings = mechanism, backend, list(happenings)
        self.history = History()
        self.accounts: dict[int, Account] = {}
        self.cancelled: set[int] = set()
        self._commands: list[Command] = []
        self._next_look_s = 0.0
        self._steps_before: dict[int, float] = {}  # when the last thing happened, by job id

    @property
    def now_s(self) -> float:
        return self.backend.now_s

    def post(self, event: Event) -> None:
        self.backend.post(event)

    def execute(self, command: Command) -> None:
        self._commands.append(command)
        self.backend.execute(command)

    def events(self) -> Iterable[Event]:
        for event in self.backend.events():
            yield event
            self.history.note(event, self._commands)
            self._commands.clear()
            self._look()
            self._happen()
            self._look_again()

    def _look(self) -> None:
        live = self.mechanism.live
        columns = [
            getattr(live, name).tolist() for name in ("steps_done", "promised_s", "held_s", "spent_usd", "done")
        ]
        for job, steps_done, promised_s, received_s, usd, done in zip(live.jobs, *columns, strict=True):
            ended = "" if not done else "cancelled" if job.id in self.cancelled else "complete"
            self.accounts[job.id] = Account(ended, steps_done, promised_s, received_s, usd)

    def _look_again(self) -> None:
        """Soon, as long as something is to happen."""
        if self.happenings and self.now_s >= self._next_look_s:
            self._next_look_s = self.now_s + self.mechanism.rules.round_s / 16
            self.backend.execute(WakeAt(self._next_look_s, report=True))

    def _happen(self) -> None:
        """The next thing that is to happen, if it is time."""
        if not self.happenings:
            return
        next_one = self.happenings[0]
        account, lease = self.accounts.get(next_one.once), self.mechanism.leasing.leases.get(next_one.job_id)
        if account is None or lease is None:
            return
        job, before = self.backend.submitted[next_one.once], self._steps_before.get(next_one.once, 0.0)
        if not next_one.is_time(job, account.steps_done, before, lambda: self.history):
            return
        del self.happenings[0]
        self._steps_before = {job_id: known.steps_done for job_id, known in self.accounts.items()}
        server_id = lease.devices[0].server_id
        match next_one.then:
            case "cancel":
                self.cancelled.add(next_one.job_id)
                self.backend.bring_about(JobCancelled(self.now_s, next_one.job_id))
            case "drain":
                self.backend.bring_about(WorkerDrained(self.now_s, server_id))
            case "offer":
                self.backend.bring_about(ServerOffers(self.now_s, server_id, next_one.devices, notice_s=NOTICE_S))
            case "lose":
                self.backend.bring_about(WorkerLost(self.now_s, server_id))


def run_simulated(scenario: Scenario, folder: Path) -> Observed:
    """Simulate it; what is lost stays lost."""
    watched: list[Watched] = []

    def watch(mechanism: Mechanism, backend: SimulatedCluster) -> Backend:
        watched.append(Watched(mechanism, backend, scenario.happenings))
        return watched[0]

    jobs, cluster = scenario.work(), scenario.cluster
    policy, faults = load_policy(scenario.policy), Faults(outage_s=1e12)
    simulate(policy, jobs, cluster, TABLE, PRICES, rules=scenario.rules, faults=faults, watch=watch)
    assert not watched[0].happenings, "not everything happened"
    return Observed(
        jobs={job.id: job for job in jobs},
        servers={server.id: server for server in cluster.servers},
        history=watched[0].history,
        accounts=watched[0].accounts,
    )
