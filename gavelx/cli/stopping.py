"""Run a user's own policy in a process that can be stopped, so that ``--time-budget`` holds for it as well.

Our own policies need no process, because every solver keeps to its time budget.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gavelx.allocation import Allocation
from gavelx.errors import PolicyError, SolverError
from gavelx.policies import Policy, load_policy
from gavelx.service.loop.policy_process import START_S, PolicyProcess, most_s
from gavelx.service.store.allocation_record import allocation_of
from gavelx.snapshot import Kind, Snapshot
from gavelx.solvers import settings


@contextmanager
def stoppable(text: str) -> Iterator["Policy | Stoppable"]:
    """The policy that ``text`` describes; in a process of its own if any code in it is not ours."""
    policy = load_policy(text)
    if is_ours(policy):
        yield policy
        return
    asked = Stoppable(text, str(policy), policy.opens, PolicyProcess())
    try:
        asked.load()
        yield asked
    finally:
        asked.elsewhere.stop()


def is_ours(policy: object) -> bool:
    """Whether the policy, and every policy inside a modifier, is of a class of gavelx."""
    inside = [value for value in getattr(policy, "__dict__", {}).values() if hasattr(value, "allocate")]
    return type(policy).__module__.partition(".")[0] == "gavelx" and all(map(is_ours, inside))


@dataclass
class Stoppable:
    """The policy ``text`` in a process of its own, which is stopped when it takes too long."""

    text: str
    name: str
    opens: frozenset[Kind]
    elsewhere: PolicyProcess
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
            self.elsewhere.stop()
            self.loaded = False
            if not isinstance(error, TimeoutError):
                raise PolicyError("it ended the process that asked it", where=f"policy {self.text}") from None
            problem = f"policy {self.text} took longer than {limit_s:.3g} s and was stopped"
            raise SolverError(f"{problem}. Try: a larger --time-budget") from None

    def __str__(self) -> str:
        return self.name
