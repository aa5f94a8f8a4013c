"""Least attained service in two dimensions, devices and time: Tiresias, with and without a history of jobs.

Legend: J jobs, K queues, H jobs of the history.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.errors import PolicyError
from gavelx.execution import Execution
from gavelx.policies.base import Policy
from gavelx.policies.greedy import Handout, by_arrival, soonest_s_J
from gavelx.snapshot import WAITING, Snapshot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Las2d(Policy):
    """Serve first the jobs that have had the least so far: devices times seconds, in a few queues.

    Attained service is scale_factor_j x held_s_j. A job is in the queue between whose thresholds (device-seconds)
    that lies; lower queues go first, and within a queue the older job. So new jobs start soon, long ones sink, and
    jobs of one queue do not take turns at every step. A job that has waited ``promote_knob`` times as long as it
    has run goes back to the first queue, until it has caught up; the default, infinity, never does, as in the
    published simulator, which has these two thresholds too. Nothing is known of speeds or lengths, but a job that
    gets devices takes the fastest free type. The policy is asked again when a job can change its queue.

    Source: Tiresias (NSDI'19), section 3.3, discretised 2D-LAS with PROMOTEKNOB. The paper orders a queue by the
    time of the first start and counts anew after a promotion; a snapshot knows neither, so arrival orders a queue
    and a promotion lasts as long as its condition. Priority weights play no role.
    """

    name = "las_2d"
    ignores = ("weights",)

    def __init__(self, thresholds: Sequence[float] = (3250.0, 7200.0), promote_knob: float = float("inf")) -> None:
        self.thresholds, self.promote_knob = np.array(thresholds, dtype=float), promote_knob
        where = f"{self.name}(thresholds={tuple(thresholds)}, promote_knob={promote_knob})"
        if not (np.diff(self.thresholds, prepend=0.0) > 0).all():
            raise PolicyError("thresholds that do not rise", where=where, expected="rising device-seconds above 0")
        if not promote_knob > 0:
            raise PolicyError(f"promote_knob is {promote_knob!r}", where=where, expected="a number above 0")

    def allocate(self, snapshot: Snapshot) -> Allocation:
        handout = Handout(snapshot)
        attained_J = snapshot.scale_factor_J * snapshot.held_s_J
        queue_J = self.thresholds.searchsorted(attained_J, side="right")
        queue_J[self._promoted(snapshot)] = 0
        handout.in_order(by_arrival(snapshot, queue_J, self.within_queue(handout, attained_J, queue_J)))
        return handout.allocation(Execution(refresh_s=self._next_change_s(handout, attained_J)))

    def within_queue(self, handout: Handout, attained_J: Floats, queue_J: Ints) -> Floats:
        """What orders the jobs of one queue before their arrival does, the least first."""
        return np.zeros(len(attained_J))

    def _promoted(self, snapshot: Snapshot) -> NDArray[np.bool_]:
        """Whether a job has waited so much longer than it has run; one that never ran is in the first queue."""
        waited_s_J = snapshot.elapsed_s_J - snapshot.held_s_J
        return (snapshot.held_s_J > 0) & (waited_s_J / self.promote_knob >= snapshot.held_s_J)

    def _next_change_s(self, handout: Handout, attained_J: Floats) -> float | None:
        """When the first job changes its queue if all goes on like this; None if no job ever will."""
        snapshot, held_s_J = handout.snapshot, handout.snapshot.held_s_J
        runs_J = np.array(handout.type_J, dtype=np.int64) != WAITING
        next_J = np.append(self.thresholds, np.inf)[self.thresholds.searchsorted(attained_J, side="right")]
        change_s_J = np.where(runs_J, (next_J - attained_J) / snapshot.scale_factor_J, np.inf)
        if np.isfinite(self.promote_knob):
            behind_s_J = (1.0 + self.promote_knob) * held_s_J - snapshot.elapsed_s_J  # until it is promoted
            promoted_s_J = np.where(runs_J, -behind_s_J / self.promote_knob, behind_s_J)
            sinks_J = (held_s_J > 0) & (promoted_s_J > 0)
            change_s_J = np.minimum(change_s_J, np.where(sinks_J, promoted_s_J, np.inf))
        first_s = float(change_s_J.min(initial=np.inf))
        return first_s if np.isfinite(first_s) else None


class Las2dGittins(Las2d):
    """``las_2d`` in which each queue is ordered by the chance of being done soon, going by a history of jobs.

    Jobs of a queue go by their Gittins index, the largest first: P(S - a <= D | S > a) / E[min(S - a, D) | S > a],
    where a is the service attained, S that of a whole job, drawn from the history, and D the quantum of the queue,
    from its threshold to the next (infinite in the last). Source: Tiresias (NSDI'19), section 3.3, discretised
    2D-Gittins.

    ``service`` is the history, device-seconds of jobs that are done. Left out, it is what the live jobs have
    attained and would still need on their fastest types: more than Tiresias may know, since a policy keeps no
    record of jobs that are gone.
    """

    name = "las_2d_gittins"
    ignores = ("weights",)

    def __init__(
        self,
        service: Sequence[float] = (),
        thresholds: Sequence[float] = (3250.0, 7200.0),
        promote_knob: float = float("inf"),
    ) -> None:
        super().__init__(thresholds, promote_knob)
        self.service = np.array(service, dtype=float)

    def within_queue(self, handout: Handout, attained_J: Floats, queue_J: Ints) -> Floats:
        quantum_K = np.diff(self.thresholds, prepend=0.0, append=np.inf)
        history_H = self.service if len(self.service) else whole_service(handout, attained_J)
        return -gittins_index(attained_J, quantum_K[queue_J], history_H)


def whole_service(handout: Handout, attained_J: Floats) -> Floats:
    """Device-seconds of the live jobs from start to end, on their fastest types from now on, if they can run."""
    snapshot = handout.snapshot
    left_s_J = soonest_s_J(snapshot.steps_left_J, handout.T_JA)
    service_J = attained_J + snapshot.scale_factor_J * left_s_J
    return np.asarray(service_J[np.isfinite(service_J)])


def gittins_index(attained_J: Floats, quantum_J: Floats, service_H: Floats) -> Floats:
    """P(S - a <= D | S > a) / E[min(S - a, D) | S > a] of each job; 0 where no job of the history had more than a.

    With services above a sorted and summed, both are one subtraction: of n jobs above a, m are within a + D, and
    the sum of min(S - a, D) is that of their services less m a, plus D for each of the others.
    """
    service_H = np.sort(service_H)
    sum_H = np.concatenate([[0.0], service_H.cumsum()])
    above_J = service_H.searchsorted(attained_J, side="right")
    within_J = service_H.searchsorted(attained_J + quantum_J, side="right")
    done_J, rest_J = within_J - above_J, len(service_H) - within_J
    spent_J = sum_H[within_J] - sum_H[above_J] - done_J * attained_J
    spent_J += np.multiply(rest_J, quantum_J, out=np.zeros(len(rest_J)), where=rest_J > 0)
    return np.asarray(np.divide(done_J, spent_J, out=np.zeros(len(attained_J)), where=spent_J > 0))
