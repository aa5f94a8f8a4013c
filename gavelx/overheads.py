"""What it costs to stop a job and to start it again, in seconds of its devices' time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Overhead(NamedTuple):
    """Seconds to write a checkpoint, and seconds from a restart to the next step."""

    checkpoint_s: float = 0.0
    restart_s: float = 0.0


NOTHING = Overhead()


@dataclass(frozen=True)
class Overheads:
    """Checkpoint and restart seconds by job type; ``default`` where a type has none of its own.

    The devices are held meanwhile, and billed. A first start is not charged: it is part of the job itself.
    """

    default: Overhead = NOTHING
    by_type: Mapping[str, Overhead] = field(default_factory=dict)

    def of(self, job_type: str) -> Overhead:
        """The overhead of a job of this type."""
        return self.by_type.get(job_type, self.default)


FREE = Overheads()
"""Stopping and restarting cost nothing, as in the published simulator."""
