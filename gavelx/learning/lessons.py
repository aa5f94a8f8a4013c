"""Lessons on jobs, clusters and throughputs as they are everywhere else.

Legend: K traces, J jobs of each, N jobs of all of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gavelx.cluster import Cluster
from gavelx.errors import WorkloadError
from gavelx.job_table import column
from gavelx.jobs import Job
from gavelx.policies.lookahead import Model
from gavelx.slots.ahead import Ahead
from gavelx.slots.baselines import drf, optimus, srtf, tetris
from gavelx.slots.greedy import LEAST, Steps
from gavelx.slots.model import Schedule, Slots
from gavelx.slots.moves import Moves
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Throughputs

SLOT_S = 360.0


@dataclass(frozen=True, eq=False)
class Lesson:
    """Traces, the moves of their jobs, and the teacher for them; ``types``: the job type of each kind."""

    slots: Slots
    moves: Moves
    teacher: Schedule
    slot_s: float
    types: tuple[str, ...] = ()

    @property
    def least_s(self) -> float:
        """No schedule is done sooner, on any of the traces: each job takes its time in its fastest size, and all
        together what they hold in those sizes in which they hold least for a step."""
        slots = self.slots
        part_NV = (slots.sizes.use_NVR / np.maximum(self.moves.room_R, LEAST)).max(axis=2)
        step_s_NV = 1.0 / np.where(slots.sizes.speed_NV > 0.0, slots.sizes.speed_NV, np.nan)
        alone_s_KJ = slots.left_KJ * np.nanmin(step_s_NV, axis=1)[slots.kind_KJ]
        shared_s_KJ = slots.left_KJ * np.nanmin(part_NV * step_s_NV, axis=1)[slots.kind_KJ]
        return max(float((slots.arrival_s_KJ + alone_s_KJ).max()), float(shared_s_KJ.sum(axis=1).max()))


TEACHERS: dict[str, Callable[[Steps], Schedule]] = {"drf": drf, "optimus": optimus, "srtf": srtf, "tetris": tetris}
"""Schedules from which DL2's network learns first."""


def lesson_of(
    traces: Sequence[Sequence[Job]],
    cluster: Cluster,
    throughputs: Throughputs,
    slot_s: float = SLOT_S,
    teacher: str | None = None,
) -> Lesson:
    """What a teacher does with these traces, each on a cluster of its own, in slots of so many seconds.

    ``teacher``: one of ``TEACHERS``; default: it looks ahead. All traces have equally many jobs. Raises
    :class:`WorkloadError` for traces that do not, and for a job that can run in no size.
    """
    J = len(traces[0]) if traces else 0
    if not J or any(len(jobs) != J for jobs in traces):
        told = f"traces of {sorted({len(jobs) for jobs in traces})} jobs"
        raise WorkloadError(told, where="lesson_of(...)", expected="traces of equally many jobs, one at least")
    jobs = [replace(job, id=n) for n, job in enumerate(job for one in traces for job in one)]
    model = Model.of(Snapshot.of(jobs, cluster, throughputs, sizes=True).open("sizes"))
    if len(model.job_N) < len(jobs):
        never = next(job for job in jobs if job.id not in set(model.job_N.tolist()))
        raise WorkloadError(f"{never.job_type} can run in no size", where=f"lesson_of(...), on {cluster}")
    kind_KJ = np.argsort(model.job_N).reshape(len(traces), J)
    room_A = cluster.devices_A.astype(float)
    slots = Slots.of(
        model.sizes,
        room_A,
        kind_KJ,
        column(jobs, "total_steps").reshape(kind_KJ.shape),
        arrival_s_KJ=column(jobs, "arrival_s").reshape(kind_KJ.shape),
        weight_KJ=column(jobs, "weight").reshape(kind_KJ.shape),
    )
    steps = Steps.hull(model.sizes, room_A)
    types = tuple(jobs[j].job_type for j in model.job_N.tolist())
    schedule = Ahead(steps, slot_s) if teacher is None else TEACHERS[teacher](steps)
    return Lesson(slots, Moves.along(steps), schedule, slot_s, types)
