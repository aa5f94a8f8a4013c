"""Run one case from end to end, under audit."""

import warnings
from collections.abc import Callable, Iterator

from gavelx.mechanism import Mechanism, Rules
from gavelx.mechanism.commands import Command
from gavelx.mechanism.events import Event
from gavelx.policies import load_policy
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.simulator.backend import SimulatedCluster
from gavelx.simulator.ledger import LedgerError
from tests.swarm.audit import Audit
from tests.swarm.cases import Case, case_of
from tests.swarm.log import line

EVENTS_MAX = 40_000
"""A run of so few jobs that takes more will never end."""
Write = Callable[[str], object]


def run(case: Case, write: Write = lambda text: None) -> Result:
    """The result of the case; ``write`` gets its log, line by line.

    Raises :class:`LedgerError` when the mechanism and the facts do not agree, and whatever else went wrong.
    """
    write(f"{case}\n")
    watched = isinstance(case.rules, Rules)
    result = simulate(
        load_policy(case.policy),
        case.jobs,
        case.cluster,
        case.throughputs,
        case.prices,
        rules=case.rules,
        faults=case.faults,
        price_changes=case.price_changes,
        capacities=case.lending,
        lengths=case.lengths,
        watch=(lambda mechanism, backend: Watched(mechanism, backend, write)) if watched else None,
    )
    check_all_done(result)
    if not watched:
        leases = result.leases
        for row in zip(*(column.tolist() for column in vars(leases).values()), strict=True):
            write(f"lease {row}\n")
    for job, completion_s in zip(result.jobs, result.completion_s_J.tolist(), strict=True):
        write(f"job {job.id} complete at {completion_s!r}\n")
    return result


def check_all_done(result: Result) -> None:
    """Every job is complete, or was given up."""
    if result.unfinished:
        raise LedgerError(f"jobs {result.unfinished} are never done")


def outcome(seed: int) -> tuple[int, str]:
    """A seed, and what is wrong with it; nothing, if all is well. Warnings count as wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run(case_of(seed))
    except Exception as problem:  # whatever it is, it has to be reported with its seed
        return seed, named(problem)
    return seed, ""


def named(problem: Exception) -> str:
    """What kind of problem it is, and which."""
    return f"{type(problem).__name__}: {problem}"


class Watched:
    """A simulated cluster that writes everything down that passes, and has it audited."""

    def __init__(self, mechanism: Mechanism, backend: SimulatedCluster, write: Write) -> None:
        self.mechanism, self.backend, self.write = mechanism, backend, write
        self.audit = Audit(mechanism, backend)
        self.now_s = 0.0

    def events(self) -> Iterator[Event]:
        """What happens, each event audited when it has been handled."""
        for count, event in enumerate(self.backend.events()):
            self.backend.ledger.require(count < EVENTS_MAX, f"no end after {count} events")
            self.backend.ledger.require(event.time_s >= self.now_s, f"time went back from {self.now_s} s: {event}")
            self.now_s = event.time_s
            self._write("<", event)
            before = dict(self.mechanism.leasing.leases)
            yield event
            self.audit.after(event, before)
        self.audit.at_the_end()

    def execute(self, command: Command) -> None:
        """Do what the mechanism wants."""
        self._write(">", command)
        self.backend.execute(command)

    def post(self, event: Event) -> None:
        """The policy has answered."""
        self.backend.post(event)

    def _write(self, sign: str, what: Event | Command) -> None:
        self.write(f"{sign} {line(self.now_s, what)}\n")
