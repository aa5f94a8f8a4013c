"""A scheduler that does not know the speeds that jobs run at: it believes a table, and leases may teach it better.

Jobs run at the true speeds; policy and mechanism see the believed ones alone. Whether a job runs somewhere at all
is another matter: a job that does not fit a device's memory says so within seconds, so this is taken to be known.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Protocol, TypeVar

from gavelx.drive import Backend
from gavelx.measurements import Measurement, Way
from gavelx.mechanism.commands import Command
from gavelx.mechanism.events import Event, ThroughputsChanged, Wake
from gavelx.mixes import is_mix
from gavelx.throughputs import Setting, Throughputs

SHORTEST_S = 60.0
"""A speed that was kept for less than this is no measurement: a step may take seconds."""
RELEARN_S = 1800.0
"""The table is made anew so often at most, as that may take an estimator a second."""


class Learns(Protocol):
    """Something that is told measurements and says what it believes."""

    def observe(self, measurements: Iterable[Measurement]) -> None:
        """Take these into account."""

    def throughputs(self) -> Throughputs:
        """What is believed now."""


SomeWay = TypeVar("SomeWay", bound=Way)


def where_it_runs(believed: Throughputs, true: Throughputs) -> Throughputs:
    """The believed table with speed 0 wherever jobs cannot run, and without what is not known to be so."""

    def runs(speeds: Mapping[SomeWay, float], true_speeds: Mapping[SomeWay, float]) -> dict[SomeWay, float]:
        known = ((way, speed) for way, speed in speeds.items() if way in true_speeds)
        return {way: speed if true_speeds[way] > 0 else 0.0 for way, speed in known}

    isolated, colocated = runs(believed.isolated, true.isolated), runs(believed.colocated, true.colocated)
    runnable = {way for way, speed in (*isolated.items(), *colocated.items()) if speed > 0}
    ranges = {way: bounds for way, bounds in believed.ranges.items() if way in runnable}
    return replace(believed, isolated=isolated, colocated=colocated, ranges=ranges)


@dataclass
class Lessons:
    """What leases say of how fast they run, for a learner to learn from now and then."""

    learner: Learns
    true: Throughputs
    learned_s: float = 0.0
    heard: list[Measurement] = field(default_factory=list)
    mixes: dict[Way, list[float]] = field(default_factory=dict)

    def ran(self, way: Way, steps_per_second: float, seconds: float) -> None:
        """A lease has run like this for so long since it said so last."""
        if seconds >= SHORTEST_S:
            self.heard.append(Measurement(way, steps_per_second, seconds=seconds, source="lease"))

    def news(self, now_s: float) -> Throughputs | None:
        """The new table, if there is anything new and the last one is old enough."""
        if not self.heard or now_s - self.learned_s < RELEARN_S:
            return None
        for one in self.heard:
            if is_mix(one.way):
                self.mixes.setdefault(one.way, []).append(one.steps_per_second)
        self.learner.observe(one for one in self.heard if not is_mix(one.way))
        self.heard, self.learned_s = [], now_s
        mixed = {way: median(speeds) for way, speeds in self.mixes.items() if isinstance(way, Setting)}
        return replace(where_it_runs(self.learner.throughputs(), self.true), mixed=mixed)


@dataclass
class Learning:
    """The backend ``inner``; when the scheduler wakes up (a round begins, say) it is told what is new before."""

    inner: Backend
    lessons: Lessons
    now_s: float = 0.0

    def events(self) -> Iterator[Event]:
        for event in self.inner.events():
            self.now_s = event.time_s
            if isinstance(event, Wake) and (told := self.lessons.news(self.now_s)) is not None:
                yield ThroughputsChanged(self.now_s, told)
            yield event

    def execute(self, command: Command) -> None:
        self.inner.execute(command)

    def post(self, event: Event) -> None:
        self.inner.post(event)
