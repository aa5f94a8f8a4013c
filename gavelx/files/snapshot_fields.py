"""Fields that both forms of snapshot files have in common.

Legend: A accelerator types, J jobs.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gavelx.files.jsons import Node
from gavelx.files.limits import DEVICES_MAX
from gavelx.jobs import Job


def device_counts(node: Node) -> dict[str, int]:
    """Devices by accelerator type, as ``{"v100": 5}``."""
    return {name: count.whole(low=0, high=DEVICES_MAX) for name, count in node.by_type().items()}


def job_indices(jobs: Sequence[Job], node: Node) -> dict[int, int]:
    """Job id -> index; a job that is repeated in this list is an error."""
    index_of: dict[int, int] = {}
    for j, job in enumerate(jobs):
        if (first := index_of.setdefault(job.id, j)) != j:
            nodes = node.elements()
            raise nodes[j].mistake(f"job {job.id} is in {nodes[first].path} already", expected="each job once")
    return index_of


def member_index(node: Node, index_of: Mapping[int, int]) -> int:
    """The index of the job with this id; an id that no job has is an error."""
    job_id = node.whole(low=0)
    if job_id not in index_of:
        raise node.mistake(f"there is no job {job_id}", expected="the id of a job above")
    return index_of[job_id]


def usd_per_hour(node: Node, accelerators: Sequence[str]) -> NDArray[np.float64]:
    """usd_per_hour_A; NaN for a type that is missing or null."""
    known = {name: usd.number(low=0) for name, usd in node.by_type().items() if usd.value is not None}
    return np.array([known.get(name, np.nan) for name in accelerators], dtype=float)
