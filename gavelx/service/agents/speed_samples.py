"""Every lease is a measurement: how fast its job was, from what agents report anyway.

A report says how long the lease is held and how many steps are done, both by the agent, so neither our clock nor
the way of the message matters. What comes of it is logged, as all that the state follows from.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gavelx.estimator.steady_speed import Rejected, Sample, measure
from gavelx.measurements import Measurement, Way
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.timing import Timing
from gavelx.service.state.leases import LeaseRecord
from gavelx.service.state.state import State
from gavelx.service.state.untold import RUN, RUN_ERROR
from gavelx.service.store.records import Entry, Measured

SAMPLES = 128
"""Kept of a lease; beyond that every other one is dropped, and fewer are taken."""


@dataclass
class Series:
    """Reports of a lease in one way to run: when it has another partner, another series begins."""

    way: Way | None
    samples: list[Sample] = field(default_factory=list)
    apart_s: float = 0.0

    @property
    def seconds(self) -> float:
        return self.samples[-1].time_s - self.samples[0].time_s

    def add(self, sample: Sample) -> None:
        if 0 <= sample.time_s - self.samples[-1].time_s < self.apart_s:
            return
        self.samples.append(sample)
        if len(self.samples) > SAMPLES:
            del self.samples[1:-1:2]
            self.apart_s = 2 * self.seconds / SAMPLES


class SpeedSamples:
    """The reports of the leases that stand. ``rejected``: how many could not be used, and why not the last one."""

    def __init__(
        self, state: State, timing: Timing, post: Callable[[Callable[[float], list[Entry]]], Any]
    ) -> None:
        self._state, self._timing, self._post = state, timing, post
        self._series: dict[int, Series] = {}
        self.rejected: dict[Way, tuple[int, str]] = {}

    def hear(self, run: LeaseRecord, report: wire.LeaseReport) -> None:
        """How far a lease is. A part of it that is long enough is a measurement."""
        if run.stopping or self._state.before(run) is not None:
            return  # it ends, or its job has yet to go over to it
        lease_id, sample = run.lease.id, Sample(report.held_s, report.steps_done)
        way, series = self._state.way_of(run), self._series.get(lease_id)
        if series is None:
            self._series[lease_id] = Series(way, [sample])
        elif series.way != way:
            self._log(self.end(lease_id))
            self._series[lease_id] = Series(way, [sample])
        else:
            series.add(sample)
            if self._is_enough(series):
                self._log(self.end(lease_id))
                self._series[lease_id] = Series(way, [sample])

    def _is_enough(self, series: Series) -> bool:
        """Whether there is a measurement to be had: now and then, and at once where none is known."""
        if series.seconds >= self._timing.measured_again_s:
            return True
        long_s = self._timing.measured_s
        if series.seconds < long_s or series.way not in self._state.untold.ranges:
            return False
        return not isinstance(measure(series.samples, long_s), Rejected)

    def end(self, lease_id: int) -> list[Measurement]:
        """A series is over: its speed, if it was steady for long enough."""
        series = self._series.pop(lease_id, None)
        if series is None or series.way is None:
            return []
        found = measure(series.samples, self._timing.measured_s)
        if isinstance(found, Rejected):
            count, _ = self.rejected.get(series.way, (0, ""))
            self.rejected[series.way] = count + 1, found.reason
            return []
        figures = found.steps_per_second, found.relative_error, found.seconds
        return [Measurement(series.way, *figures, _now(), "a lease")]

    def whole_run(self, run: LeaseRecord, held_s: float) -> list[Measurement]:
        """A job showed no step and is complete: if its speed was not told, its time stands for it."""
        way = self._state.way_of(run)
        if way is None or held_s <= 0.0 or not self._state.untold.concerns(way):
            return []
        return [Measurement(way, 1.0 / held_s, RUN_ERROR, held_s, _now(), RUN)]

    def servers_changed(self) -> None:
        """Leases may have ended without a word."""
        self._series = {i: series for i, series in self._series.items() if i in self._state.runs}

    def _log(self, measured: list[Measurement]) -> None:
        if measured:
            self._post(lambda now_s: [Entry(Measured(now_s, measurement)) for measurement in measured])


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
