"""Devices where they take most time off what is left: Optimus.

Legend: J jobs, A accelerator types.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.execution import Execution
from gavelx.policies.base import Policy
from gavelx.policies.greedy import Handout, by_arrival, seconds_JA, soonest_s_J
from gavelx.policies.greedy_sizes import SizedHandout, handout_of
from gavelx.snapshot import WAITING, Kind, Snapshot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
WORTH_IT = 1e-9
"""A step must take more than this part of the times in question off them; less is rounding."""


class Optimus(Policy):
    """Let as many jobs run as can, then hand devices over wherever that takes most seconds off the times left.

    The first worker of a job takes an infinite time off: so every job gets its devices before any gets better
    ones, those with the least device-seconds left first, on the fastest free type. Then one step after another
    with the largest marginal gain, seconds per device: a job moves to free devices of a faster type, or two jobs
    of one width change types; until no step gains anything.

    Inside ``elastic(...)`` a job begins in its least size, and the steps add devices to it, as in the paper.

    Source: Optimus (EuroSys'18), section 4.1. Kept: remaining time as the measure, marginal gain per device as the
    rule, every job served before any is served well, and a decision every ``interval_s`` seconds. Not kept: the
    number of parameter servers, and one worker at a time: any larger size is a step, since a worker that gains
    little may lead to one that gains much. Jobs of a fixed width get better types instead. Nor is its estimate of
    the steps left: they are known.
    """

    name = "optimus"
    ignores = ("weights",)
    uses = frozenset[Kind]({"sizes", "mixes"})

    def __init__(self, interval_s: float = 600.0) -> None:
        self.interval_s = interval_s

    def allocate(self, snapshot: Snapshot) -> Allocation:
        handout = handout_of(snapshot, least_first=True)
        left_s_JA = seconds_JA(snapshot.steps_left_J, handout.T_JA)
        jobs = by_arrival(snapshot, snapshot.scale_factor_J * soonest_s_J(snapshot.steps_left_J, handout.T_JA))
        handout.in_order(jobs)
        if isinstance(handout, SizedHandout):
            return handout.allocation(Execution(refresh_s=self.interval_s))
        while _improve(handout, left_s_JA):
            handout.in_order(jobs)  # on what the steps have left free
        return handout.allocation(Execution(refresh_s=self.interval_s))


def _improve(handout: Handout, left_s_JA: Floats) -> bool:
    """Carry out the step with the largest gain until there is none; whether there was any."""
    order = np.array(by_arrival(handout.snapshot), dtype=np.int64)
    scale_J, type_J = handout.snapshot.scale_factor_J, np.array(handout.type_J, dtype=np.int64)
    widths = np.unique(scale_J[type_J != WAITING]).tolist()
    while True:
        steps = [
            step
            for width in widths
            for step in _steps(left_s_JA, order[scale_J[order] == width], type_J, width, handout.free_A)
        ]
        if not steps:
            before, handout.type_J = handout.type_J, type_J.tolist()
            return before != handout.type_J
        best = max(steps, key=lambda step: step.gain)
        type_J[best.leaves] = best.b
        if best.enters == WAITING:
            handout.free_A[best.a] += int(scale_J[best.leaves])
            handout.free_A[best.b] -= int(scale_J[best.leaves])
        else:
            type_J[best.enters] = best.a


class Step(NamedTuple):
    """A job leaves type a for type b, where another one makes room for it, or none (WAITING)."""

    gain: float  # seconds per device
    a: int
    b: int
    leaves: int
    enters: int


def _steps(left_s_JA: Floats, jobs: Ints, type_J: Ints, width: int, free_A: list[int]) -> Iterator[Step]:
    """The best moves and exchanges among these jobs of one width, for each two types, that gain anything."""
    A = left_s_JA.shape[1]
    who_AA, gain_AA = np.full((A, A), WAITING), np.full((A, A), -np.inf)
    for a in range(A):
        if len(on_a := jobs[type_J[jobs] == a]):
            gain_JA = left_s_JA[on_a, a][:, None] - left_s_JA[on_a]
            first_A = gain_JA.argmax(axis=0)
            who_AA[a], gain_AA[a] = on_a[first_A], gain_JA[first_A, np.arange(A)]
    for a, b in zip(*np.nonzero(gain_AA > -np.inf), strict=True):
        gain, least = float(gain_AA[a, b]), WORTH_IT * float(left_s_JA[who_AA[a, b], a])
        if free_A[b] >= width and gain > least:
            yield Step(gain / width, a, b, who_AA[a, b], WAITING)
        both = gain + float(gain_AA[b, a])
        if a < b and both > least + WORTH_IT * float(left_s_JA[who_AA[b, a], b]):
            yield Step(both / (2 * width), a, b, who_AA[a, b], who_AA[b, a])
