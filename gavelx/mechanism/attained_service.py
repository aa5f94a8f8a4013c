"""Attained service: the time that jobs received of what they were promised, which says if allocations are kept.

Legend: J live jobs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gavelx.mechanism.live import LiveJobs

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AttainedService:
    """Seconds on devices that live jobs were promised so far, and that they have received, by job id.

    ``behind_s_J`` is the difference: positive for a job that is owed time, negative for one that filled in.
    ``most_behind_s`` bounds it: no job was further behind at the beginning of any round until now.
    """

    job_ids: tuple[int, ...]
    promised_s_J: Floats
    received_s_J: Floats
    most_behind_s: float

    @property
    def behind_s_J(self) -> Floats:
        return self.promised_s_J - self.received_s_J


def received_s(live: LiveJobs, now_s: float) -> Floats:
    """Seconds on devices so far, those of present leases included."""
    return np.asarray(live.held_s + np.where(live.running(), now_s - live.since_s, 0.0))
