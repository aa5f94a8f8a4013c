"""The log's clock: monotonic seconds since the log began, continued across restarts.

Within one boot of the machine it counts the time in which the service was down as well; after another boot it goes
on from the last event, as it is unknown how long the machine was off without trusting a clock that may be set.
"""

import time
from datetime import UTC, datetime
from pathlib import Path

from gavelx.service.store.records import Started

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock:
    """``now_s()`` never goes back, and is never before what was logged. ``utc`` is when it was started."""

    def __init__(self, started: Started, last_s: float) -> None:
        self.boot_id = BOOT_ID.read_text().strip() if BOOT_ID.exists() else ""
        here_s = time.monotonic()
        same_boot = self.boot_id != "" and started.boot_id == self.boot_id
        begin_s = started.time_s + here_s - started.monotonic_s if same_boot else last_s
        self._last_s = max(begin_s, last_s)
        self._zero_s = here_s - self._last_s
        self.started = Started(self._last_s, self.boot_id, here_s)
        self.utc = datetime.now(UTC).isoformat(timespec="milliseconds")

    def now_s(self) -> float:
        self._last_s = max(self._last_s, time.monotonic() - self._zero_s)
        return self._last_s
