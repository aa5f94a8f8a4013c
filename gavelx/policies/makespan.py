"""Finish all jobs as early as possible."""

from dataclasses import replace

import numpy as np

from gavelx.allocation import Allocation
from gavelx.policies.program import Minimize
from gavelx.policies.terms import Largest, NormalizedThroughput, TimeLeft, Worst
from gavelx.policies.view import View
from gavelx.snapshot import Snapshot
from gavelx.solvers import settings, solve, using
from gavelx.solvers.program.statement import Requirement, Statement

BISECTED_S, CLOSE = (100.0, 1e6), 1.05
"""Where the published bisection begins, and the ratio of its ends at which it stops."""


class Makespan(Minimize):
    """Make the time until the last of the present jobs completes as short as possible.

    minimise max_j steps_left_j / e_j; ``certificate.objective`` gives it in seconds. What that leaves free is
    shared by max-min fairness, so that jobs do not all complete at the very end. Source: Gavel (OSDI'20), section
    4.2, which bisects to within 5 % and shares nothing further. Under rules that ask for the published answers
    (``interior``) so does this.
    """

    name = "makespan"
    promises = ("pareto_efficiency",)

    def __init__(self) -> None:
        super().__init__(Largest(TimeLeft()), then=Worst(NormalizedThroughput()))

    def allocate(self, snapshot: Snapshot) -> Allocation:
        if not settings().interior:
            return super().allocate(snapshot)
        with using(interior=False, lexicographic=False):
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
