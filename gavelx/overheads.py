"""Overheads: the time that a checkpoint and a restart take, in seconds on the job's devices."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Overhead(NamedTuple):
    """Seconds to write a checkpoint, seconds from a restart to the first step after it, and those of a resize.

    ``resize_s``: how long an elastic job pauses while it goes over to other devices without a restart, or to
    another batch size. Devices that come to it have started before, which takes ``restart_s``. None: it cannot,
    and is stopped and launched again.
    """

    checkpoint_s: float = 0.0
    restart_s: float = 0.0
    resize_s: float | None = None


NOTHING = Overhead()


@dataclass(frozen=True)
class Overheads:
    """Checkpoint, restart and resize seconds by job type; ``default`` for other types.

    The job holds its devices during this time, and pays for them. A first start is not charged: it is part of the
    job itself.
    """

    default: Overhead = NOTHING
    by_type: Mapping[str, Overhead] = field(default_factory=dict)

    def of(self, job_type: str) -> Overhead:
        """The overhead of a job of this type."""
        return self.by_type.get(job_type, self.default)


FREE = Overheads()
"""Stopping and restarting cost nothing, as in the published simulator."""
