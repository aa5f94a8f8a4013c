"""Votes of all processes between two steps: whether to leave, to save or to resize, and when to vote again."""

import time

from gavelx.training.gang import Agreement, Vote
from gavelx.training.lease import Lease
from gavelx.training.progress import Progress
from gavelx.training.regroup import Regroup

VOTE_EVERY_S = 1.0
"""Seconds between votes of several processes; a vote takes a fraction of a millisecond."""
SPARE_S = 1.0
"""Seconds kept free before the end of a lease, besides the time to save."""


class Votes:
    """When the next vote is due, by the time that a step took since the last one."""

    def __init__(self, progress: Progress, lease: Lease, regroup: Regroup | None) -> None:
        self._progress, self._lease, self._regroup = progress, lease, regroup
        self.begin()

    def begin(self) -> None:
        """The next step ends with a vote, and the time of steps is measured from now on."""
        self._voted_s, self._voted_step = time.monotonic(), self._progress.step
        self._next_step = self._progress.step

    @property
    def due(self) -> bool:
        return self._progress.step >= self._next_step

    def take(self, agreement: Agreement, *, save: bool, save_s: float) -> Vote:
        """What all processes do now; ``save`` is what this one wants, ``save_s`` how long the last one took."""
        step, now_s = self._progress.step, time.monotonic()
        step_s = (now_s - self._voted_s) / max(1, step - self._voted_step)
        regroup = self._regroup
        all_ = agreement.vote(
            Vote(
                stop=self._lease.over(step, 1.5 * save_s + 2 * step_s + SPARE_S),
                save=save,
                within=self._steps_until_next(step_s, agreement),
                ready=regroup is not None and regroup.ready(),
                generation=regroup.heard if regroup else 0,
            )
        )
        self._voted_s, self._voted_step, self._next_step = now_s, step, step + all_.within
        return all_

    def _steps_until_next(self, step_s: float, agreement: Agreement) -> int:
        """One process votes at every step; several about once a second, and not beyond the lease's last step."""
        if agreement.world_size == 1:
            return 1
        left = self._lease.until_step - self._progress.step
        return int(max(1, min(VOTE_EVERY_S / max(step_s, 1e-6), left, 1000)))
