"""How far a job is by what it prints: the output of one process, read as it grows."""

import time
from dataclasses import dataclass, field
from pathlib import Path

from gavelx.worker.logs import segments_of
from gavelx.worker.progress_lines import Progress, ProgressLines

READ_MAX = 1 << 16
"""Bytes that are read at a time; of a job that prints more, the latest."""


@dataclass
class Printed:
    """The output of a rank of a lease in this folder."""

    folder: Path
    rank: int
    _lines: ProgressLines = field(default_factory=ProgressLines)
    _at: int = 0

    def progress(self) -> Progress:
        """What the output says by now."""
        for start, path in segments_of(self.folder).get(self.rank, ()):
            self._read(start, path)
        return self._lines.progress()

    def _read(self, start: int, path: Path) -> None:
        """The new bytes of one segment."""
        try:
            end = start + path.stat().st_size
            if end <= self._at:
                return
            gap, self._at = self._at, max(self._at, start, end - READ_MAX)
            with path.open("rb") as file:
                file.seek(self._at - start)
                text = file.read(end - self._at)
        except OSError:
            return  # deleted while we read
        if self._at > gap:
            self._lines.skip()
            text = text[text.find(b"\n") + 1 :]
        self._at = end
        self._lines.read(text, time.monotonic())
