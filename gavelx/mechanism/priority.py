"""Priorities: how the shares that a policy promised become an order in which jobs are served.

Both kinds compare the share promised with the share received, of every way to run: a job alone on an accelerator
type, or a pair on it. They keep their numbers with the live jobs, so a priority itself has no state.

Legend: J live jobs, A accelerator types, P promised pairs; a block is J x A or P.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gavelx.mechanism.live import LiveJobs

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class Block(Protocol):
    """Ways to run: what each was promised, has received, and is owed."""

    share: Floats
    received_s: Floats
    credit_s: Floats


class Credit:
    """Serve first whoever is furthest behind what was promised, in seconds.

    The credit of a way to run grows by its share per second and falls by one for every second in it; the key is
    the credit that there would be at the end of the round without it. Unlike a ratio of shares it does not forget
    at a new allocation, so small shares are served too, however often the policy is asked. What runs is treated
    as one round, and the seconds that stopping it would lose, further behind than it is: it makes way only for
    one that has waited longer by more than that, which halves the number of restarts and changes completion times
    by less than 1 %.
    """

    prefers_running = True

    @staticmethod
    def admitted(live: LiveJobs, j: int, round_s: float) -> None:
        """A new job starts with no credit."""

    @staticmethod
    def passed(block: Block, seconds: float) -> None:
        """Time went by: promises accrue."""
        block.credit_s += block.share * seconds

    @staticmethod
    def received(block: Block, way: object, seconds: Floats) -> None:
        """These ways (indices into the block) held devices for so many seconds."""
        block.credit_s[way] -= seconds  # type: ignore[index]

    @staticmethod
    def before_allocation(block: Block, known: Bools, elapsed_s: float, round_s: float) -> None:
        """The shares are about to change; so long ago they were made."""

    @staticmethod
    def after_allocation(block: Block) -> None:
        """A type that no longer is promised holds no credit."""
        block.credit_s[block.share == 0.0] = 0.0

    @staticmethod
    def keys(block: Block, promised: Bools, round_s: float) -> list[Floats]:
        """Sort keys of every way, the first one first; larger is served earlier."""
        return [block.credit_s + block.share * round_s]


class PublishedPriority:
    """The priorities of the published system: share promised over time received on the type.

    Times start again at half a round with every allocation; what was owed then only breaks ties (Gavel, OSDI'20,
    section 5, and its simulator, which divides the time by the sum over all jobs of that type: the order is the
    same).
    """

    prefers_running = False

    @staticmethod
    def admitted(live: LiveJobs, j: int, round_s: float) -> None:
        live["received_s"][j] = round_s / 2

    @staticmethod
    def passed(block: Block, seconds: float) -> None:
        """Promises accrue only when the next allocation comes."""

    @staticmethod
    def received(block: Block, way: object, seconds: Floats) -> None:
        block.received_s[way] += seconds  # type: ignore[index]

    @staticmethod
    def before_allocation(block: Block, known: Bools, elapsed_s: float, round_s: float) -> None:
        owed = block.share * elapsed_s - (block.received_s - round_s / 2)
        block.credit_s += np.where(known, owed, 0.0)
        block.received_s[...] = round_s / 2

    @staticmethod
    def after_allocation(block: Block) -> None:
        """What is owed stays owed."""

    @staticmethod
    def keys(block: Block, promised: Bools, round_s: float) -> list[Floats]:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(block.received_s > 0, block.share / block.received_s, block.share * 1e9)
        return [np.where(promised, ratio, 0.0), block.credit_s, block.share]
