"""Speeds of jobs whose users say none: estimated where nothing is known, until leases measure them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gavelx.estimator.online import Online
from gavelx.estimator.untold import MEASURED_ERROR, Rate, untold_speeds
from gavelx.measurements import Way
from gavelx.throughputs import Setting

Kind = tuple[str, int]
"""A job type and a number of devices."""


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

    def add(self, kind: Kind) -> bool:
        """Jobs of this kind say no speed; whether that is news."""
        if kind in self.kinds:
            return False
        self.kinds[kind] = None
        self._fill(kind)
        return True

    def joined(self, accelerator: str, rate: Rate) -> None:
        """A server of this type is here."""
        if accelerator not in self.rates:
            self.rates[accelerator] = rate
            for kind in self.kinds:
                self._fill(kind)

    def concerns(self, way: Way) -> bool:
        """Whether this speed was said by nobody."""
        return isinstance(way, Setting) and way not in self.said and (way.job_type, way.scale_factor) in self.kinds

    def measured(self, way: Setting) -> bool:
        """A lease has measured this speed, of those that it concerns; whether another one is used from now on."""
        used = self.speeds.get(way) if way not in self.ranges else None
        if used is not None and self.online.better(way, used) is None:
            return False
        self._fill((way.job_type, way.scale_factor))
        return True

    def _fill(self, kind: Kind) -> None:
        known = dict[str, tuple[float, float]]()
        for name, way in self._ways(kind):
            if way in self.said:
                known[name] = self.speeds[way], MEASURED_ERROR
            elif (learned := self.online.learned(way)) is not None:
                known[name] = learned.speed, learned.relative_error
                self.speeds[way] = learned.speed
                self.ranges.pop(way, None)
        for name, estimate in untold_speeds(self.rates, known).items():
            way = Setting(kind[0], name, kind[1])
            self.speeds[way] = estimate.steps_per_second
            self.ranges[way] = estimate.lower, estimate.upper

    def _ways(self, kind: Kind) -> Iterator[tuple[str, Setting]]:
        return ((name, Setting(kind[0], name, kind[1])) for name in self.rates)
