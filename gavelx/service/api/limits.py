"""Limits on submissions: how many live jobs a caller may have, and how much they may weigh.

Half of the queue is kept for the accounts, in equal parts: an account finds its part free, whatever others submit.
The other half is for those that come first, up to what operators allow each user.
"""

from collections.abc import Collection
from dataclasses import dataclass

import grpc

from gavelx.errors import UserError
from gavelx.rpc.refused import RefusedError
from gavelx.service.api.auth import Caller
from gavelx.service.state.state import State

LIVE_JOBS_MAX = 100_000


@dataclass(frozen=True)
class Limits:
    """What operators allow each user; they themselves are not bound by it."""

    jobs: int = 10_000
    weight: float = 10.0


@dataclass(frozen=True)
class Allowance:
    """What one caller may submit, beside all others. ``accounts``: the owners that may submit at all."""

    caller: Caller
    accounts: Collection[str] = ("local",)
    limits: Limits = Limits()

    def check_weight(self, weight: float) -> None:
        """Raises :class:`UserError` for a job that weighs more than operators allow."""
        if self.caller.role == "user" and weight > self.limits.weight:
            expected = f"at most {self.limits.weight:g}, as operators say (gavelx serve --max-weight)"
            raise UserError(f"weight is {weight:g}", expected=expected)

    def check_jobs(self, state: State, jobs: int) -> None:
        """Raises :class:`RefusedError` for so many more jobs than there is room for."""
        owner, most = self.caller.owner, self.limits.jobs
        mine = state.submitted_of(owner)
        if self.caller.role == "user" and mine + jobs > most:
            problem = f"{mine} jobs of {owner} are live, {jobs} more would be {mine + jobs}, and {most} may be"
            problem += " (gavelx serve --max-jobs)"
            raise RefusedError(grpc.StatusCode.RESOURCE_EXHAUSTED, problem)
        if mine + jobs > self._most(state):
            places = f"the queue has {LIVE_JOBS_MAX} places, some of them kept for other accounts"
            problem = f"{mine} jobs of {owner} are live, and there is no room for {jobs} more: {places}"
            raise RefusedError(grpc.StatusCode.RESOURCE_EXHAUSTED, problem)

    def _most(self, state: State) -> int:
        """How many live jobs of the caller the queue has places for."""
        part = LIVE_JOBS_MAX // 2 // max(1, len(self.accounts))
        others = {*self.accounts, *state.live_of} - {self.caller.owner}
        taken = sum(max(state.submitted_of(each), part if each in self.accounts else 0) for each in others)
        return max(part, LIVE_JOBS_MAX - taken)
