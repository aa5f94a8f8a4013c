"""What a learned policy is worth: the traces of a lesson under it, its teacher, and a greedy schedule.

Legend: K traces.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from gavelx.learning.lessons import Lesson
from gavelx.policies.dl2 import KIND, Reads
from gavelx.policies.network import Network
from gavelx.slots.baselines import optimus
from gavelx.slots.greedy import Steps
from gavelx.slots.model import Floats, Schedule, play
from gavelx.slots.turns import handed_out, in_turn

PATIENCE = 4
"""A schedule that has not completed all jobs after so many times the teacher's slots is stopped."""
CONFIDENCE = 0.95


class Evaluation(NamedTuple):
    """Of each trace, the mean completion time in seconds; one that was stopped counts as complete then."""

    network_s_K: Floats
    teacher_s_K: Floats
    greedy_s_K: Floats


def schedule_by(network: Network, lesson: Lesson) -> Schedule:
    """What a network of either kind decides on the jobs of a lesson."""
    if network.note.get("kind") == KIND:
        window = Reads.of(network.note).window(lesson.moves, lesson.types)
        return lambda seen: in_turn(seen, lesson.moves, window.best(network.outputs))
    return lambda seen: handed_out(seen, lesson.moves, network, lesson.slot_s)


def evaluated(schedule: Schedule, lesson: Lesson) -> Evaluation:
    """The same traces under a schedule, the teacher, and the greedy schedule over all sizes (Optimus' rule)."""
    slots, slot_s = lesson.slots, lesson.slot_s
    taught = play(slots, lesson.teacher, slot_s)
    most = PATIENCE * round(taught.time_s / slot_s)
    greedy = optimus(Steps.hull(slots.sizes, lesson.moves.room_R))

    def mean_s_K(schedule: Schedule) -> Floats:
        played = play(slots, schedule, slot_s, most)
        jct_s_KJ = np.where(np.isnan(played.done_s_KJ), played.time_s - slots.arrival_s_KJ, played.jct_s_KJ)
        return np.asarray(jct_s_KJ.mean(axis=1))

    return Evaluation(
        mean_s_K(schedule),
        np.asarray(taught.jct_s_KJ.mean(axis=1)),
        mean_s_K(greedy),
    )


def difference(one_K: Floats, other_K: Floats) -> tuple[float, float | None]:
    """The mean over traces of one over the other, less 1, and half its 95 % interval (Student's t)."""
    ratio_K, K = one_K / other_K - 1.0, len(one_K)
    half = stdtrit(K - 1, 0.5 + CONFIDENCE / 2.0) * ratio_K.std(ddof=1) / np.sqrt(K) if K > 1 else None
    return float(ratio_K.mean()), None if half is None else float(half)
