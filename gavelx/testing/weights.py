"""Weights: of two jobs that differ in nothing else, the heavier one is better off.

Legend: J jobs, A accelerator types.
"""

import dataclasses
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from hypothesis import strategies as st

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.snapshot import Snapshot
from gavelx.testing import plain
from gavelx.testing.checks import Checks, RefusedError, only_if
from gavelx.testing.snapshots import SPEEDS, snapshot_of

SAY_SO = 'ignores = ("weights",) in the policy, if it does not look at them'
CONTESTED_BY_TWO = (
    ({"v100": 1}, [[1.0]], 1),
    ({"v100": 1, "k80": 1}, [[4.0, 1.0]], 1),
    ({"v100": 2, "k80": 2}, [[4.0, 1.0], [2.0, 2.0], [1.0, 3.0]], 1),
    ({"v100": 2, "k80": 3}, [[4.0, 1.0]] * 4, 2),
    ({"v100": 2}, [[4.0], [0.1]], 1),
)
"""Devices, speeds of the twins and of others, and how many devices the twins need."""
counted = only_if(lambda test: "weights" not in test.make_policy().ignores)


class Weights(Checks):
    """The effect of weights, for every policy that does not declare that it ignores them."""

    @counted
    def test_a_heavier_job_is_never_worse_off(self) -> None:
        """One of two identical jobs weighs 5 instead of 1: it runs at least as fast as the other."""
        rows = st.lists(st.lists(SPEEDS, min_size=2, max_size=2), min_size=1, max_size=5)
        widths = st.sampled_from((1, 1, 2) if self.gangs else (1,))

        @self.for_all(rows, st.integers(1, 3), st.integers(0, 3), widths, st.booleans())
        def check(speeds: list[list[float]], fast: int, slow: int, width: int, first: bool) -> None:
            snapshot = twins({"v100": fast, "k80": slow}, speeds, width, heavy_first=first)
            heavy, light = self._speeds_of_twins(snapshot, heavy_first=first)
            if heavy < light - self.tolerance * max(1.0, light):
                seen = (
                    f"of two identical jobs that of weight 5 runs at {heavy:.6g} steps/s, that of 1 at {light:.6g}"
                )
                self.fail("a heavier job is never worse off", seen, snapshot, SAY_SO)

    @counted
    def test_weights_count(self) -> None:
        """In some case that job runs faster than its twin: otherwise the policy ignores weights."""
        clusters = [case for case in CONTESTED_BY_TWO if self.gangs or case[-1] == 1]
        with suppress(RefusedError):
            if not any(self._is_preferred(*case) for case in clusters):
                seen = "a weight of 5 instead of 1 changes nothing for identical jobs"
                self.fail("weights count", seen, twins(*clusters[-1], heavy_first=True), SAY_SO)

    def _is_preferred(self, devices: dict[str, int], speeds: list[list[float]], width: int) -> bool:
        """Whether the heavy twin is faster, be it the first or the second."""
        for first in (True, False):
            heavy, light = self._speeds_of_twins(
                twins(devices, speeds, width, heavy_first=first), heavy_first=first
            )
            if not heavy > light + self.tolerance:
                return False
        return True

    def _speeds_of_twins(self, snapshot: Snapshot, *, heavy_first: bool) -> tuple[float, float]:
        """Steps/s of the heavy and of the light twin."""
        allocation = self.ask(snapshot)
        one, other, *_ = plain.use(allocation.snapshot.configurations, allocation.share_C).throughput_J.tolist()
        return (one, other) if heavy_first else (other, one)


def twins(
    devices: dict[str, int], speeds: Sequence[Sequence[float]], width: int, *, heavy_first: bool
) -> Snapshot:
    """Two jobs at the first of these speeds, one of weight 5 and one of 1, and a job at each of the others."""
    T_JA = np.array([speeds[0], *speeds], dtype=float)
    jobs = [Job(j, f"kind {max(0, j - 1)}", 5000.0) for j in range(len(T_JA))]
    for j, weight in enumerate((5.0, 1.0) if heavy_first else (1.0, 5.0)):
        jobs[j] = dataclasses.replace(jobs[j], weight=weight, scale_factor=width)
    return snapshot_of(jobs, Cluster.of(devices), T_JA)
