"""The steps of a job: from its own reports, or from the lines that it prints."""

import math
import re
import time
from typing import Protocol

from gavelx.estimator.steady_speed import Sample
from gavelx.worker.logs import segments_of
from gavelx.worker.state import LeaseFolder


class Steps(Protocol):
    """A source of a job's steps; samples are in order of time, on this machine's monotonic clock."""

    samples: list[Sample]

    def look(self) -> None:
        """Read new reports."""


class Reported:
    """Steps in the job's report file, with the time in the report."""

    def __init__(self, folder: LeaseFolder) -> None:
        self.samples: list[Sample] = []
        self._folder = folder

    def look(self) -> None:
        report = self._folder.report() or {}
        steps, said_s = report.get("steps_done"), report.get("monotonic_s")
        if not isinstance(steps, int | float):
            return
        now_s = time.monotonic()
        known = isinstance(said_s, int | float) and math.isfinite(said_s) and said_s <= now_s
        sample = Sample(float(said_s) if known and said_s is not None else now_s, float(steps))
        if not self.samples or sample.steps != self.samples[-1].steps:
            self.samples.append(sample)


class Printed:
    """Lines of rank 0 that match: the pattern's first group is the count; without one, each is a step."""

    def __init__(self, folder: LeaseFolder, pattern: re.Pattern[str]) -> None:
        self.samples: list[Sample] = []
        self._path, self._pattern = folder.path, pattern
        self._at = 0
        self._rest = b""

    def look(self) -> None:
        now_s = time.monotonic()
        *lines, self._rest = (self._rest + self._new()).split(b"\n")
        for line in lines:
            if (found := self._pattern.search(line.decode(errors="replace"))) is not None:
                self._take(found, now_s)

    def _new(self) -> bytes:
        """The output since the last look, without a part that was dropped."""
        text = b""
        for start, path in segments_of(self._path).get(0, []):
            with path.open("rb") as file:
                file.seek(max(0, self._at - start))
                text += (part := file.read())
                self._at = max(self._at, start) if not part else file.tell() + start
        return text

    def _take(self, found: "re.Match[str]", now_s: float) -> None:
        """Add one sample for all lines that were read at once."""
        if self._pattern.groups:
            try:
                steps = float(found[1].replace(",", ""))
            except (ValueError, AttributeError):
                steps = math.nan
        else:
            steps = (self.samples[-1].steps if self.samples else 0.0) + 1.0
        if self.samples and self.samples[-1].time_s == now_s:
            self.samples.pop()
        self.samples.append(Sample(now_s, steps))


def steps_of(folder: LeaseFolder, pattern: "re.Pattern[str] | None") -> Steps:
    """Steps from printed lines if there is a pattern, otherwise from reports."""
    return Reported(folder) if pattern is None else Printed(folder, pattern)
