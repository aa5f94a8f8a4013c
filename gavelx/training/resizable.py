"""A job whose processes come and go while it trains: its updates, and what happens at a live resize."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from gavelx.training import transfer
from gavelx.training.gang import Agreement
from gavelx.training.lease import Lease
from gavelx.training.regroup import Regroup, ending_as_failed
from gavelx.training.state import State
from gavelx.training.updates import Updates


class Resizable:
    """The elastic side of a training. ``resize_s``: the seconds that the last resize took."""

    def __init__(self, updates: Updates, state: State, lease: Lease) -> None:
        self.updates, self._gang, self._state = updates, updates.gang, state
        self.regroup = Regroup(self._gang, lease)
        self.resize_s: float | None = None

    @property
    def joins(self) -> bool:
        """Whether this process has yet to join the others, from which it gets its state."""
        return self._gang.joins

    @property
    def generation(self) -> int:
        """The number of the present size."""
        return self.regroup.size.generation

    def rest(self, loader: Any) -> Iterator[Iterator[Any]]:
        """The updates of the rest of an epoch, each as its batches here; dealt anew after each resize."""
        generation = None
        while generation != self.generation:
            generation = self.generation
            for batches in self.updates.rest(loader, self.regroup.size):
                yield batches
                if generation != self.generation:
                    break

    def join(self, stopping: Callable[[], bool]) -> Agreement:
        """As a joiner: wait for the pause, then take the state of the others."""
        self.regroup.join(stopping)
        with ending_as_failed("the state"):
            agreement = self.agree()
            content = transfer.take(agreement)
            self._state.check_bits("the running job", content, agreement)
            self._state.put(content)
            self._gang.wrap()
        return agreement

    def change_size(self) -> Agreement:
        """Between two steps, which all agreed on: meet the processes of the next generation."""
        begin_s = time.monotonic()
        self.updates.share_generators()
        joiners = self.regroup.regroup()
        with ending_as_failed("the state"):
            agreement = self.agree()
            if joiners:
                content = self._state.content([], self.updates.all_generators(), agreement.world_size)
                transfer.give(agreement, content, joiners)
                self._state.check_bits("the running job", content, agreement)
            self._gang.wrap()
        self.resize_s = time.monotonic() - begin_s
        return agreement

    def agree(self) -> Agreement:
        """With the processes that there are now."""
        agreement = Agreement()
        self.updates.join(agreement)
        return agreement

    def report(self) -> dict[str, Any]:
        """What the agent is told of an elastic job besides."""
        updates = self.updates
        return {
            "samples": updates.progress.samples,
            "batch": updates.batch or None,
            "noise_scale": updates.noise.value,
            "order": updates.sums.order,
            "generation": self.generation,
            "world_size": self._gang.world_size,
            "resize_s": self.resize_s,
        }
