"""Saving a job and resuming it: one checkpoint for all processes, written by the first."""

import time
import warnings
from typing import Any

from gavelx.training.checkpoints import Checkpoints, Saved, TrainingWarning
from gavelx.training.gang import Agreement
from gavelx.training.state import State


class Saving:
    """The checkpoints of a job.

    ``newest`` is the last one made, ``changed`` whether there is something to save since.
    """

    def __init__(self, checkpoints: Checkpoints, state: State, seed: int) -> None:
        self.newest: Saved | None = None
        self.changed = False
        self.state, self._checkpoints, self._seed = state, checkpoints, seed
        self._tried_s = 0.0

    def begin(self) -> None:
        """The time to the next checkpoint begins."""
        self._tried_s = time.monotonic()

    def due(self, every_s: float) -> bool:
        """Whether the last one is as old as this; a failure counts, as a full disk is not tried at every step."""
        return time.monotonic() - self._tried_s >= every_s

    def save(self, agreement: Agreement) -> bool:
        """Save, with all other processes, and return whether it succeeded."""
        everyone = agreement.gather(self.state.generators())
        saved = agreement.from_first(self._write(everyone, agreement) if agreement.rank == 0 else None)
        self.begin()
        if saved is not None:
            self.newest, self.changed = saved, False
            self.state.progress.saved_steps = self.state.progress.step
        return saved is not None

    def _write(self, generators: list[Any], agreement: Agreement) -> Saved | None:
        at = self.state.progress
        content = self.state.saved(generators, agreement.world_size)
        try:
            return self._checkpoints.save(content, int(at.step))
        except OSError as error:
            warnings.warn(
                f"no checkpoint at step {at.step} in {self._checkpoints.folder}: {error.strerror or error}; "
                f"training continues, and {at.saved_steps:g} steps are safe",
                TrainingWarning,
                stacklevel=2,
            )
            return None

    def resume(self, agreement: Agreement) -> None:
        """Restore the newest good checkpoint, if there is one; all processes use the same one."""
        state, found = self.state, None
        if agreement.rank == 0:
            self._checkpoints.clean()
            found = self._checkpoints.newest()
        name = agreement.from_first(found[0].name if found else None)
        if name is None:
            first = agreement.from_first(state.bits.made_with(agreement.world_size))
            state.check_bits("the first process", {"made_with": first}, agreement)
            return
        content = found[1] if found else self._checkpoints.read(name)
        state.check_fits(name, content)
        state.check_bits(name, content, agreement)
        state.put(content)
        state.put_generators(content["chance"], agreement, self._seed)
        state.progress.saved_steps, self.changed = state.progress.step, False
