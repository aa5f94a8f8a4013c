"""The prices of each time: what is found out later of a time is charged, or given back, at the prices of then."""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

from gavelx.prices import Prices


class Tariffs:
    """The prices from time 0 on, and from each of their changes on; they are counted from 0."""

    def __init__(self, prices: Prices) -> None:
        self._prices, self._from_s = [prices], [0.0]

    def __getitem__(self, k: int) -> Prices:
        return self._prices[k]

    @property
    def last(self) -> int:
        """The number of the present ones."""
        return len(self._prices) - 1

    def change(self, now_s: float, prices: Prices) -> None:
        """These are the prices from now on."""
        self._prices.append(prices)
        self._from_s.append(now_s)

    def pieces(self, at_s: float, seconds: float) -> Iterator[tuple[int, float]]:
        """The time from a moment on, or if negative the time before it: so many seconds of which prices.

        >>> tariffs = Tariffs(Prices({"v100": 2.48}))
        >>> tariffs.change(60.0, Prices({"v100": 1.24}))
        >>> list(tariffs.pieces(50.0, 15.0)), list(tariffs.pieces(65.0, -15.0)), list(tariffs.pieces(70.0, -5.0))
        ([(0, 10.0), (1, 5.0)], [(0, -10.0), (1, -5.0)], [(1, -5.0)])
        """
        begin_s, end_s = min(at_s, at_s + seconds), max(at_s, at_s + seconds)
        first, last = (max(0, bisect_right(self._from_s, time_s) - 1) for time_s in (begin_s, end_s))
        if first == last:
            yield first, seconds
            return
        edges_s = [begin_s, *self._from_s[first + 1 : last + 1], end_s]
        for k, (from_s, until_s) in enumerate(pairwise(edges_s), first):
            if until_s > from_s:
                yield k, until_s - from_s if seconds > 0 else from_s - until_s
