"""Speeds of jobs whose users say none: estimated where nothing is known, until leases measure them.

Of a type whose jobs show no steps, the wall time by device type stands for them: a whole run is one step, and each
run that was complete in one lease is a measurement, though a rough one, as runs of one type are not equally long.
As soon as steps of the type are measured, its runs do not count any more.

Of a type that is in the table, or has the name of one of today's jobs, data sheets and shipped speeds say more
(``foretell``); that is in the log as well.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gavelx.estimator.online import Online
from gavelx.estimator.untold import MEASURED_ERROR, Rate, foretold_speeds, untold_speeds
from gavelx.measurements import Estimate, Measurement, Way
from gavelx.mixes import is_mix
from gavelx.throughputs import Setting

RUN, RUN_ERROR = "a run", 0.5
"""The source of a measurement that is a whole run, and its relative error."""
SCALING, SCALING_ERROR = 0.8, 0.25
"""Twice the devices do 2 ** 0.8 as many steps/s, give or take a quarter, until that is measured."""
Kind = tuple[str, int]
"""A job type and a number of devices."""
Foretold = list[Any]
"""Job type, number of devices, accelerator type, and steps/s: the estimate and the ends of its range."""


@dataclass
class UntoldSpeeds:
    """Fills the gaps of ``speeds`` for these ``kinds`` of jobs, and the ``ranges`` around what it fills in.

    ``said`` is what the table says, ``online`` what leases have measured. ``rates`` are those of the accelerator
    types that servers brought; they are in the log, so a replay estimates the same.
    """

    said: Mapping[Way, float]
    speeds: dict[Setting, float]
    online: Online
    ranges: dict[Way, tuple[float, float]] = field(default_factory=dict)
    rates: dict[str, Rate] = field(default_factory=dict)
    kinds: dict[Kind, None] = field(default_factory=dict)
    widths: dict[str, dict[int, None]] = field(default_factory=dict)  # numbers of devices in ``kinds``, by type
    counted: dict[Kind, None] = field(default_factory=dict)  # those whose steps were measured
    told: dict[str, set[int]] = field(default_factory=dict)  # numbers of devices at which a type's speeds are said
    foretold: dict[Kind, dict[str, Estimate]] = field(default_factory=dict)  # by data sheets

    def foretell(self, rows: Iterable[Foretold]) -> bool:
        """Data sheets say these speeds of kinds of jobs; whether that concerns any that are here."""
        changed = dict[Kind, None]()
        for job_type, devices, accelerator, middle, low, high in rows:
            kind = job_type, devices
            self.foretold.setdefault(kind, {})[accelerator] = Estimate(middle, low, high, "estimated")
            if kind in self.kinds:
                changed[kind] = None
        for kind in changed:
            self._fill(kind)
        return bool(changed)

    def add(self, kind: Kind) -> bool:
        """Jobs of this kind say no speed; whether that is news."""
        if kind in self.kinds:
            return False
        self.kinds[kind] = None
        self.widths.setdefault(kind[0], {})[kind[1]] = None
        self._fill(kind)
        return True

    def joined(self, accelerator: str, rate: Rate | None) -> bool:
        """A server of this type is here; whether that changes what is estimated. Old logs say no rate."""
        known = self.rates.get(accelerator)
        rate = rate or known or Rate()
        if rate == known:
            return False
        self.rates[accelerator] = rate
        for kind in self.kinds:
            self._fill(kind)
        return bool(self.kinds)

    def concerns(self, way: Way) -> bool:
        """Whether no user and no table says this speed."""
        if not isinstance(way, Setting) or is_mix(way) or way in self.said:
            return False
        return (way.job_type, way.scale_factor) in self.kinds

    def observe(self, measurement: Measurement) -> bool:
        """A lease has measured a speed, of those that it concerns; whether others are used from now on."""
        way = measurement.way
        assert isinstance(way, Setting)
        kind = way.job_type, way.scale_factor
        if measurement.source == RUN and self._counts_steps(kind):
            return False
        if measurement.source != RUN and not self._counts_steps(kind):
            self.counted[kind] = None
            self.online.forget([here for _, here in self._ways(kind)])
        self.online.observe(measurement)
        used = self.speeds.get(way) if way not in self.ranges else None
        if used is not None and self.online.better(way, used) is None:
            return False
        self._fill(kind)
        for devices in self.widths.get(kind[0], ()):
            if devices != kind[1]:
                self._fill((kind[0], devices))
        return True

    def _fill(self, kind: Kind) -> None:
        known, others = dict[str, tuple[float, float]](), dict[str, tuple[float, float]]()
        exact = self._counts_steps(kind)
        for name, way in self._ways(kind):
            if way in self.said:
                known[name] = self.speeds[way], MEASURED_ERROR
            elif (learned := self.online.learned(way)) is not None:
                known[name] = learned.speed, learned.relative_error
                if exact:
                    self.speeds[way] = learned.speed
                    self.ranges.pop(way, None)
            elif (guess := self._from_other_width(way)) is not None:
                others[name] = guess
        if foretold := self.foretold.get(kind):  # of other widths less is known
            estimates = foretold_speeds(self.rates, known, foretold)
        else:
            estimates = untold_speeds(self.rates, known | others, exact=exact and not others)
        for name, estimate in estimates.items():
            if exact and name in known:
                continue
            way = Setting(kind[0], name, kind[1])
            self.speeds[way] = estimate.steps_per_second
            if estimate.steps_per_second > 0:
                self.ranges[way] = estimate.lower, estimate.upper

    def _from_other_width(self, way: Setting) -> tuple[float, float] | None:
        """Steps/s and relative error, by what is known at the nearest number of devices on this type; or None."""
        found = list[tuple[float, float, float]]()
        widths = self.widths.get(way.job_type, {}).keys()
        for devices in widths | self.told.get(way.job_type, set()):
            near, octaves = way._replace(scale_factor=devices), math.log2(way.scale_factor / devices)
            learned = self.online.learned(near)
            speed = self.speeds.get(near) if near in self.said else learned.speed if learned is not None else None
            if speed:
                found.append((abs(octaves), speed * 2.0 ** (SCALING * octaves), SCALING_ERROR * abs(octaves)))
        return min(found)[1:] if found else None

    def _counts_steps(self, kind: Kind) -> bool:
        """Whether it is known what a step of these jobs is."""
        return (
            kind in self.counted or kind in self.foretold or any(way in self.said for _, way in self._ways(kind))
        )

    def _ways(self, kind: Kind) -> Iterator[tuple[str, Setting]]:
        return ((name, Setting(kind[0], name, kind[1])) for name in self.rates)
