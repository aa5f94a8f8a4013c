"""A policy in a process of its own, which is stopped when it takes too long."""

from dataclasses import dataclass, field
from typing import Any

from gavelx.allocation import Allocation
from gavelx.errors import PolicyError, SolverError
from gavelx.service.loop.policy_process import START_S, PolicyProcess, most_s
from gavelx.service.store.allocation_record import allocation_of
from gavelx.snapshot import Kind, Snapshot
from gavelx.solvers import settings


@dataclass
class Stoppable:
    """The policy ``text`` in a process of its own, which is stopped when it takes too long."""

    text: str
    name: str
    opens: frozenset[Kind]
    elsewhere: PolicyProcess = field(default_factory=PolicyProcess)
    loaded: bool = False

    def allocate(self, snapshot: Snapshot) -> Allocation:
        """The policy's allocation. Raises :class:`SolverError` if its time is up, or what the policy raised."""
        if not self.loaded:
            self.load()
        return allocation_of(self._asked(("ask", self.text, snapshot, settings()), most_s(settings())), snapshot)

    def load(self) -> None:
        """Start the process and load the policy there; this does not count towards its time."""
        self._asked(("load", self.text), START_S)
        self.loaded = True

    def _asked(self, question: tuple[Any, ...], limit_s: float) -> Any:
        try:
            return self.elsewhere.asked(question, limit_s)
        except (TimeoutError, EOFError, OSError) as error:
            self.loaded = False
            if not isinstance(error, TimeoutError):
                raise PolicyError("it ended the process that asked it", where=f"policy {self.text}") from None
            problem = f"policy {self.text} took longer than {limit_s:.3g} s and was stopped"
            raise SolverError(f"{problem}. Try: a larger --time-budget") from None

    def __str__(self) -> str:
        return self.name
