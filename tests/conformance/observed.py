"""What any backend says of a run: the same leases, accounts and ends, simulated or deployed."""

from collections.abc import Mapping
from dataclasses import dataclass

from gavelx.cluster import Server
from gavelx.jobs import Job
from gavelx.mechanism.history import Held, History
from gavelx.service.state.replay import read_history
from gavelx.service.state.usage import read_usage
from tests.service.billed import check_same, usd_of


@dataclass(frozen=True)
class Account:
    """What the mechanism believes of a job: how it ended, its steps, its time, its bill."""

    ended: str
    steps_done: float
    promised_s: float
    received_s: float
    spent_usd: float
    bits: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Observed:
    """A whole run; ``late_s``: how late things were in all, as this machine had other things to do."""

    jobs: Mapping[int, Job]
    servers: Mapping[int, Server]
    history: History
    accounts: Mapping[int, Account]
    late_s: float = 0.0

    def of(self, job_id: int) -> list[Held]:
        """The leases of a job in which it held its devices."""
        return [held for held in self.history.of(job_id) if held.held_s > 0]


def recorded(place: str, late_s: float) -> Observed:
    """A run by its durable log; to how late its scheduler was comes how late its launches and reports were."""
    state, history = read_history(place)
    ended = {job_id: known.spent_usd for job_id, known in state.jobs.items() if known.ended}
    check_same({i: usd for i, usd in usd_of(read_usage(place)).items() if i in ended}, ended)
    return Observed(
        jobs={job_id: known.job for job_id, known in state.jobs.items()},
        servers={server_id: machine.server for server_id, machine in state.machines.items()},
        history=history,
        accounts={
            job_id: Account(
                *(known.ended, known.steps_done, known.promised_s, known.received_s, known.spent_usd),
                bits=(known.determinism, known.order),
            )
            for job_id, known in state.jobs.items()
        },
        late_s=late_s + sum(held.start_s - held.launched_s for held in history.leases),
    )
