"""What the agent tells a launch of a job, in its environment; outside of gavelx, nothing."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gavelx.errors import UserError
from gavelx.training.elastic import VARIABLE
from gavelx.training.gang import Gang


@dataclass(frozen=True)
class Launch:
    """``folder`` is the job's, or the working directory; ``total_steps`` the submitted number."""

    folder: Path
    lease_file: Path | None
    report_file: Path | None
    lease_id: str | None
    total_steps: int | None
    elastic: bool

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Launch":
        """Raises :class:`UserError` for a number of steps that is none."""
        return cls(
            folder=Path(environment.get("GAVELX_JOB_DIR", ".")),
            lease_file=_path(environment.get("GAVELX_LEASE_FILE")),
            report_file=_path(environment.get("GAVELX_REPORT_FILE")),
            lease_id=environment.get("GAVELX_LEASE_ID"),
            total_steps=_total_steps(environment.get("GAVELX_TOTAL_STEPS")),
            elastic=bool(environment.get(VARIABLE)),
        )

    def check(self, gang: Gang | None) -> None:
        """Raises :class:`UserError` for an elastic job whose processes are not known."""
        if self.elastic and gang is None:
            raise UserError(
                "the job is elastic, and its processes are not known",
                where="Training",
                expected="Training(gang=gang, ...)",
                hint="with gavelx.training.Gang() as gang: ... around all of it",
            )


def _path(name: str | None) -> Path | None:
    return Path(name) if name else None


def _total_steps(submitted: str | None) -> int | None:
    try:
        return int(float(submitted)) or None if submitted else None
    except (ValueError, OverflowError):
        raise UserError(repr(submitted), where="GAVELX_TOTAL_STEPS", expected="a number of steps") from None


def seconds_since_start() -> float:
    """Seconds since this process started, on Linux; elsewhere since its clock began."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):
        return time.process_time()
