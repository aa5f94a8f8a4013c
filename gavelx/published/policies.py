"""The policies whose published code chooses otherwise among equally good answers.

Legend: J jobs, C configurations, Q jobs of the queue, A accelerator types.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.asking import Allocator
from gavelx.policies.agnostic import agnostic
from gavelx.policies.baselines.allox import Allox, by_matrix
from gavelx.policies.baselines.gandiva import Gandiva
from gavelx.policies.greedy import Handout
from gavelx.policies.makespan import Makespan
from gavelx.policies.modifiers import Modifier, within
from gavelx.policies.program import Maximize
from gavelx.policies.v100 import on_v100
from gavelx.policies.view import View
from gavelx.snapshot import Snapshot
from gavelx.solvers import solve, using
from gavelx.solvers.planning.queue_matching import Plan
from gavelx.solvers.program.statement import Requirement, Statement

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
BISECTED_S, CLOSE = (100.0, 1e6), 1.05
"""Where the published bisection begins, and the ratio of its ends at which it stops."""


def as_published(policy: Allocator) -> Allocator:
    """The policy as its published code answers; any other as it is."""
    if isinstance(policy, Modifier):
        inner = as_published(policy.policy)
        if type(policy) is agnostic:
            return PublishedAgnostic(inner)  # type: ignore[arg-type]
        return policy if inner is policy.policy else within(policy, inner)  # type: ignore[arg-type]
    if type(policy) is Gandiva:
        return PublishedGandiva(policy.seed, policy.trial_s)
    if type(policy) is Makespan:
        return PublishedMakespan()
    return PublishedAllox() if type(policy) is Allox else policy


class PublishedAgnostic(agnostic):
    """Programs are shown the speeds on a V100, where there are any; an interior point spreads their shares."""

    def shown(self, snapshot: Snapshot) -> Snapshot:
        if isinstance(self.policy, Maximize) and snapshot.known.plain_M.all():
            return on_v100(snapshot) or super().shown(snapshot)
        return super().shown(snapshot)

    def spread(self, seen: Allocation, snapshot: Snapshot) -> tuple[str, Floats]:
        return seen.certificate.path, seen.share_C


class PublishedAllox(Allox):
    """No job moves, and the matrix decides it all, however long that takes: 3 s with 1,000 jobs and 20 devices."""

    def move_up(self, handout: Handout) -> None:
        """A job that holds a device keeps it until it is done."""

    def starting(self, snapshot: Snapshot, queue: Ints, seconds_QA: Floats, free_A: Ints, plan: Plan) -> Ints:
        return by_matrix(snapshot, queue, seconds_QA, free_A)


class PublishedGandiva(Gandiva):
    """Where every job has room, jobs have parts of the types on which they cannot run as well."""

    def parts_where(self, snapshot: Snapshot, *, crowded: bool) -> Bools:
        return snapshot.usable_C if crowded else np.ones(len(snapshot.usable_C), dtype=bool)


class PublishedMakespan(Makespan):
    """Bisected to within 5 %, and shared no further."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        with using(first=None, lexicographic=False):
            best = super().allocate(snapshot)
        if best.certificate.objective is None:  # no job can run
            return best
        return self._within(bisected(best.certificate.objective), best)

    def _within(self, seconds: float, best: Allocation) -> Allocation:
        """Any shares with which every job completes within so many seconds."""
        view = View(best.snapshot)
        runs_J = view.fastest_throughput_J > 0
        enough = view.throughput.shifted(-np.where(runs_J, view.steps_left_J / seconds, 0.0))
        found = solve(Statement(best.snapshot, (), view.nothing, (Requirement(enough, repr(self)),), repr(self)))
        left_s_J = view.steps_left_J[runs_J] / np.maximum(found.throughput_J[runs_J], 1e-300)
        reached = replace(
            found.certificate, objective=float(left_s_J.max(initial=0.0)), bound=best.certificate.bound
        )
        return replace(found, certificate=reached, notes=best.notes)


def bisected(least: float) -> float:
    """The level at which the published bisection ends if everything from ``least`` on can be reached.

    >>> round(bisected(10_000.0))
    10472
    """
    (low, high), reached = BISECTED_S, None
    window = high
    while reached is None:
        while CLOSE * low < high:
            middle = (low + high) / 2.0
            if middle >= least:
                reached = high = middle
            else:
                low = middle
        low, high = window, 10.0 * window
        window = high
    return reached
