"""A job that runs here: its processes, in the lease that it has, and perhaps in one to which it goes over."""

import math
import subprocess
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gavelx.worker.printed import Printed
from gavelx.worker.shim import SPEECHLESS
from gavelx.worker.silence import Silence
from gavelx.worker.sizes import Size
from gavelx.worker.state import LeaseFolder

PACE_POINTS = 16
"""The number of reports over which a job's speed is measured."""
Json = dict[str, Any]


@dataclass(eq=False)
class Running:
    """A job's processes here, in their lease; ``next`` is the size of another one to which the job goes over.

    ``handed_s``: since when rank 0, if it is here, has gone over; ``handed_steps``: how far it was then.
    """

    folder: LeaseFolder
    launch: Json
    until_s: float
    now: Size
    next: Size | None = None
    handed_s: float | None = None
    handed_steps: float = 0.0
    stop: str = ""
    """Why it was asked to stop."""
    shim: subprocess.Popen[bytes] | None = None
    """None: an earlier run of the agent started it."""
    complete_s: float = math.inf
    """Time at which the job reported that all of its steps are done."""
    points: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=PACE_POINTS))
    """Times and steps of its latest reports."""
    silence: Silence | None = None
    """None: nobody has looked at its steps yet."""
    is_hung: bool = False
    """It was asked to stop because it made no step."""
    killed: dict[int, int | None] = field(default_factory=dict)
    """Processes that the agent itself has killed, and when they started."""
    printed: Printed = field(init=False)

    def __post_init__(self) -> None:
        self.printed = Printed(self.folder.path, int(self.launch["processes"][0]["rank"]))

    @property
    def lease_ids(self) -> list[int]:
        """Those under which the scheduler knows it."""
        return [self.now.lease_id, *([self.next.lease_id] if self.next is not None and self.next.slots else [])]

    @property
    def has_first_rank(self) -> bool:
        """Whether rank 0 is here, which speaks for the whole job."""
        return any(self.now.rank_of(number) == 0 for number in self.now.numbers)

    @property
    def devices(self) -> list[str]:
        """All that it has, with those that it gets or gives up."""
        return list(dict.fromkeys([*self.now.devices, *(self.next.devices if self.next else ())]))

    @property
    def leaving(self) -> int:
        """How many processes are to leave, and have not."""
        if self.next is None:
            return 0
        left = (self.folder.shim() or {}).get("left", ())
        return sum(number not in self.next.numbers and number not in left for number in self.now.numbers)

    def report(self) -> Json | None:
        """The latest report of rank 0 about its lease, or that to which it goes over."""
        report, ids = self.folder.report(), [self.now.lease_id, self.next.lease_id if self.next else None]
        return report if report is not None and report.get("lease_id") in ids else None

    def save(self, joiners: Sequence[Json] = ()) -> None:
        """Keep what has changed since the launch; with the processes that the shim is to start."""
        size = self.next or self.now
        self.folder.write_sizes(
            {
                "generation": size.words["generation"],
                "joiners": list(joiners),
                "now": self.now.to_json(),
                "next": self.next and self.next.to_json(),
                "handed_s": self.handed_s,
                "handed_steps": self.handed_steps,
            }
        )

    def pace(self, now_s: float, steps: float) -> float:
        """Recent steps per second; 0: unknown."""
        if not self.points or steps != self.points[-1][1]:
            self.points.append((now_s, steps))
        (first_s, first), (last_s, last) = self.points[0], self.points[-1]
        return max(0.0, (last - first) / (last_s - first_s)) if last_s > first_s else 0.0

    def shim_lives(self) -> bool:
        """Whether the shim lives: as our child, or by its lock (a job may remove the lock file)."""
        return self.folder.shim_lives() if self.shim is None else self.shim.poll() is None

    @property
    def shim_was_killed(self) -> bool:
        """Whether the shim, which has ended, was killed. A job that does so may write the exit file itself."""
        return self.shim is not None and self.shim.returncode < 0

    @property
    def began(self) -> bool:
        """Whether the shim, which has ended, had started the job, as far as we know.

        True if the shim wrote so, was killed, or has that exit status, or if the lease's folder was removed.
        """
        code = 0 if self.shim is None else self.shim.returncode
        return code < 0 or code == SPEECHLESS or self.folder.shim() is not None or not self.folder.path.exists()

    def was_leaving(self, ended_s: float) -> bool:
        """Whether the job had been asked to stop, or its lease was about to expire, when it ended."""
        long_s = max(self.launch.get("valid_for_s", 0.0) / 2, self.launch["grace_s"])
        return bool(self.stop) or self.until_s - ended_s <= long_s

    def lease(self) -> Json:
        """The content of its lease file."""
        size = self.next or self.now
        return {
            "lease_id": size.lease_id,
            "boot_id": self.launch["boot_id"],
            "until_monotonic_s": self.until_s,
            "until_step": self.launch["until_step"],
            "stop": bool(self.stop),
            "reason": self.stop[:400],
            "hung": self.is_hung,
            **size.words,
        }
