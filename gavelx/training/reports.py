"""Reports of a job to the agent: the number of steps that are done, and that are saved.

One small file (``GAVELX_REPORT_FILE``), replaced atomically, so that a reader always sees a complete report.
Counts are totals since the job began.
"""

import json
import math
import os
import time
import warnings
from pathlib import Path
from typing import Any

from gavelx.training.checkpoints import TrainingWarning

EVERY_S = 1.0


class Reports:
    """Writes reports, at most one in ``EVERY_S`` except important ones. Without a path it does nothing."""

    def __init__(self, path: Path | None, lease_id: str | None) -> None:
        self.path = path
        self.lease_id = int(lease_id) if lease_id and lease_id.isdecimal() else lease_id
        self._written_s = -math.inf
        self._warned = False

    def due(self) -> bool:
        return self.path is not None and time.monotonic() >= self._written_s + EVERY_S

    def write(self, **report: Any) -> None:
        """Replace the report. A full disk does not stop the training."""
        if self.path is None:
            return
        self._written_s = time.monotonic()
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            stamp = {"lease_id": self.lease_id, "monotonic_s": self._written_s}
            part.write_text(json.dumps(stamp | report))
            part.replace(self.path)
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            warnings.warn(f"{self.path} cannot be written ({error.strerror})", TrainingWarning, stacklevel=3)
        self._warned = True
