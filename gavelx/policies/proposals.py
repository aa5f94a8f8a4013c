"""Proposals: what jobs would do with more devices, and which of them a cluster accepts.

Legend: A accelerator types.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gavelx.policies.ways import Uses, Way


class Proposal(NamedTuple):
    """A job proposes a way to run: so many new devices, each of which speeds it up by ``gain`` on average.

    ``gain`` is (new speed / present speed - 1) / new devices; ``age`` is its place among the jobs by arrival;
    ``needs`` are the new devices by their types.
    """

    gain: float
    devices: int
    age: int
    job: int
    way: Way
    needs: Uses


def accepted(proposals: Iterable[Proposal], free_A: Sequence[int]) -> list[Proposal]:
    """The proposals that are accepted while devices are free: one of a job at most, the largest gain first.

    Among equal gains the one with most devices comes first, then the oldest job.

    Source: EasyScale (SC'23), algorithm 1. As printed, its loop takes a proposal from the queue only if it fits,
    so it never ends once the first one does not. Here each is taken from the queue, and dropped if it does not
    fit.
    """
    free, taken, jobs = list(free_A), list[Proposal](), set[int]()
    queue = sorted(proposals, key=lambda one: (one.gain, one.devices, -one.age, -one.way.type, one.way))
    while queue:
        first = queue.pop()
        if first.job not in jobs and all(devices <= free[a] for a, devices in first.needs):
            for a, devices in first.needs:
                free[a] -= devices
            jobs.add(first.job)
            taken.append(first)
    return taken
