"""Priorities: how the shares that a policy promised become an order in which jobs are served.

Both kinds compare the share promised with the share received. They keep their numbers in the rows of the live
jobs, so a priority itself has next to no state.

Legend: J live jobs, A accelerator types.
"""

import numpy as np
from numpy.typing import NDArray

from gavelx.mechanism.live import LiveJobs
from gavelx.snapshot import WAITING

Floats = NDArray[np.float64]


class Credit:
    """Serve first whoever is furthest behind what was promised, in seconds.

    credit_ja grows by x_ja per second and falls by one for every second on type a; the key is the credit that
    the job would have at the end of the round if it waited. Unlike a ratio of shares it does not forget at a new
    allocation, so small shares are served too, however often the policy is asked. A job that runs is treated as
    one round further behind than it is: it makes way only for one that has waited longer by more than that,
    which halves the number of restarts and changes completion times by less than 1 %.
    """

    def __init__(self, round_s: float) -> None:
        self.round_s = round_s

    def add_type(self) -> None:
        """Nothing is kept per type."""

    def admitted(self, live: LiveJobs, j: int) -> None:
        """A new job starts with no credit."""

    def passed(self, live: LiveJobs, seconds: float) -> None:
        """Time went by: promises accrue."""
        live.rows["credit_s"] += live.rows["share"] * seconds

    def received(self, live: LiveJobs, j: NDArray[np.int64], a: NDArray[np.int64], seconds: Floats) -> None:
        """Jobs j held devices of types a for so many seconds."""
        live.rows["credit_s"][j, a] -= seconds

    def allocated(self, live: LiveJobs, share_JA: Floats, known_J: NDArray[np.bool_], elapsed_s: float) -> None:
        """A new allocation: a type that no longer is promised holds no credit."""
        live.rows["credit_s"][share_JA == 0.0] = 0.0

    def keys(self, live: LiveJobs) -> list[Floats]:
        """Sort keys of every job and type, the first one first; larger is served earlier."""
        rows = live.rows
        key_JA = rows["credit_s"] + rows["share"] * self.round_s
        running = np.flatnonzero(rows["type"] != WAITING)
        key_JA[running, rows["type"][running]] += self.round_s
        return [key_JA]


class PublishedPriority:
    """The priorities of the published system: x_ja / (share of the time on type a that went to j).

    Times start again at half a round with every allocation; what was owed then only breaks ties (Gavel, OSDI'20,
    section 5, and its simulator).
    """

    def __init__(self, round_s: float) -> None:
        self.round_s = round_s
        self.total_s_A = np.zeros(0)

    def add_type(self) -> None:
        self.total_s_A = np.append(self.total_s_A, 0.0)

    def admitted(self, live: LiveJobs, j: int) -> None:
        live.rows["received_s"][j] = self.round_s / 2
        self.total_s_A += self.round_s / 2

    def passed(self, live: LiveJobs, seconds: float) -> None:
        """Promises accrue only when the next allocation comes."""

    def received(self, live: LiveJobs, j: NDArray[np.int64], a: NDArray[np.int64], seconds: Floats) -> None:
        live.rows["received_s"][j, a] += seconds
        np.add.at(self.total_s_A, a, seconds)

    def allocated(self, live: LiveJobs, share_JA: Floats, known_J: NDArray[np.bool_], elapsed_s: float) -> None:
        rows = live.rows
        owed_JA = rows["share"] * elapsed_s - (rows["received_s"] - self.round_s / 2)
        rows["credit_s"] += np.where(rows["allocated"][:, None], owed_JA, 0.0)
        rows["received_s"] = self.round_s / 2
        self.total_s_A = np.full(len(self.total_s_A), len(live) * self.round_s / 2)

    def keys(self, live: LiveJobs) -> list[Floats]:
        rows = live.rows
        fraction_JA = rows["received_s"] / np.maximum(self.total_s_A, 1e-300)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio_JA = np.where(fraction_JA > 0, rows["share"] / fraction_JA, rows["share"] * 1e9)
        promised_JA = rows["allocated"][:, None] & (rows["share"] > 0) & (rows["throughput"] > 0)
        return [np.where(promised_JA, ratio_JA, 0.0), rows["credit_s"], rows["share"]]
