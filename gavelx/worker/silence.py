"""A job that makes no step any more, although it did: one of its processes may hang.

It counts from the second step in a lease on, so a job that starts, or never says its steps, is not silent. Neither
is one that saves, changes its size, is complete or was asked to stop.
"""

from dataclasses import dataclass

from gavelx.training_report import silent_words

LEAST_S, TIMES = 60.0, 5.0
"""Silent is a job without a step for this long, and for so many times its longest pause between two steps."""
LOOK_S = 1.0
"""Seconds between two looks."""
SAVING_S = 900.0
"""A checkpoint that takes longer is an excuse no more: a process may hang in it."""
PAUSED_S = 5.0
"""More time between two looks counts as this much: the machine or the agent was stopped."""


@dataclass
class Silence:
    """The steps of a job as they rise; times are seconds on the agent's clock.

    ``steps`` are those at the first look, and ``usual_s`` is the time of one of them, if both are known by then.
    """

    steps: float
    saved: float
    at_s: float
    usual_s: float = 0.0
    for_s: float = 0.0
    """Without a step."""
    _pause_s: float = 0.0
    _saving_s: float = 0.0
    _rose: bool = False
    _gained: float = 0.0
    _spent_s: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether it is known how long a step usually takes."""
        return self.usual_s > 0.0

    @property
    def is_long(self) -> bool:
        """Whether the job is silent for much longer than it ever was."""
        return self.is_known and self.for_s >= max(LEAST_S, TIMES * self._pause_s, TIMES * self.usual_s)

    def look(self, now_s: float, steps: float, saved: float, *, saving: bool = False, busy: bool = False) -> None:
        """The steps done and saved by now. ``busy``: the job does something else than steps, or is ``saving``."""
        passed_s = min(max(0.0, now_s - self.at_s), PAUSED_S)
        self.for_s += passed_s
        self.at_s, self._saving_s = now_s, self._saving_s + passed_s if saving else 0.0
        if steps > self.steps:
            if self._rose:
                self._gained, self._spent_s = self._gained + steps - self.steps, self._spent_s + self.for_s
                self._pause_s = max(self._pause_s, self.for_s)
                self.usual_s = self._spent_s / self._gained
            self._rose, self.for_s = True, 0.0
        elif saved > self.saved or busy or 0.0 < self._saving_s <= SAVING_S:
            self.for_s = 0.0
        self.steps, self.saved = max(self.steps, steps), max(self.saved, saved)

    def words(self) -> str:
        """What to say of a job that is silent."""
        return silent_words(self.for_s, self.usual_s)
