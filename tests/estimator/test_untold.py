"""Speeds that nobody said, from data sheets and a measurement or two, beside those that were measured."""

import itertools
import math

import pytest

from gavelx import load_throughputs
from gavelx.estimator.untold import Rate, foretold_speeds, rate_of, untold_speeds
from gavelx.files.data_sheets import load_data_sheets
from gavelx.measurements import Estimate

TYPES = ("v100", "p100", "k80")
RATES = {name: rate_of(name, load_data_sheets()) for name in TYPES}


def test_rates_are_those_of_data_sheets() -> None:
    assert RATES["v100"].speed == 1.0
    assert RATES["k80"].speed < RATES["p100"].speed < 1.0 < rate_of("a100", load_data_sheets()).speed
    assert rate_of("abacus", load_data_sheets()) == Rate(), "of unknown devices nothing is known"
    assert rate_of("cpu", load_data_sheets()).speed < 0.1


def test_without_a_measurement_a_step_is_a_second_of_a_v100() -> None:
    found = untold_speeds(RATES, {})
    assert found["v100"].steps_per_second == 1.0
    assert list(found) == list(TYPES)
    for estimate in found.values():
        assert 0 < estimate.lower < estimate.steps_per_second < estimate.upper


@pytest.mark.parametrize(("known", "at_most"), [(1, 0.40), (2, 0.32)])
def test_intervals_hold_what_was_measured(known: int, at_most: float) -> None:
    """Of the shipped table: every job type and width, from any one or two of three types."""
    table, errors, held = load_throughputs("simulation"), list[float](), list[bool]()
    for job_type, width in itertools.product(table.job_types, (1, 2, 4)):
        true = {name: table.get(job_type, name, width) or 0.0 for name in TYPES}
        for some in itertools.combinations(TYPES, known) if all(true.values()) else ():
            for name, found in untold_speeds(RATES, {each: (true[each], 0.03) for each in some}).items():
                errors.append(abs(math.log(found.steps_per_second / true[name])))
                held.append(found.lower <= true[name] <= found.upper)
    assert sorted(errors)[len(errors) // 2] < at_most
    assert 0.85 <= sum(held) / len(held) <= 0.97


def test_a_job_that_does_not_use_the_device_is_within_too() -> None:
    for name in TYPES:
        for found in untold_speeds(RATES, {name: (3.0, 0.03)}).values():
            assert found.lower <= 3.0 <= found.upper


def test_more_measurements_narrow_the_range() -> None:
    one, two = (untold_speeds(RATES, dict.fromkeys(some, (2.0, 0.03))) for some in (["v100"], ["v100", "p100"]))
    assert two["k80"].upper / two["k80"].lower < one["k80"].upper / one["k80"].lower


def test_a_type_on_which_it_cannot_run_says_nothing_of_others() -> None:
    assert untold_speeds(RATES, {"k80": (0.0, 0.0)}) == {
        name: found for name, found in untold_speeds(RATES, {}).items() if name != "k80"
    }


def test_rough_measurements_count_by_their_errors() -> None:
    """Whole runs of a script that does not use the device: the more of them, the nearer to equal speeds."""
    before = untold_speeds(RATES, {})
    ratios = [before["v100"].steps_per_second / before["k80"].steps_per_second]
    for runs in (1, 4, 16, 64):
        seen = dict.fromkeys(("v100", "k80"), (0.01, 0.5 / runs**0.5))
        found = untold_speeds(RATES, seen, exact=False)
        assert list(found) == list(TYPES), "all are estimates"
        ratios.append(found["v100"].steps_per_second / found["k80"].steps_per_second)
        assert all(0.001 < one.lower < one.upper < 0.1 for one in found.values())
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] == pytest.approx(1.0, abs=0.1)


def test_a_measurement_moves_foretold_speeds_together() -> None:
    """A roofline is wrong everywhere alike: what is measured on one device is told of the others, in part."""
    rates = {name: Rate(speed, 0.3) for name, speed in (("v100", 1.0), ("a100", 2.5), ("h100", 5.0), ("odd", 1.0))}
    foretold = {
        "v100": Estimate(0.0, 0.0, 0.0, "estimated"),
        "a100": Estimate(10.0, 5.0, 20.0, "estimated"),
        "h100": Estimate(30.0, 15.0, 60.0, "estimated"),
    }
    before = foretold_speeds(rates, {}, foretold)
    assert before["v100"].steps_per_second == 0.0, "it cannot run there"
    assert before["h100"].steps_per_second == pytest.approx(30.0)
    assert (before["h100"].lower, before["h100"].upper) == pytest.approx((15.0, 60.0), rel=0.01)
    assert 1.0 < before["odd"].steps_per_second < 30.0, "a device without a data sheet is like the others"
    after = foretold_speeds(rates, {"a100": (20.0, 0.02)}, foretold)
    assert "a100" not in after
    assert 40.0 < after["h100"].steps_per_second < 60.0
    assert after["h100"].upper / after["h100"].lower < 0.9 * before["h100"].upper / before["h100"].lower
