"""Reservation: a gang whose turn it is gets devices one by one as others finish.

Jobs that are nearly complete are not preempted. Where jobs keep coming, one of them always is, and a gang as wide
as the cluster would never find all devices free at once. So the gang that is furthest behind reserves them:

* in its first round, jobs that run go on, and devices that fall free are held for it. Another job may use a held
  device if it ends before the next round (EASY backfilling: D. Lifka, JSSPP 1995);
* after that round, jobs make way for it, also those that are nearly complete;
* after a second round, also those that lose work by it. Protected jobs alone stay
  (:mod:`gavelx.mechanism.protection`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gavelx.configuration import ALONE
from gavelx.mechanism.live import LiveJobs
from gavelx.mechanism.protection import to_the_end_s
from gavelx.mechanism.selection import Candidates, Choices
from gavelx.snapshot import WAITING

Bools = NDArray[np.bool_]
ROUNDING = 1e-3


class Reservation(NamedTuple):
    """``devices`` of a type are held for a job that waits, since then."""

    job_id: int
    type: int
    devices: int
    since_s: float

    def rounds(self, now_s: float, round_s: float) -> int:
        """How many rounds it has lasted."""
        return int((now_s - self.since_s) / round_s + ROUNDING)

    def held_back(self, found: Candidates, live: LiveJobs, devices: int, seconds: float) -> Bools:
        """Which of these ways would take a device that is held.

        ``devices`` of the type are here; who ends within ``seconds`` may use a held one.
        """
        ways = found.ways
        of_type = live.type == self.type
        spare = devices - self.devices - int(live.held_devices[of_type].sum())
        begins_V = (ways.type == self.type) & (live.type[ways.job] == WAITING) & (live.id[ways.job] != self.job_id)
        short_V = np.asarray(to_the_end_s(live, ways.job, ways.type) <= seconds)
        held_V = np.asarray(begins_V & ~short_V)
        order = np.lexsort([-key for key in reversed(found.keys)])
        mine = order[held_V[order]]
        fits = ways.devices[mine].cumsum() <= spare
        held_V[mine[fits]] = False
        return held_V


def reserve(deserved: Choices, chosen: Choices, live: LiveJobs, now_s: float) -> Reservation | None:
    """The reservation of the first gang that the order alone would let begin, and that finds too few devices."""
    begins = np.zeros(len(live), dtype=bool)
    begins[chosen.members()] = True
    for way in deserved.one_by_one():
        waits = live.type[way.job] == WAITING and not begins[way.job]
        if waits and way.devices > 1 and way.partner == ALONE and not way.others:
            return Reservation(int(live.id[way.job]), way.type, way.devices, now_s)
    return None
