"""Ways to run that need too much memory: what is too large for a device is too large for one with less memory.

The rule is cautious, because a job that is wrongly declared unable to run is never tried there. A way to run
counts as impossible only if one that needs no more memory failed on that device or on one with more memory:

* the same model at this batch size or a smaller one, with as many devices placed alike;
* the same two models side by side, each at this batch size or a smaller one; or one of them alone.

A failure is not attributed to memory if a job that needs as much ran on that device or on one with less. Devices
with the same memory on their data sheets differ by the needs of drivers and libraries, so nothing follows from one
for another.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gavelx.accelerators import DataSheets
from gavelx.estimator.names import JobName, read_name
from gavelx.measurements import Way
from gavelx.throughputs import Pairing, Setting

MORE = 1.1
"""Factor from which memory counts as more."""

Models = tuple[str, ...]
Shape = tuple[int, bool]
"""Number of devices, and whether they are in one server."""


class _Tried(NamedTuple):
    """Batch sizes of the jobs, and the device."""

    names: tuple[JobName, ...]
    accelerator: str

    @property
    def models(self) -> Models:
        return tuple(name.model for name in self.names)


class CannotRun:
    """The ways to run that failed, and the conclusions for other ways."""

    def __init__(self, speed_of: Mapping[Way, float], data_sheets: DataSheets) -> None:
        self._memory_gb: dict[str, float] = {}
        self._data_sheets = data_sheets
        ran: dict[Models, list[_Tried]] = defaultdict(list)
        failed: list[tuple[_Tried, Shape]] = []
        for way, speed in speed_of.items():
            for tried, shape in _forms(way):
                if speed > 0:
                    ran[tried.models].append(tried)
                else:
                    failed.append((tried, shape))
        self._failed: dict[tuple[Models, Shape], list[_Tried]] = defaultdict(list)
        for tried, shape in failed:
            if not any(self._no_more(tried, other) for other in ran[tried.models]):
                self._failed[tried.models, shape].append(tried)

    def says(self, way: Way) -> bool:
        """Whether this way to run surely cannot run."""
        if not self._failed:
            return False
        tried, shape = next(_forms(way))
        return self._hopeless(tried, shape) or (
            isinstance(way, Pairing) and any(self._hopeless(alone, (1, True)) for alone in _each_alone(tried))
        )

    def _hopeless(self, tried: _Tried, shape: Shape) -> bool:
        return any(self._no_more(other, tried) for other in self._failed.get((tried.models, shape), ()))

    def _no_more(self, a: _Tried, b: _Tried) -> bool:
        """Whether ``a`` needs no more memory than ``b``, on the same device or one that has clearly more."""
        return all(
            mine == its or mine.batch_size <= its.batch_size for mine, its in zip(a.names, b.names, strict=True)
        ) and (a.accelerator == b.accelerator or self._memory(a.accelerator) >= MORE * self._memory(b.accelerator))

    def _memory(self, accelerator: str) -> float:
        if accelerator not in self._memory_gb:
            self._memory_gb[accelerator] = self._data_sheets.find(accelerator).memory_gb
        return self._memory_gb[accelerator]


def _forms(way: Way) -> Iterator[tuple[_Tried, Shape]]:
    """A way to run as jobs and device, with its shape; a pair in both orders."""
    if isinstance(way, Setting):
        yield _Tried((read_name(way.job_type),), way.accelerator), (way.scale_factor, way.consolidated)
        return
    a, b = read_name(way.job_type), read_name(way.partner)
    yield _Tried((a, b), way.accelerator), (1, True)
    yield _Tried((b, a), way.accelerator), (1, True)


def _each_alone(tried: _Tried) -> Iterator[_Tried]:
    for name in tried.names:
        yield _Tried((name,), tried.accelerator)
