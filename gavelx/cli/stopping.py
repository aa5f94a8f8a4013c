"""Run a user's own policy in a process that can be stopped, so that ``--time-budget`` holds for it as well.

Our own policies need no process, because every solver keeps to its time budget.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gavelx.policies import Policy, load_policy

if TYPE_CHECKING:
    from gavelx.cli.stoppable import Stoppable


@contextmanager
def stoppable(text: str) -> Iterator["Policy | Stoppable"]:
    """The policy that ``text`` describes; in a process of its own if any code in it is not ours."""
    policy = load_policy(text)
    if is_ours(policy):
        yield policy
        return
    from gavelx.cli.stoppable import Stoppable  # noqa: PLC0415  # the service's rooms, for a user's own policy only

    asked = Stoppable(text, str(policy), policy.opens)
    try:
        asked.load()
        yield asked
    finally:
        asked.elsewhere.stop()


def is_ours(policy: object) -> bool:
    """Whether the policy, and every policy inside a modifier, is of a class of gavelx."""
    inside = [value for value in getattr(policy, "__dict__", {}).values() if hasattr(value, "allocate")]
    return type(policy).__module__.partition(".")[0] == "gavelx" and all(map(is_ours, inside))
