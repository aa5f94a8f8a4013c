"""What the mechanism knows of one job, to be read: plain values, as of now."""

from dataclasses import dataclass

from gavelx.jobs import Job
from gavelx.mechanism.commands import Lease


@dataclass(frozen=True, slots=True)
class JobView:
    """One live job. Seconds and dollars count from its submission, steps from its beginning.

    ``share`` is the part of its time that it was promised in all, ``promised_s`` and ``received_s`` the seconds on
    devices so far. ``saved_steps`` of the ``steps_done`` are in a checkpoint. ``lease`` is what it holds, if
    anything; ``protected``: it is not preempted, as it would lose its work.
    """

    job: Job
    steps_done: float
    saved_steps: float
    share: float
    promised_s: float
    received_s: float
    lost_s: float
    spent_usd: float
    failures: int
    protected: bool
    done: bool
    lease: Lease | None

    @property
    def behind_s(self) -> float:
        """Seconds on devices that it is owed; negative for a job that filled idle devices."""
        return self.promised_s - self.received_s
