"""The cheapest mix: what it buys, what the simulator says of it, and what bounds it.

Legend: O offers.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.errors import OptionError, WorkloadError
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.policies.deadlines import Deadlines
from gavelx.pricing.mix import RULES, Mix, Repetition, cheapest_mix, repeated
from gavelx.pricing.offers import Offer
from gavelx.pricing.task import Task
from gavelx.throughputs import Setting, Throughputs

HOUR_S = 3600.0
SPEEDS = Throughputs(
    {Setting("a", "fast"): 4.0, Setting("a", "slow"): 1.0, Setting("b", "fast"): 3.0, Setting("b", "slow"): 3.0}
    | {Setting("a", "fast", 2): 8.0, Setting("a", "fast", 2, consolidated=False): 2.0}
)
FAST, SLOW = Offer("fast", 1, 3.0, "sky", "west", "f.1"), Offer("slow", 1, 1.0, "sky", "west", "s.1")


def job(
    job_id: int, hours: float, due_h: float, arrival_h: float = 0.0, *, kind: str = "a", scale: int = 1
) -> Job:
    """So many hours on fast; due so long after its arrival."""
    steps = SPEEDS.isolated[Setting(kind, "fast", scale)] * hours * HOUR_S
    return Job(job_id, kind, steps, scale, arrival_s=arrival_h * HOUR_S, slo=1.0, duration_s=due_h * HOUR_S)


def bought(mix: Mix) -> dict[str, int]:
    return {str(offer): count for offer, count in mix.bought()}


def test_the_type_that_is_cheapest_per_step_of_each_job() -> None:
    mix = cheapest_mix([job(0, 5, 8, kind="a"), job(1, 5, 8, kind="b")], SPEEDS, [FAST, SLOW])
    assert mix.confirmed
    assert bought(mix) == {"sky/f.1": 1, "sky/s.1": 1}
    assert mix.lower_bound_usd_per_hour <= mix.paper_usd_per_hour == mix.answer.usd_per_hour == 4.0
    assert mix.task.hours == 8.0
    assert mix.to_json()["usd"] == pytest.approx(32.0)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (4.0, Repetition(0, 1.0)),
        (1.0, Repetition(0, 3.0)),
        (0.8, Repetition(1, 4.0)),
        (0.5, Repetition(1, None)),
        (0.1, Repetition(2, None)),
    ],
)
def test_a_mix_fares_otherwise_with_other_speeds(times: float, expected: Repetition) -> None:
    """A fast device was bought. At 0.8 it has 10 hours of work in 8; at 0.5 a job alone has 10, on any cluster."""
    mix = cheapest_mix([job(0, 5, 8, kind="a"), job(1, 3, 8, kind="b")], SPEEDS, [FAST, SLOW])
    others = Throughputs({way: speed * times for way, speed in SPEEDS.isolated.items()})
    assert repeated(mix, others, Deadlines()) == expected


def test_what_is_not_worth_its_price_is_dropped() -> None:
    mix = cheapest_mix([job(0, 5, 8, kind="b")], SPEEDS, [FAST, SLOW])
    worth = {one.accelerator: one for one in mix.worth}
    assert worth["slow"].verdict == "break-even"
    assert worth["slow"].worth_usd_per_hour == pytest.approx(1.0)
    assert worth["fast"].verdict == "drop"
    assert worth["fast"].worth_usd_per_hour == pytest.approx(1.0)  # it does what a slow one does


@pytest.mark.parametrize(("jobs", "dollars", "verdict"), [(8, 1.0, "buy"), (5, 0.0, "break-even")])
def test_to_buy_is_said_only_where_a_whole_instance_more_makes_it_cheaper(
    jobs: int, dollars: float, verdict: str
) -> None:
    """In parts, a second fast device is worth the four slow ones that it replaces, in both cases.

    Eight jobs need it and no other, or four slow ones; five need one slow one only, which costs less.
    """
    due = [job(j, 2, 8.5) for j in range(jobs)]
    mix = cheapest_mix(due, SPEEDS, [FAST, SLOW], most={"fast": 1})
    fast, slow = sorted(mix.worth, key=lambda one: one.accelerator)
    assert fast.worth_usd_per_hour == pytest.approx(4.0)
    assert (fast.verdict, fast.whole_usd_per_hour) == (verdict, pytest.approx(dollars))
    assert (slow.verdict, slow.whole_usd_per_hour) == ("break-even", 0.0)
    wider = cheapest_mix(due, SPEEDS, [FAST, SLOW], most={"fast": 2})
    assert mix.paper_usd_per_hour - wider.paper_usd_per_hour == pytest.approx(dollars)
    assert all(one.verdict != "buy" for one in cheapest_mix(due, SPEEDS, [FAST, SLOW]).worth)


def test_a_peak_is_worth_renting_for() -> None:
    """A short rush in a long, quiet day: in that hour a fast device would replace slow ones held all day."""
    rush = [job(0, 20, 24, kind="b"), *(job(j, 0.5, 1.0, 3.0, kind="b") for j in range(1, 7))]
    mix = cheapest_mix(rush, SPEEDS, [FAST, SLOW])
    worth = {one.accelerator: one for one in mix.worth}
    assert worth["fast"].verdict == "rent"
    assert worth["fast"].worth_usd_per_hour < 3.0 < worth["fast"].peak_usd_per_hour


def test_a_gang_is_fast_only_in_one_server() -> None:
    small, large = Offer("fast", 1, 3.0, "sky"), Offer("fast", 2, 7.0, "sky")
    mix = cheapest_mix([job(0, 2, 3, scale=2)], SPEEDS, [small, large])
    assert bought(mix) == {"sky/2xfast": 1}  # two of the small ones are a quarter as fast together
    mix = cheapest_mix([job(0, 2, 9, scale=2)], SPEEDS, [small, large])
    assert bought(mix) == {"sky/1xfast": 2}  # and cheaper, where that is fast enough


def test_an_offer_in_whose_place_smaller_ones_do_is_not_asked_for() -> None:
    offers = [FAST, Offer("fast", 4, 12.0, "sky"), Offer("fast", 8, 20.0, "sky"), Offer("fast", 1, 3.5, "sea")]
    mix = cheapest_mix([job(0, 2, 3)], SPEEDS, offers)
    assert [str(offer) for offer in mix.task.offers] == ["sky/f.1", "sky/8xfast"]


def test_two_offers_of_one_name_are_told_apart() -> None:
    mix = cheapest_mix([job(0, 2, 3)], SPEEDS, [Offer("fast", 1, 3.0), Offer("fast", 2, 5.0)])
    assert len(set(mix.task.names)) == 2
    assert mix.confirmed


def test_limits_send_work_elsewhere() -> None:
    jobs = [job(j, 1, 8) for j in range(7)]
    assert bought(cheapest_mix(jobs, SPEEDS, [FAST, SLOW])) == {"sky/f.1": 1}
    slow = cheapest_mix(jobs, SPEEDS, [FAST, SLOW], most={"fast": 0})
    assert slow.confirmed
    assert slow.paper_usd_per_hour == 4.0  # 28 hours of slow devices in 8
    assert set(bought(slow)) == {"sky/s.1"}


def test_a_cluster_that_fails_in_the_simulator_is_not_the_answer() -> None:
    """On paper one device will do, by an hour of the one and then the other; the simulator has rounds."""
    jobs = [job(0, 1.0, 2.0), job(1, 1.0, 2.0)]
    mix = cheapest_mix(jobs, SPEEDS, [FAST], policy=load_policy("isolated"))
    assert mix.paper_usd_per_hour == 3.0
    assert mix.confirmed
    assert [len(one.late_s) > 0 for one in mix.tries] == [True] * (len(mix.tries) - 1) + [False]


def test_what_the_simulator_never_confirms_is_said() -> None:
    """With rounds of an hour a job that comes amid one is late however many devices there are."""
    jobs = [job(0, 1.0, 1.0), job(1, 0.5, 0.5, 0.25)]
    mix = cheapest_mix(jobs, SPEEDS, [FAST], policy=Idle(), rules=RULES)
    assert not mix.confirmed
    assert set(mix.answer.late_s) == {0, 1}
    assert mix.to_json()["late_s"] == {"0": None, "1": None}


class Idle:
    """Gives nobody anything."""

    def allocate(self, snapshot):  # type: ignore[no-untyped-def]
        answer = load_policy("isolated").allocate(snapshot)
        return replace(answer, share_C=np.zeros(len(answer.share_C))).with_execution(backfill=False)


@pytest.mark.parametrize(
    ("jobs", "most", "kind", "said"),
    [
        ([job(0, 2, 1)], {}, WorkloadError, "job 0: it needs 2 h where it is fastest; its deadline is 1 h after"),
        ([job(0, 2, 3)], {"fast": 0}, WorkloadError, "job 0: it needs 8 h where it is fastest"),
        ([job(0, 2, 3, scale=2)], {"fast": 1}, WorkloadError, "scale factor 2 runs on nothing that is for sale"),
        (
            [job(0, 2, 2), job(1, 2, 2)],
            {"fast": 1},
            OptionError,
            "--max-devices fast=1: no cluster within these limits",
        ),
    ],
)
def test_what_cannot_be_done(jobs: list[Job], most: dict[str, int], kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as error:
        cheapest_mix(jobs, SPEEDS, [FAST, SLOW], most=most)
    assert said in str(error.value)


ROWS = st.tuples(
    st.sampled_from("ab"), st.floats(0.5, 3.0), st.floats(1.25, 4.0), st.floats(0.0, 4.0)
)  # kind, hours, slack, arrival


@settings(max_examples=12)
@given(rows=st.lists(ROWS, min_size=1, max_size=5))
def test_the_simulator_meets_every_deadline_and_no_cluster_beats_the_bounds(
    rows: list[tuple[str, float, float, float]],
) -> None:
    """LP <= proven <= paper <= answer, and paper <= the price of any cluster in which some policy is in time."""
    rows.sort(key=lambda row: row[3])
    jobs = [
        job(j, hours, hours * slack, arrival, kind=kind) for j, (kind, hours, slack, arrival) in enumerate(rows)
    ]
    mix = cheapest_mix(jobs, SPEEDS, [FAST, SLOW])
    assert mix.confirmed
    assert mix.lower_bound_usd_per_hour <= mix.proven_usd_per_hour + 1e-6
    assert mix.proven_usd_per_hour <= mix.paper_usd_per_hour + 1e-6 <= mix.answer.usd_per_hour + 2e-6
    task = Task(jobs, SPEEDS, [FAST, SLOW], {})
    for counts in product(range(3), repeat=2):
        cheaper = 3.0 * counts[0] + counts[1] < mix.paper_usd_per_hour - 1e-6
        if cheaper and counts[0]:  # every job runs somewhere
            for name in ("deadlines", "srtf"):
                result = task.simulated(np.array(counts), load_policy(name), RULES)
                due_s = np.array([j.deadline_s for j in result.jobs])
                assert not (result.completion_s_J <= due_s).all(), (counts, name)


@pytest.mark.slow
@settings(max_examples=12)
@given(rows=st.lists(ROWS, min_size=1, max_size=5), most=st.integers(0, 2))
def test_what_is_to_be_bought_makes_the_cluster_cheaper_by_that(
    rows: list[tuple[str, float, float, float]], most: int
) -> None:
    rows.sort(key=lambda row: row[3])
    jobs = [
        job(j, hours, 5.0 * hours * slack, arrival, kind=kind)
        for j, (kind, hours, slack, arrival) in enumerate(rows)
    ]
    offers = [FAST, Offer("fast", 2, 5.0, "sky", "west", "f.2"), SLOW]
    mix, wider = (cheapest_mix(jobs, SPEEDS, offers, most={"fast": n}) for n in (most, most + 1))
    saved = mix.paper_usd_per_hour - wider.paper_usd_per_hour
    (fast,) = (one for one in mix.worth if one.accelerator == "fast")
    assert fast.whole_usd_per_hour == pytest.approx(saved, abs=1e-5)
    assert (fast.verdict == "buy") == (saved > 1e-5)
