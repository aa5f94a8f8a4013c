"""Schedules of the literature with which learned ones are compared, and from which they learn.

Each is an order of steps (:class:`gavelx.slots.greedy.Steps`): along pairs of a worker and a server, say, or along
the corners of speed over devices. Of several groups of sizes a job takes the one that `Greedy` finds for it.

Legend: K clusters, J jobs of each, H steps of a job, R resources.
"""

from collections.abc import Callable

import numpy as np

from gavelx.slots.greedy import LEAST, Greedy, Steps, Weights
from gavelx.slots.model import Floats, Ints, Schedule, Slots

Worth = Callable[[Slots, Ints], Floats]
"""What each step is worth (K x J x H), of jobs in these groups."""


def optimus(steps: Steps) -> Schedule:
    """The step that saves most seconds, for what it takes (Optimus, EuroSys'18, section 4.1)."""
    return Greedy(steps, [Weights(0.0)])


def drf(steps: Steps) -> Schedule:
    """Dominant resource fairness (NSDI'11): the next step of the job whose dominant share is least.

    A job whose next step finds no room stays as it is, and the others go on.
    """

    def worth_KJH(slots: Slots, group_KJ: Ints) -> Floats:
        used_KJHR = np.cumsum(steps.use_NGHR[slots.kind_KJ, group_KJ], axis=2)
        share_KJH = (used_KJHR / np.maximum(steps.room_R, LEAST)).max(axis=3)
        before_KJH = np.concatenate([np.zeros((*group_KJ.shape, 1)), share_KJH[:, :, :-1]], axis=2)
        return np.asarray(1.0 / (before_KJH + LEAST))

    return _by(steps, worth_KJH)


def srtf(steps: Steps) -> Schedule:
    """Shortest remaining time first: in order of the time left at their fastest, jobs take their fastest sizes, or
    all steps that fit on the way there."""
    return _by(steps, lambda slots, group_KJ: _in_order(steps, slots, group_KJ, _left_s_KJ(slots)))


def tetris(steps: Steps) -> Schedule:
    """Jobs in order of alignment - (mean alignment / mean work) work, in sizes as in :func:`srtf`.

    Alignment is demand times what is free, and work is demand times the time that is left, both as parts of what
    there is, over all resources, for the first step of a job. Source: Tetris (SIGCOMM'14), sections 3.2 and 3.3.
    The code that was published with DL2 adds the work, and so prefers long jobs.
    """

    def worth_KJH(slots: Slots, group_KJ: Ints) -> Floats:
        part_KJR = steps.use_NGHR[slots.kind_KJ, group_KJ, 0] / np.maximum(steps.room_R, LEAST)
        align_KJ = part_KJR.sum(axis=2)
        work_KJ, live_KJ = align_KJ * _left_s_KJ(slots), slots.live_KJ
        mean_K1 = (np.where(live_KJ, one, 0.0).sum(axis=1, keepdims=True) for one in (align_KJ, work_KJ))
        align_K1, work_K1 = mean_K1
        return _in_order(steps, slots, group_KJ, align_K1 / np.maximum(work_K1, LEAST) * work_KJ - align_KJ)

    return _by(steps, worth_KJH)


def _by(steps: Steps, worth: Worth) -> Schedule:
    group = Greedy(steps, [Weights(0.0)]).group_KJ

    def schedule(slots: Slots) -> Ints:
        group_KJ = group(slots)
        return steps.grown(slots, group_KJ, worth(slots, group_KJ))

    return schedule


def _left_s_KJ(slots: Slots) -> Floats:
    return np.asarray(slots.left_KJ / np.maximum(slots.sizes.best_N[slots.kind_KJ], 1e-300))


def _in_order(steps: Steps, slots: Slots, group_KJ: Ints, key_KJ: Floats) -> Floats:
    """Worth of the steps of jobs with less keys before those of others; none beyond a job's fastest size."""
    rank_KJ = key_KJ.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    time_NGH = steps.times_and_uses[0].reshape(steps.size_NGH.shape)
    last_KJ = time_NGH.argmin(axis=2)[slots.kind_KJ, group_KJ]
    within_KJH = np.arange(steps.size_NGH.shape[2]) <= last_KJ[:, :, None]
    return np.where(within_KJH, (key_KJ.shape[1] - rank_KJ)[:, :, None], 0.0)
