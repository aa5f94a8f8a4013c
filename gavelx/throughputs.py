"""Throughput tables: steps/s of a job type on an accelerator type.

An entry above 0 was *measured*, 0 means that the job type *cannot run* there (out of memory, say), and a missing
entry is *unknown*.

Legend: J jobs, A accelerator types.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gavelx import frames
from gavelx.job_table import kinds
from gavelx.jobs import Job

if TYPE_CHECKING:
    import pandas

End = Literal["lower", "upper"]
"""An end of a range of speeds."""


class Setting(NamedTuple):
    """How a job runs: its type, accelerator type, number of devices, and whether it is consolidated."""

    job_type: str
    accelerator: str
    scale_factor: int = 1
    consolidated: bool = True


class Size(NamedTuple):
    """How an elastic job runs: on so many devices, with so many samples in each update of all of them together."""

    job_type: str
    accelerator: str
    devices: int
    batch: int
    consolidated: bool = True


class Pairing(NamedTuple):
    """Two one-device jobs that share a device of this type; the key (a, b) is ordered."""

    job_type: str
    partner: str
    accelerator: str


@dataclass(frozen=True)
class Throughputs:
    """Steps/s of whole jobs, alone (``isolated``) and sharing one device with a partner (``colocated``).

    ``colocated[Pairing(a, b, type)]`` is the speed of ``a`` beside ``b``. Accelerator names are lower case.
    ``ranges`` holds (lower, upper) around each speed that is estimated; other speeds are exact. ``reasons`` says
    why a job cannot run where its speed is 0, if that is known.

    A step of a job type is the same work on any number of devices, as in the published tables. ``sizes`` holds
    updates/s of elastic jobs at other batch sizes (those of a type that has any count in updates), and
    ``noise_scale`` the gradient noise scale of job types, by which larger batches are worth less
    (:func:`gavelx.sizes.worth`). ``mixed`` holds speeds on several types at once that leases measured, each under
    :func:`gavelx.mixes.setting_of`; where there is none, it follows from those of the types.
    """

    isolated: Mapping[Setting, float]
    colocated: Mapping[Pairing, float] = field(default_factory=dict)
    name: str = ""
    ranges: Mapping[Setting | Pairing, tuple[float, float]] = field(default_factory=dict)
    reasons: Mapping[Setting | Pairing, str] = field(default_factory=dict)
    sizes: Mapping[Size, float] = field(default_factory=dict)
    noise_scale: Mapping[str, float] = field(default_factory=dict)
    mixed: Mapping[Setting, float] = field(default_factory=dict)

    def at(self, end: End) -> "Throughputs":
        """The table with every estimated speed at this end of its range, and no ranges."""
        if end not in self._ends:
            side = 0 if end == "lower" else 1
            of = {way: bounds[side] for way, bounds in self.ranges.items()}
            isolated = {way: of.get(way, speed) for way, speed in self.isolated.items()}
            colocated = {way: of.get(way, speed) for way, speed in self.colocated.items()}
            self._ends[end] = replace(self, isolated=isolated, colocated=colocated, ranges={})
        return self._ends[end]

    def also_called(self, other: Mapping[str, str]) -> "Throughputs":
        """The table in which each of these accelerator types has the speeds of another, too."""
        if not other:
            return self

        def both(of: Mapping[Any, Any]) -> dict[Any, Any]:
            copies = ((way._replace(accelerator=name), way) for name, same in other.items() for way in of
                      if way.accelerator == same)  # fmt: skip
            return {**of, **{copy: of[way] for copy, way in copies}}

        return replace(
            self,
            isolated=both(self.isolated),
            colocated=both(self.colocated),
            ranges=both(self.ranges),
            reasons=both(self.reasons),
            sizes=both(self.sizes),
        )

    @cached_property
    def _ends(self) -> "dict[End, Throughputs]":
        """Cache of :meth:`at`."""
        return {}

    def get(
        self, job_type: str, accelerator: str, scale_factor: int = 1, consolidated: bool = True
    ) -> float | None:
        """Steps/s of the whole job; 0.0 if it cannot run, None if unknown."""
        return self.isolated.get(Setting(job_type, accelerator, scale_factor, consolidated))

    def matrix(
        self, jobs: Sequence[Job], accelerators: Sequence[str], consolidated: bool = True
    ) -> NDArray[np.float64]:
        """T_JA: steps/s of each job on each accelerator type; NaN if unknown."""
        kind_J, keys = kinds(jobs, "job_type", "scale_factor")
        speeds = [self.get(kind, name, width, consolidated) for kind, width in keys for name in accelerators]
        speed_KA = np.array(speeds, dtype=float).reshape(len(keys), len(accelerators))  # None becomes NaN
        return speed_KA[kind_J]

    def beside(self, job_types: Sequence[str], accelerators: Sequence[str]) -> NDArray[np.float64]:
        """Steps/s of a job of type t beside one of u on accelerator a (T x T x A); NaN if unknown."""
        known = self._beside.setdefault(tuple(accelerators), {})
        for pair in product(job_types, job_types):
            if pair not in known:
                speeds = (self.colocated.get(Pairing(*pair, accelerator)) for accelerator in accelerators)
                known[pair] = [np.nan if speed is None else speed for speed in speeds]
        rows = [known[pair] for pair in product(job_types, job_types)]
        return np.array(rows, dtype=float).reshape(len(job_types), len(job_types), len(accelerators))

    @cached_property
    def _beside(self) -> dict[tuple[str, ...], dict[tuple[str, str], list[float]]]:
        """Cache of :meth:`beside`."""
        return {}

    def to_frame(self) -> "pandas.DataFrame":
        """A row for each speed alone: the setting, steps/s (0: it cannot run), and the range of an estimate."""
        nothing = (math.nan, math.nan)
        return frames.frame(
            setting._asdict()
            | {"steps_per_second": speed}
            | dict(zip(("lower", "upper"), self.ranges.get(setting, nothing), strict=True))
            for setting, speed in self.isolated.items()
        )

    def __repr__(self) -> str:
        ways = f"{len(self.isolated):,} speeds alone, {len(self.colocated):,} in pairs"
        types = ", ".join(self.accelerators)
        return (
            f"<Throughputs {self.name or 'without a name'}: {len(self.job_types):,} job types on {types}; {ways}>"
        )

    def _repr_html_(self) -> str:
        return frames.html(self.to_frame())

    @cached_property
    def batches(self) -> Mapping[tuple[str, str, int, bool], tuple[int, ...]]:
        """The batch sizes in ``sizes``, by job type, accelerator type, devices and whether in one place."""
        found = defaultdict[tuple[str, str, int, bool], list[int]](list)
        for size in self.sizes:
            found[size.job_type, size.accelerator, size.devices, size.consolidated].append(size.batch)
        return {key: tuple(sorted(batches)) for key, batches in found.items()}

    @cached_property
    def job_types(self) -> tuple[str, ...]:
        """Every job type of the table, in the table's order."""
        return tuple(dict.fromkeys(setting.job_type for setting in self.isolated))

    @cached_property
    def accelerators(self) -> tuple[str, ...]:
        """Every accelerator type of the table, in the table's order."""
        return tuple(dict.fromkeys(setting.accelerator for setting in self.isolated))
