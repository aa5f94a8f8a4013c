"""How far a job is by what it prints: the output of one process, read as it grows.

A job may put anything into the folder of its lease, even a pipe without a writer or thousands of files.
"""

import os
import time
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from gavelx.worker.logs import segments_in
from gavelx.worker.progress_lines import Progress, ProgressLines
from gavelx.worker.shim import open_file

READ_MAX, FILES_MAX = 1 << 16, 64
"""Bytes that are read at a time, the latest of a job that prints more; and files that are looked at."""


@dataclass
class Printed:
    """The output of a rank of a lease in this folder."""

    folder: Path
    rank: int
    _lines: ProgressLines = field(default_factory=ProgressLines)
    _at: int = 0

    def progress(self) -> Progress:
        """What the output says by now."""
        try:
            with os.scandir(self.folder) as entries:
                paths = [Path(entry.path) for entry in islice(entries, FILES_MAX)]
        except OSError:
            paths = []
        for start, path in segments_in(paths).get(self.rank, ()):
            self._read(start, path)
        return self._lines.progress()

    def _read(self, start: int, path: Path) -> None:
        """The new bytes of one segment."""
        try:
            with open_file(path) as file:
                end = start + os.fstat(file.fileno()).st_size
                if end <= self._at:
                    return
                gap, self._at = self._at, max(self._at, start, end - READ_MAX)
                file.seek(self._at - start)
                text = file.read(end - self._at)
        except OSError:
            return  # deleted while we read
        if self._at > gap:
            self._lines.skip()
            text = text[text.find(b"\n") + 1 :]
        self._at = end
        self._lines.read(text, time.monotonic())
