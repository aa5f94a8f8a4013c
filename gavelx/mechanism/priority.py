"""Priority: how the shares that a policy promised become an order in which jobs are served.

Legend: V ways to run, J live jobs, L running jobs.
"""

import numpy as np
from numpy.typing import NDArray

from gavelx.mechanism.entitlements import Entitlements

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Credit:
    """Serve first the job that is furthest behind its promise, in seconds.

    The credit of a way to run grows by its share per second and falls by one for every second in it; the key is
    the credit that there would be at the end of the round without it. Unlike a ratio of shares it does not forget
    at a new allocation, so small shares are served too, however often the policy is asked. Selection counts it in
    turns, which are longer for jobs that have run for long (``Rules.turn``); serving the largest weighted backlog
    keeps every backlog bounded whatever the weights, where the shares are feasible (Tassiulas and Ephremides,
    IEEE TAC 37(12), 1992). A way that no longer is promised holds no credit.
    """

    def __init__(self, round_s: float) -> None:
        self.round_s = round_s

    def passed(self, ways: Entitlements, seconds: float) -> None:
        """Time went by: promises accrue."""
        ways.credit_s += ways.share * seconds

    def received(self, ways: Entitlements, way_L: Ints, seconds_L: Floats) -> None:
        """These ways had devices for so many seconds."""
        np.subtract.at(ways.credit_s, way_L, seconds_L)

    def allocated(self, old: Entitlements, new: Entitlements) -> Entitlements:
        """The ways of a new allocation, with the credit that they have."""
        place = old.find(new)
        new.credit_s = np.where(place >= 0, old.credit_s[place], 0.0) if len(old) else new.credit_s
        return new

    def key(self, ways: Entitlements) -> Floats:
        """Of every way; larger is served earlier."""
        return np.asarray(ways.credit_s + ways.share * self.round_s)
