"""The device time of a cluster by its log: what jobs paid, to the last second, in any window."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.cluster import Server
from gavelx.errors import OptionError
from gavelx.files.price_tables import Quote
from gavelx.files.results import Usage
from gavelx.mechanism import events
from gavelx.prices import Prices
from gavelx.pricing.bill import bill_as_run, bill_of
from gavelx.service.state.snapshots import compact
from gavelx.service.state.state import State
from gavelx.service.state.usage import Meter, read_usage
from gavelx.service.store.log import Log
from gavelx.service.store.records import Started, entry_of
from gavelx.simulator.ledger import usd_between
from tests.service.billed import check_same, usd_of
from tests.service.written_log import POLICIES, ROUND_S, SERVERS, Writer

BEGAN = datetime(2026, 11, 1, tzinfo=UTC)
WORDS = ("submit", "submit", "round", "round", "policy", "price", "lose", "lapse", "join", "restart", "late")


class Cluster(Writer):
    """What happens there is drawn; ``up_s`` and ``up_usd`` are an account of its own of devices that were there.

    A price of 0 would hide faults, so there is none.
    """

    def __init__(self, seed: int, *, dated: bool = True) -> None:
        self.dated, self.lost, self.epoch = dated, set[int](), 0
        self.off_s = 0.0  # while no scheduler ran, the log's clock stood still
        self.up_s, self.up_usd, self._counted_s = Counter[str](), 0.0, 0.0
        self.repriced: list[tuple[float, Prices]] = []
        self.unheard: events.LeaseEnded | None = None
        super().__init__(seed)

    def ask(self, policy: str) -> None:
        if not self.now_s:
            self.restart()
        super().ask(policy)

    @property
    def day(self) -> datetime:
        return BEGAN + timedelta(seconds=self.now_s + self.off_s)

    def restart(self, off_s: float = 3600.0) -> None:
        self.off_s += off_s if self.now_s else 0.0
        started = Started(self.now_s, "boot", self.now_s, 60.0)
        self.write(started, {"utc": self.day.isoformat()} if self.dated else {})

    def count(self) -> None:
        """What was there until now."""
        for n in SERVERS.keys() - self.lost:
            self._was_up(n, self._counted_s, self.now_s, 1)
        self._counted_s = self.now_s

    def _was_up(self, n: int, from_s: float, until_s: float, sign: int) -> None:
        accelerator, devices = SERVERS[n]
        self.up_s[accelerator] += sign * devices * (until_s - from_s)
        usd = usd_between(self.made_with.prices, self.repriced)
        self.up_usd += sign * devices * usd(accelerator, from_s, until_s)

    def lose(self, lapsed_s: float | None = None) -> None:
        self.count()
        if here := sorted(set(SERVERS) - self.lost):
            self.lost.add(here[0])
            if lapsed_s is not None:
                self._was_up(here[0], lapsed_s, self.now_s, -1)
            self.write(events.WorkerLost(self.now_s, here[0], self.epoch, lapsed_s))

    def lapse(self) -> None:
        """A server was gone for some time before that is noticed; prices may have changed in between."""
        self.round()
        if self.rng.random() < 0.5:
            self.price()
            self.now_s += float(self.rng.integers(1, ROUND_S))
        self.lose(lapsed_s=self.now_s - float(self.rng.integers(1, ROUND_S)))

    def late(self) -> None:
        """Leases had ended for some time before that is heard of, some of jobs that were cancelled meanwhile."""
        self.round()
        self.price()
        self.now_s += float(self.rng.integers(1, ROUND_S))
        for run in [run for run in self.state.runs.values() if not run.stopping][:2]:
            lease, late_s = run.lease, float(self.rng.integers(1, 2 * ROUND_S))
            held_s = max(0.0, self.now_s - lease.charged_from_s - late_s)
            ended = events.LeaseEnded(self.now_s, lease.id, lease.job_id, 0.0, held_s)
            if self.rng.random() < 0.3:
                self.unheard = ended
                self.write(events.JobCancelled(self.now_s, lease.job_id))
            else:
                self.write(ended)

    def end(self, lease_id: int, part: float) -> None:
        """As it was drawn, if it was."""
        drawn, self.unheard = self.unheard, None
        if drawn is not None and drawn.lease_id == lease_id:
            self.write(drawn)
        else:
            super().end(lease_id, part)

    def price(self, v100: float | None = None) -> None:
        """Other prices, drawn but for this one."""
        usd = {"v100": v100 or float(self.rng.integers(1, 9)), "k80": float(self.rng.integers(1, 9)) / 8}
        self.repriced.append((self.now_s, Prices(usd, "of the day")))
        self.write(events.PriceChanged(*self.repriced[-1]))

    def join(self) -> None:
        self.count()
        if self.lost:
            self.epoch += 1
            n = self.lost.pop()
            note = {"name": f"server-{n}", "address": "10.0.0.1", "boot_id": f"boot-{n}-{self.epoch}"}
            self.write(events.WorkerJoined(self.now_s, Server(n, *SERVERS[n]), self.epoch), note)

    def happen(self, word: str) -> None:
        match word:
            case "policy":
                self.ask(str(self.rng.choice(POLICIES)))
            case _:
                getattr(self, word)()

    def usage(self, since: datetime | None = None, until: datetime | None = None) -> Usage:
        """As :func:`read_usage` has it, from memory."""
        meter = Meter(State(self.made_with), since, until)
        for record in self.records:
            entry = entry_of(record)
            meter.before(entry)
            meter.state.apply(entry)
            assert entry.event is not None
            meter.after(entry.event)
        return meter.usage()

    def spent_usd(self) -> dict[int, float]:
        """By the state itself, as `gavelx status` says it."""
        accounts = self.state.mechanism.accounts
        accounts.settle_all(self.now_s)
        live = self.state.mechanism.live
        found = dict(zip(live.id.tolist(), live.spent_usd.tolist(), strict=True))
        found |= {i: known.spent_usd for i, known in self.state.jobs.items() if known.ended}
        return {i: usd for i, usd in found.items() if usd}


CLUSTERS = st.builds(
    lambda seed, words: played(Cluster(seed), words),
    st.integers(0, 10**6),
    st.lists(st.sampled_from(WORDS), min_size=5, max_size=40),
)


def played(cluster: Cluster, words: list[str]) -> Cluster:
    for word in words:
        cluster.happen(word)
    cluster.write(events.Wake(cluster.now_s))  # the log goes on until now
    cluster.count()
    return cluster


def seconds(usages: list[Usage]) -> Counter[tuple[object, str]]:
    """By job and type; None: idle."""
    found = Counter[tuple[object, str]]()
    for usage in usages:
        for use in usage.uses:
            found.update({(use.job_id, name): device_s for name, device_s in use.device_s.items()})
        found.update({(None, name): device_s for name, device_s in usage.idle_device_s.items()})
    return found


@given(CLUSTERS)
def test_jobs_pay_what_status_says_and_the_rest_is_idle(cluster: Cluster) -> None:
    usage = cluster.usage()
    check_same(usd_of(usage), cluster.spent_usd())
    total_s = Counter[str]()
    for (_, name), device_s in seconds([usage]).items():
        total_s[name] += device_s
    assert total_s == pytest.approx(cluster.up_s, abs=1e-4)
    bill = bill_as_run(usage, "as-run", {})
    spent = sum(cluster.spent_usd().values())
    assert float(bill.busy_usd) == pytest.approx(spent, abs=0.0051)
    assert bill.total_usd == sum(usd for *_, usd in bill.by_job) + bill.idle_usd
    assert float(bill.total_usd) == pytest.approx(cluster.up_usd, abs=0.0101)


@given(CLUSTERS, st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4))
def test_windows_add_up_to_the_whole(cluster: Cluster, places: list[float]) -> None:
    """Also where they begin while no scheduler ran, or before the log, and end after it."""
    length_s = (cluster.day - BEGAN).total_seconds()
    cuts = [BEGAN + timedelta(seconds=round(place * length_s, 3)) for place in sorted(places)]
    windows = [*zip([None, *cuts], [*cuts, None], strict=True)]
    windows = [(since, until) for since, until in windows if since is None or since <= cluster.day]
    parts = seconds([cluster.usage(since, until) for since, until in windows])
    assert parts == pytest.approx(dict.fromkeys(parts, 0.0) | seconds([cluster.usage()]), abs=1e-4)
    everything = cluster.usage(BEGAN - timedelta(days=1), cluster.day + timedelta(days=1))
    assert seconds([everything]) == seconds([cluster.usage()])


def stored(place: Path, cluster: Cluster) -> str:
    log = Log(str(place))
    log.configure(cluster.made_with.to_json())
    log.append(cluster.records)
    log.close()
    return str(place)


def busy(*, dated: bool = True) -> Cluster:
    return played(
        Cluster(3, dated=dated), [*("submit", "submit", "round") * 4, "price", "restart", *("round",) * 3]
    )


def test_a_compacted_log_has_the_same_bill(tmp_path: Path) -> None:
    place, heard = stored(tmp_path, busy()), list[tuple[int, int]]()
    before = read_usage(place, watch=lambda done, total: heard.append((done, total)))
    assert heard[-1][0] == heard[-1][1] == len(heard)
    assert compact(place).archived > 0
    assert read_usage(place) == before


def test_a_server_was_there_until_it_was_gone_not_until_that_was_noticed() -> None:
    cluster = Cluster(3)
    cluster.round()
    cluster.lose(lapsed_s=cluster.now_s - 20.0)
    assert cluster.usage().idle_device_s == {"v100": 8 * ROUND_S - 4 * 20.0, "k80": 4 * ROUND_S}


def test_a_bill_that_begins_before_it_was_noticed_has_the_difference() -> None:
    """Less than no time, so that it and the bill before it are right together."""
    cluster = Cluster(3)
    cluster.round()
    begin = cluster.day - timedelta(seconds=10.0)
    cluster.lose(lapsed_s=cluster.now_s - 20.0)
    usage = cluster.usage(since=begin)
    assert usage.idle_device_s == {"v100": 4 * 10.0 + 4 * (10.0 - 20.0), "k80": 4 * 10.0}
    cluster.lose(lapsed_s=cluster.now_s - 20.0)
    usage = cluster.usage(since=begin)
    assert usage.idle_device_s["v100"] == 8 * (10.0 - 20.0)
    assert bill_as_run(usage, "as-run", {}).idle_usd < 0
    cheap = bill_of(usage, {name: Quote(Decimal("1e-9"), None) for name in usage.accelerators}, "cheap")
    assert str(cheap.idle_usd) == "0.00"


def test_what_was_not_there_is_given_back_at_the_price_of_then() -> None:
    """A type is lost, and its price with it, before the loss is noticed; also on a bill that begins in between."""
    cluster = Cluster(3)
    cluster.round()
    begin = cluster.day
    cluster.write(events.PriceChanged(cluster.now_s, Prices({"k80": 3600.0}, "of k80")))
    for _ in range(2):
        cluster.lose(lapsed_s=cluster.now_s - 20.0)
    cluster.now_s += 10.0
    cluster.write(events.Wake(cluster.now_s))
    bill = bill_as_run(cluster.usage(since=begin), "as-run", {})
    assert bill.idle_usd == Decimal(str(round(-8 * 20.0 * 2.0 / 3600.0, 2))) + 4 * 10


def test_a_job_that_was_cancelled_pays_what_its_lease_cost_then() -> None:
    """Its lease had ended before the price changed, and that is heard of after it was cancelled."""
    cluster = Cluster(3)
    cluster.ask("fifo")
    cluster.submit()
    cluster.now_s += ROUND_S
    cluster.write(events.Wake(cluster.now_s))
    (run,) = cluster.state.runs.values()
    lease, held_s = run.lease, 10.0
    cluster.now_s += ROUND_S / 2
    cluster.price(v100=9.0)
    cluster.now_s += ROUND_S / 4
    cluster.unheard = events.LeaseEnded(cluster.now_s, lease.id, lease.job_id, 0.0, held_s)
    cluster.write(events.JobCancelled(cluster.now_s, lease.job_id))
    usd = len(lease.devices) * held_s * cluster.made_with.prices.of(lease.accelerator) / 3600.0
    assert cluster.spent_usd() == pytest.approx({lease.job_id: usd})
    check_same(usd_of(cluster.usage()), cluster.spent_usd())


def test_less_than_no_time_without_a_known_price_is_refused() -> None:
    """A type is lost, and its price with it, and was gone for longer than without it."""
    cluster = Cluster(3)
    cluster.round()
    cluster.write(events.PriceChanged(cluster.now_s, Prices({"k80": 1.0}, "of k80")))
    cluster.now_s += 10.0
    for _ in range(2):
        cluster.lose(lapsed_s=cluster.now_s - 5.0)
    with pytest.raises(OptionError, match="while no price of v100 was known"):
        bill_as_run(cluster.usage(), "as-run", {})


def test_types_that_were_not_there_need_no_price() -> None:
    """So a bill of this month does not ask what a device of last year costs."""
    cluster = played(Cluster(3), ["round", "lose", "lose", "round"])
    later = cluster.day
    played(cluster, ["round"])
    assert list(cluster.usage(since=later).idle_device_s) == ["k80"]


def test_the_policies_of_the_window_are_named() -> None:
    cluster = busy()
    between = cluster.day
    cluster.happen("round")
    cluster.ask("fifo")
    cluster.happen("round")
    assert cluster.usage().policy == f"recorded ({POLICIES[0]}, fifo)"
    assert cluster.usage(until=between).policy == f"recorded ({POLICIES[0]})"


def test_what_the_log_does_not_know_is_said(tmp_path: Path) -> None:
    undated = stored(tmp_path / "undated", busy(dated=False))
    assert read_usage(undated).uses
    for option in ("since", "until"):
        with pytest.raises(OptionError, match=f"--{option}: this log does not say what day it was"):
            read_usage(undated, **{option: BEGAN})
    upgraded = busy(dated=False)
    upgraded.dated = True
    upgraded.restart()
    first, older = upgraded.day, upgraded.day - timedelta(seconds=1)
    upgraded.happen("round")
    place = stored(tmp_path / "upgraded", upgraded)
    for window in ({"since": older}, {"until": older}):
        with pytest.raises(
            OptionError, match="what day it was is not in the older part of this log; expected 2026-11"
        ):
            read_usage(place, **window)
    parts = [read_usage(place, until=first), read_usage(place, since=first)]
    assert seconds(parts) == pytest.approx(seconds([read_usage(place)]))
    with pytest.raises(OptionError, match=r"--since: the log ends before; expected 2026-11-01T\S+ or earlier"):
        read_usage(place, since=upgraded.day + timedelta(seconds=1))


def test_a_moment_while_no_scheduler_ran_is_known_however_short_the_log_before_it() -> None:
    """The log's clock stands still while a machine is off: by the last start, that moment is before the first."""
    cluster = busy(dated=False)
    cluster.dated = True
    cluster.restart()
    cluster.round()
    off = cluster.day + timedelta(hours=5)
    cluster.restart(off_s=6 * 3600.0)
    cluster.round()
    parts = [cluster.usage(until=off), cluster.usage(since=off)]
    assert seconds(parts) == pytest.approx(seconds([cluster.usage()]), abs=1e-4)
    assert sum(parts[1].periods[0].idle_device_s.values()) <= 12 * ROUND_S


@pytest.mark.parametrize("off_s", [-86400.0, -1e9, 1e9])
def test_a_clock_that_was_set_loses_no_time_and_counts_none_twice(off_s: float) -> None:
    cluster = busy()
    cuts = [cluster.day - timedelta(seconds=50)]
    cluster.restart(off_s=off_s)
    played(cluster, ["round"])
    cuts += [cluster.day - timedelta(seconds=20), BEGAN + timedelta(seconds=70)]
    for cut in cuts:
        parts = [cluster.usage(until=cut), cluster.usage(since=cut)]
        assert seconds(parts) == pytest.approx(seconds([cluster.usage()]), abs=1e-4)
