"""The lease of a training process: it ends at a request to stop, at its time, or after its steps.

The agent keeps a small file with the lease (``GAVELX_LEASE_FILE``), which it replaces whenever the lease is
renewed:

    {"lease_id": 7, "until_monotonic_s": 5120.5, "until_step": 20000, "stop": false}

and sends SIGTERM when the job must save and leave. Without a file, only the signal counts. The file of an elastic
job also has the words of a `gavelx.training.elastic.Size`: when their ``generation`` rises, the job resizes.
"""

import json
import math
import os
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any

from gavelx.training.elastic import Size

POLL_S = 0.1
"""Least seconds between reads of the file."""


class Lease:
    """The right to run, as read from the lease file and the signal."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.asked = False
        self.until_s = math.inf
        self.until_step = math.inf
        self.lease_id: int | None = None
        self.size: Size | None = None
        self._half_s = math.inf
        self._version: tuple[int, int] | None = None
        self._looked_s = -math.inf
        self._before: Any = None

    def __enter__(self) -> "Lease":
        """Handle SIGTERM as a request to stop from now on; only the main thread can."""
        try:
            self._before = signal.signal(signal.SIGTERM, self._ask)
        except ValueError:
            self._before = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    def over(self, step: float, need_s: float) -> bool:
        """Whether to save and leave now, if saving and the next step take ``need_s`` seconds.

        ``need_s`` counts for half of a renewal at most: a job that saves for longer than its lease would never
        begin.
        """
        self.look()
        return (
            self.asked or step >= self.until_step or time.monotonic() + min(need_s, self._half_s) >= self.until_s
        )

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True

    def look(self) -> None:
        """Read the file if it was replaced. A missing or malformed file changes nothing."""
        now_s = time.monotonic()
        if self.path is None or now_s < self._looked_s + POLL_S:
            return
        self._looked_s = now_s
        try:
            status = os.stat(self.path)  # noqa: PTH116  (no object for each look)
            version = (status.st_ino, status.st_mtime_ns)
            if version != self._version:
                self._take(json.loads(self.path.read_text()), now_s)
                self._version = version
        except (OSError, ValueError, TypeError, AttributeError, KeyError):
            return

    def _take(self, lease: dict[str, Any], now_s: float) -> None:
        until_s = lease.get("until_monotonic_s")
        until_s = math.inf if until_s is None else float(until_s)
        until_step = float(lease.get("until_step") or math.inf)
        size = Size.of(lease) if "generation" in lease else self.size
        self.until_s, self.until_step = until_s, until_step
        self._half_s = max(0.0, (until_s - now_s) / 2)
        self.asked = self.asked or lease.get("stop") is True
        self.lease_id, self.size = lease.get("lease_id"), size
