"""A lease in rounds of whole steps: it goes on idle when it has done the steps of its round."""

from dataclasses import dataclass
from typing import NamedTuple

from gavelx.configuration import ALONE
from gavelx.simulator.runs import Run
from gavelx.throughputs import Pairing, Setting


class Chosen(NamedTuple):
    """A job (a row) that gets devices of a type in this round, and the job beside it, or ``ALONE``."""

    job: int
    partner: int
    type: int
    number: int  # among the ways to run

    @property
    def members(self) -> tuple[int, ...]:
        return (self.job,) if self.partner == ALONE else (self.job, self.partner)


@dataclass(slots=True)
class RoundRun(Run):
    """A job on the devices of a lease, round by round. Only the time of its steps is billed, and what came before.

    ``since_s`` is until when its time was counted; ``began``: its devices were free; ``how`` it runs now, beside
    the job in the row ``partner`` or alone.
    """

    row: int = -1
    type: int = -1
    since_s: float = 0.0
    began: bool = False
    how: Setting | Pairing | None = None
    partner: int = ALONE

    def turn(self, time_s: float) -> None:
        """A new stretch begins: another round, or another price."""
        self.version += 1
        if time_s > self.from_s:
            worked_s = min(time_s, self.end_s) - self.from_s
            self.held_s += worked_s
            self.billed_s += worked_s * self.price_part
            self.worked_s += worked_s
            self.saved_steps, self.from_steps = self.saved_at(time_s), self.steps_at(time_s)
            self.from_s = time_s
