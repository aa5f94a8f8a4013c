"""A lease as it really goes: when it holds its devices, and how many steps it does on them."""

from dataclasses import dataclass
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from gavelx.jobs import Job
from gavelx.mechanism.commands import Lease
from gavelx.mechanism.events import Progress

Floats = NDArray[np.float64]
NEARLY = 1.0 - 1e-9
"""So far from the last step rounding cannot matter."""


@dataclass(slots=True)
class Run:
    """A job on the devices of a lease: idle until ``begin_s`` (loading its checkpoint), then ``steps_per_s``.

    ``from_s`` and ``from_steps`` are where the present stretch at one speed began. ``shared``: it has that speed
    beside another job. ``price_part`` is 0.5 while that one pays for the same devices too.
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
    shared: bool = False
    price_part: float = 1.0
    held_s: float = 0.0  # before the present stretch
    billed_s: float = 0.0
    worked_s: float = 0.0
    logged: tuple[float, float, float] = (0.0, 0.0, 0.0)  # the log has it up to this time, billed and worked
    version: int = 0  # of the event that will end it
    measured_s: float = 0.0  # when its speed was measured last
    measurements: int = 0  # of its speed, so far

    @property
    def end_s(self) -> float:
        """When the lease's steps are done."""
        left = self.until_step - self.from_steps
        return self.from_s + left / self.steps_per_s if left > 0.0 else self.from_s

    @property
    def measured_to_s(self) -> float:
        """The beginning of what is not measured yet of the present stretch."""
        return max(self.from_s, self.measured_s)

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
        """A new stretch begins: another speed, or another price."""
        self.version += 1
        worked_s = max(0.0, min(time_s, self.end_s) - self.from_s)
        held_s = max(0.0, time_s - self.start_s)
        self.billed_s += (held_s - self.held_s) * self.price_part
        self.worked_s += worked_s
        self.held_s = held_s
        if time_s > self.from_s:
            self.saved_steps, self.from_steps = self.saved_at(time_s), self.steps_at(time_s)
            self.from_s = time_s


STRETCH = Struct("9d")
AT_ONCE = 512
"""So many stretches are turned into columns at once, as these are in the processor's nearest memory."""


class Stretches:
    """The present stretches of all running leases as columns, so that their progress is known all at once.

    ``put`` a run whenever one of its stretches begins, and ``drop`` its lease when it runs no more.
    """

    def __init__(self) -> None:
        self._place: dict[int, int] = {}  # by lease id; the rows have no gaps
        self._rows = np.zeros((64, 9))

    def put(self, run: Run) -> None:
        place = self._place.setdefault(run.lease.id, len(self._place))
        if place == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        STRETCH.pack_into(  # several times as quick as numpy is with a few numbers
            self._rows.data,
            place * STRETCH.size,
            *(run.lease.id, run.job.id, run.from_s, run.from_steps, run.until_step, run.steps_per_s),
            *(run.saved_steps, run.begin_s, run.checkpoint_every_s),
        )

    def drop(self, lease_id: int) -> None:
        place, last = self._place.pop(lease_id), len(self._place)
        if place < last:
            self._rows[place] = self._rows[last]
            self._place[int(self._rows[place, 0])] = place

    def progress(self, time_s: float) -> Progress:
        """Of each lease, the steps done and those of them that are in a checkpoint: as in the methods of a run."""
        rows = self._rows[: len(self._place)]
        rows = rows.take(rows[:, 0].argsort(), axis=0)
        now = np.concatenate([rows[n : n + AT_ONCE].T for n in range(0, max(1, len(rows)), AT_ONCE)], axis=1)
        from_s, from_steps, until_step, steps_per_s, saved_steps, begin_s, every_s = now[2:]
        at_s = np.empty((2, now.shape[1]))  # now, and when the last checkpoint was written
        at_s[0] = time_s
        at_s[1] = last_s = begin_s + (time_s - begin_s) // every_s * every_s
        end_s = from_s + np.maximum(0.0, until_step - from_steps) / steps_per_s
        done = from_steps + (at_s - from_s) * steps_per_s
        ended = (done >= until_step * NEARLY) & (at_s >= end_s)
        steps, last_steps = np.maximum(from_steps, np.where(ended, until_step, np.minimum(done, until_step)))
        saved_steps = np.where(last_s > from_s, last_steps, saved_steps)
        lease_id, job_id = now[:2].astype(np.int64)
        return Progress(time_s, lease_id, job_id, steps, saved_steps)
