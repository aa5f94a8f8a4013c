"""The published order of accelerator types: V100s, P100s, K80s; a new one each round for a policy blind to them.

The generator starts at the seed and is shared with nothing else, so a run can be repeated.
"""

from collections.abc import Sequence
from random import Random

PLACE = {"v100": 0, "p100": 1, "k80": 2}
"""Others come after these, in the cluster's order."""


class OrderOfTypes:
    """Python's generator, seeded with ``seed`` + 5 as in the published simulator."""

    def __init__(self, names: Sequence[str], seed: int) -> None:
        self._generator = Random(seed + 5)
        self._order = sorted(range(len(names)), key=lambda a: PLACE.get(names[a], len(PLACE)))

    def next(self, *, shuffled: bool) -> list[int]:
        """The indices of the types in the order in which a round serves them."""
        order = self._order.copy()
        if shuffled:
            self._generator.shuffle(order)
        return order
