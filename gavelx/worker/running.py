"""What an agent asks of whatever runs its jobs: real processes, or jobs that only sleep."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol

from gavelx.rpc import wire_pb2 as wire


class CannotRunError(Exception):
    """A launch that this server can never take; the message is for people."""


def job_in(launch: wire.Launch) -> tuple[int, str]:
    """The job of a launch, and the name of its folder, which no job of another log has."""
    return launch.job_id, launch.folder or str(launch.job_id)


class Runner(Protocol):
    """Runs leases, and keeps what became of each until somebody has heard it.

    Times are seconds on the runner's own monotonic clock, ``now_s``.
    """

    boot_id: str
    log_mark: str
    """The last that the scheduler gave us: it names a record of its log."""
    grace_s: float
    log_bytes: int

    @property
    def ready(self) -> bool:
        """Whether launches are welcome now."""

    def now_s(self) -> float: ...

    def belong_to(self, log_id: str) -> None:
        """Serve the scheduler with this log: leases of another one are over, and their numbers mean nothing."""

    def start(self, launch: wire.Launch, until_s: float) -> None:
        """Run a lease until a time, unless it is known already. Raises :class:`CannotRunError`."""

    def job_of(self, lease_id: int) -> tuple[int, str] | None:
        """The job whose lease of this number runs or ran here, and its folder; None where there was none."""

    def standing(self) -> Collection[int]:
        """The leases that run here."""

    def renew(self, lease_id: int, until_s: float) -> None:
        """Let a lease run until a later time."""

    def stop(self, lease_id: int, reason: str) -> None:
        """Ask a lease to checkpoint and end; it is killed when the grace time has passed."""

    def poll(self) -> None:
        """Take note of what ended."""

    def poll_at_s(self) -> float:
        """When to look again; infinity if nothing runs."""

    def reports(self) -> list[wire.LeaseReport]:
        """How far each lease is."""

    def ended(self) -> Collection[wire.Ended]:
        """What ended and was not acknowledged."""

    def acknowledge(self, report_id: str) -> None:
        """The scheduler has it on its disk."""

    def tell_again(self, lease_id: int) -> None:
        """Report an ended lease once more, as the scheduler seems not to know."""

    def leases_of(self, job_id: int) -> Sequence[Path]:
        """Folders with what a job printed here, oldest lease first."""
