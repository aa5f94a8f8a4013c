"""The device time of a cluster by its log: what jobs were charged for, and what no job held, for a bill.

The log is replayed, and the mechanism's accounts tell of each charge, so a bill at the log's own prices is what
``gavelx status`` says of its jobs. What is found out later is on the bill of then, at the prices of the time that
it concerns: a lease was held for longer or shorter than was known, or a server was gone before that was noticed.
So there may be less than no time of a job, or of idle devices, in a part that begins in between; parts add up to
the whole.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from gavelx.files.results import Period, Usage, Use
from gavelx.mechanism.accounts import Charge
from gavelx.mechanism.events import Event, PriceChanged, WorkerJoined, WorkerLost
from gavelx.prices import Prices
from gavelx.service.state.replay import made_with
from gavelx.service.state.snapshots import replay
from gavelx.service.state.state import State
from gavelx.service.store.calendar import Calendar
from gavelx.service.store.log import Log
from gavelx.service.store.records import Entry

Watch = Callable[[int, int], None]
"""Hears how many records were read, of how many."""
Ends = Callable[[str], None]
"""Hears when a log ends that does not reach the end of the time that is asked for."""


def read_usage(
    place: str,
    since: datetime | None = None,
    until: datetime | None = None,
    watch: Watch = lambda done, total: None,
    ends: Ends = lambda day: None,
) -> Usage:
    """The device time by a log, from ``since`` on (or its begin), up to ``until`` (or its end, its last record).

    Raises :class:`InputFileError` for a log in which nothing was recorded, and :class:`OptionError` for a moment
    that the log does not have.
    """
    log = Log(place, read_only=True)
    try:
        state = State(made_with(log))
        meter = Meter(state, since, until)
        for record, entry, _ in replay(log, state, before=meter.before):
            assert entry.event is not None
            meter.after(entry.event)
            watch(record.sequence, log.last_sequence)
            if meter.is_over:
                break
        usage = meter.usage()
        if until is not None and not meter.is_over:
            ends(meter.day)
        return usage
    finally:
        log.close()


@dataclass
class Part:
    """A time of constant prices: device-seconds charged by job and type, and available by type, all by number.

    ``tariff`` is the number of its prices.
    """

    from_s: float
    tariff: int
    charged_s: dict[tuple[int, int], float] = field(default_factory=lambda: defaultdict(float))
    available_s: dict[int, float] = field(default_factory=lambda: defaultdict(float))


class Meter:
    """Follows a state, and adds up its device time from one moment to another."""

    def __init__(self, state: State, since: datetime | None, until: datetime | None) -> None:
        self.state, self.since, self.until = state, since, until
        self.is_over = False
        self._calendar = Calendar()
        self._now_s = 0.0
        self._there = Counter[int]()  # devices by type
        self._of_server: dict[int, Counter[int]] = {}  # each that is there
        self._tariffs = state.mechanism.accounts.tariffs
        self._parts = [Part(0.0, self._tariffs.last)]
        self._policies: dict[str, None] = {}
        state.mechanism.accounts.charged = self._charged

    def before(self, entry: Entry) -> None:
        """This entry is the next one."""
        assert entry.event is not None
        now_s = entry.event.time_s
        self._calendar.note(entry)
        if self.since is not None and (at_s := self._calendar.seconds(self.since, "--since")) <= now_s:
            self.since = None
            self._cut(max(at_s, self._now_s))
            self._parts, self._policies = self._parts[-1:], {}
        if self.until is not None and (at_s := self._calendar.seconds(self.until, "--until")) <= now_s:
            self.until, self.is_over = None, True
            self._cut(max(at_s, self._now_s))
        self._pass(now_s)

    def after(self, event: Event) -> None:
        """It is applied."""
        if self.is_over:
            return
        if self.state.policy:
            self._policies[self.state.policy] = None
        match event:
            case PriceChanged(time_s=now_s):
                self._parts.append(Part(now_s, self._tariffs.last))
            case WorkerJoined(server=server):
                self._leave(server.id)
                a = self.state.mechanism.hardware.accelerators.index(server.accelerator)
                self._of_server[server.id] = Counter({a: server.device_count})
                self._there += self._of_server[server.id]
            case WorkerLost(server_id=server_id) if self.state.machines[server_id].lost:
                gone = list(self._tariffs.pieces(event.time_s, event.over_s - event.time_s))
                for a, devices in self._leave(server_id).items():  # it was gone before that was noticed
                    for tariff, seconds in gone:
                        self._part_at(tariff).available_s[a] += devices * seconds

    @property
    def day(self) -> str:
        """What day it is."""
        return self._calendar.day(self._now_s)

    def _leave(self, server_id: int) -> Counter[int]:
        devices = self._of_server.pop(server_id, Counter())
        self._there -= devices
        return devices

    def _charged(self, charge: Charge) -> None:
        job_id, a, device_s, tariff = charge
        if not self.is_over:
            self._part_at(tariff).charged_s[job_id, a] += device_s

    def _part_at(self, tariff: int) -> Part:
        """The last part at these prices; of prices of before the first part, one that lasts no time."""
        found = next((part for part in reversed(self._parts) if part.tariff == tariff), None)
        if found is None:
            found = Part(self._parts[0].from_s, tariff)
            self._parts.insert(0, found)
        return found

    def _pass(self, now_s: float) -> None:
        for a, devices in self._there.items():
            self._parts[-1].available_s[a] += devices * (now_s - self._now_s)
        self._now_s = now_s

    def _cut(self, now_s: float) -> None:
        """A part ends; what jobs hold now will be charged in the next one, and a piece of it is of this one."""
        self._pass(now_s)
        before = self._parts[-1]
        after = Part(now_s, before.tariff)
        for job_id, a, device_s in self.state.mechanism.accounts.not_charged_yet(now_s):
            before.charged_s[job_id, a] += device_s
            after.charged_s[job_id, a] -= device_s
        self._parts.append(after)

    def usage(self) -> Usage:
        """What was added up."""
        if self.since is not None:
            raise self._calendar.mistake("--since", self._now_s)
        if self.until is not None and self._calendar.seconds(self.until, "--until") == math.inf:
            raise self._calendar.mistake("--until", self._now_s)
        if not self.is_over:
            self._cut(self._now_s)
        parts = self._parts[:-1]
        names = self.state.mechanism.hardware.accelerators
        there = {a for part in parts for a in part.available_s} | {a for part in parts for _, a in part.charged_s}
        types = {a: names[a] for a in sorted(there)}
        begin_s = parts[0].from_s
        periods = tuple(_period(part, begin_s, self._tariffs[part.tariff], types) for part in parts)
        idle = {name: sum(period.idle_device_s[name] for period in periods) for name in types.values()}
        label = "recorded" + (f" ({', '.join(self._policies)})" if self._policies else "")
        name = self._tariffs[parts[-1].tariff].name
        return Usage(label, self._uses(parts, types), idle, name, periods)

    def _uses(self, parts: list[Part], types: dict[int, str]) -> tuple[Use, ...]:
        of_job: dict[int, dict[int, dict[str, float]]] = {}
        for k, part in enumerate(parts):
            for (job_id, a), device_s in part.charged_s.items():
                if device_s:
                    of_job.setdefault(job_id, {}).setdefault(k, {})[types[a]] = device_s
        owner_of = {job_id: self.state.jobs[job_id].job.owner for job_id in of_job}
        return tuple(Use(i, owner_of[i], _summed(of_job[i]), of_job[i]) for i in sorted(of_job))


def _summed(of_period: dict[int, dict[str, float]]) -> dict[str, float]:
    names = {name: None for device_s in of_period.values() for name in device_s}
    return {name: sum(device_s.get(name, 0.0) for device_s in of_period.values()) for name in names}


def _period(part: Part, begin_s: float, prices: Prices, types: dict[int, str]) -> Period:
    idle_s = {a: part.available_s.get(a, 0.0) for a in types}
    for (_, a), device_s in part.charged_s.items():
        idle_s[a] -= device_s
    usd = {name: prices.of(name) for name in types.values()}
    return Period(
        part.from_s - begin_s,
        {name: None if math.isnan(each) else Decimal(repr(each)) for name, each in usd.items()},
        {types[a]: round(seconds, 6) for a, seconds in idle_s.items()},  # what is less comes of rounding
    )
