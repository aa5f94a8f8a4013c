"""Proposals: what jobs would do with more devices, and which of them a cluster accepts.

Legend: A accelerator types.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gavelx.policies.greedy_sizes import Size


class Proposal(NamedTuple):
    """A job proposes a size: so many new devices of a type, each of which speeds it up by ``gain`` on average.

    ``gain`` is (new speed / present speed - 1) / new devices; ``age`` is its place among the jobs by arrival.
    """

    gain: float
    devices: int
    age: int
    job: int
    type: int
    size: Size


def accepted(proposals: Iterable[Proposal], free_A: Sequence[int]) -> list[Proposal]:
    """The proposals that are accepted while devices are free: one of a job at most, the largest gain first.

    Among equal gains the one with most devices comes first, then the oldest job.

    Source: EasyScale (SC'23), algorithm 1. As printed, its loop takes a proposal from the queue only if it fits,
    so it never ends once the first one does not. Here each is taken from the queue, and dropped if it does not
    fit.
    """
    free, taken, jobs = list(free_A), list[Proposal](), set[int]()
    queue = sorted(proposals, key=lambda one: (one.gain, one.devices, -one.age, -one.type, one.size))
    while queue:
        first = queue.pop()
        if first.job not in jobs and first.devices <= free[first.type]:
            free[first.type] -= first.devices
            jobs.add(first.job)
            taken.append(first)
    return taken
