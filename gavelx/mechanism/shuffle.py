"""An order of the accelerator types that is another each round, and the same in each run with the same seed.

The only use of a random generator in the mechanism: the published simulator serves types in such an order under a
policy that is blind to them. Its state starts at the seed and is nobody else's, so a run can be repeated.
"""

from random import Random


class ShuffledTypes:
    """Python's generator, seeded with ``seed`` + 5 as in the published simulator."""

    def __init__(self, seed: int) -> None:
        self._generator = Random(seed + 5)

    def next(self, types: int) -> list[int]:
        """The indices of so many types in the order of the next round."""
        order = list(range(types))
        self._generator.shuffle(order)
        return order
