"""A lease as it really goes: when it holds its devices, and how many steps it does on them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gavelx.jobs import Job
from gavelx.mechanism.commands import Lease

Floats = NDArray[np.float64]
NEARLY = 1.0 - 1e-9
"""So far from the last step rounding cannot matter."""


@dataclass(slots=True)
class Run:
    """A job on the devices of a lease: idle until ``begin_s`` (loading its checkpoint), then ``steps_per_s``.

    ``from_s`` and ``from_steps`` are where the present stretch at one speed began. ``whole_steps``: the lease goes
    on idle when it has done the steps of its round, and only the time of its steps is billed. ``price_part`` is
    0.5 while somebody else pays for the same devices too.
    """

    lease: Lease
    job: Job
    start_s: float
    begin_s: float
    from_s: float
    from_steps: float
    until_step: float
    steps_per_s: float
    saved_steps: float
    checkpoint_every_s: float
    whole_steps: bool
    price_part: float = 1.0
    held_s: float = 0.0  # before the present stretch
    billed_s: float = 0.0
    worked_s: float = 0.0
    logged: tuple[float, float, float] = (0.0, 0.0, 0.0)  # the log has it up to this time, billed and worked
    version: int = 0  # of the event that will end it

    @property
    def end_s(self) -> float:
        """When the lease's steps are done."""
        return self.from_s + max(0.0, self.until_step - self.from_steps) / self.steps_per_s

    def steps_at(self, time_s: float) -> float:
        """Steps that the job has done, counted from its beginning."""
        if time_s <= self.from_s:
            return self.from_steps
        done = self.from_steps + (time_s - self.from_s) * self.steps_per_s
        if done < self.until_step * NEARLY:
            return done
        return self.until_step if done >= self.until_step or time_s >= self.end_s else done

    def saved_at(self, time_s: float) -> float:
        """Steps that are in a checkpoint: one is written every so often, beside the work."""
        if time_s - self.begin_s < self.checkpoint_every_s:
            return self.saved_steps
        rounds = (time_s - self.begin_s) // self.checkpoint_every_s
        last_s = self.begin_s + rounds * self.checkpoint_every_s
        return self.steps_at(last_s) if last_s > self.from_s else self.saved_steps

    def turn(self, time_s: float) -> None:
        """A new stretch begins: another speed, another price, or another round."""
        self.version += 1
        worked_s = max(0.0, min(time_s, self.end_s) - self.from_s)
        held_s = self.held_s + worked_s if self.whole_steps else max(0.0, time_s - self.start_s)
        self.billed_s += (held_s - self.held_s) * self.price_part
        self.worked_s += worked_s
        self.held_s = held_s
        if time_s > self.from_s:
            self.saved_steps, self.from_steps = self.saved_at(time_s), self.steps_at(time_s)
            self.from_s = time_s


def progress(runs: Sequence[Run], time_s: float) -> tuple[Floats, Floats]:
    """Of each run, the steps done and those of them that are in a checkpoint: as in the methods, all at once."""
    fields = ("from_s", "from_steps", "until_step", "steps_per_s", "saved_steps", "begin_s", "checkpoint_every_s")
    columns = np.array([[getattr(run, name) for run in runs] for name in fields])
    from_s, from_steps, until_step, steps_per_s, saved_steps, begin_s, every_s = columns
    done = from_steps + (time_s - from_s) * steps_per_s
    end_s = from_s + np.maximum(0.0, until_step - from_steps) / steps_per_s
    ended = (done >= until_step) | ((done >= until_step * NEARLY) & (time_s >= end_s))
    steps_done = np.where(time_s <= from_s, from_steps, np.where(ended, until_step, done))
    for n in np.flatnonzero(time_s - begin_s >= every_s).tolist():
        saved_steps[n] = runs[n].saved_at(time_s)
    return steps_done, saved_steps
