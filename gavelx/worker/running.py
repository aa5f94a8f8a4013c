"""The interface between an agent and the runner of its jobs: real processes, or jobs that only sleep."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from gavelx.rpc import wire_pb2 as wire


class CannotRunError(Exception):
    """A launch that this server can never take; the message is for users."""


def job_in(launch: wire.Launch) -> tuple[int, str]:
    """The job of a launch, and the name of its folder, unique among all logs."""
    return launch.job_id, launch.folder or str(launch.job_id)


class Runner(Protocol):
    """Runs leases, and keeps the outcome of each until it is acknowledged.

    Times are seconds on the runner's own monotonic clock, ``now_s``.
    """

    boot_id: str
    log_mark: str
    """The latest mark of the scheduler, which names a record of its log."""
    grace_s: float
    log_bytes: int

    @property
    def ready(self) -> bool:
        """Whether launches can be taken now."""

    def now_s(self) -> float: ...

    def belong_to(self, log_id: str) -> None:
        """Serve the scheduler with this log: leases of another log are over, and their numbers are invalid."""

    def start(self, launch: wire.Launch, until_s: float) -> None:
        """Run a lease until a time, unless it is known already. Raises :class:`CannotRunError`."""

    def resize(self, launch: wire.Launch) -> None:
        """Let a job go over to another lease while it runs; nothing, if it does so already, or does not run."""

    def continued_by(self, lease_id: int) -> int | None:
        """The lease to which the job of one goes over."""

    def go_over(self, lease_id: int) -> None:
        """The scheduler knows that the job of this lease has gone over: only the other one counts."""

    def job_of(self, lease_id: int) -> tuple[int, str] | None:
        """The job whose lease of this number runs or ran here, and its folder; None if there was none."""

    def standing(self) -> Collection[int]:
        """The leases that run here."""

    def renew(self, lease_id: int, until_s: float) -> None:
        """Let a lease run until a later time."""

    def stop(self, lease_id: int, reason: str) -> None:
        """Ask a lease to checkpoint and end; it is killed when the grace time has passed."""

    def poll(self) -> None:
        """Find leases that have ended."""

    def poll_at_s(self) -> float:
        """Time of the next poll; infinity if nothing runs."""

    def reports(self) -> list[wire.LeaseReport]:
        """The progress of each lease."""

    def ended(self) -> Collection[wire.Ended]:
        """Reports of ended leases without acknowledgement."""

    def acknowledge(self, report_id: str) -> None:
        """Drop a report, because the scheduler has it on its disk."""

    def tell_again(self, lease_id: int) -> None:
        """Report an ended lease once more, because the scheduler seems not to have it."""

    def leases_of(self, job_id: int) -> Sequence[Path]:
        """Folders with the output of a job on this server, oldest lease first."""

    def removed(self, job_id: int) -> str:
        """Why some output of a job was removed here; nothing if none was."""
