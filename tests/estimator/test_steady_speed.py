"""Step counts become a speed with an interval, or a reason why not."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.estimator.steady_speed import Rejected, Sample, SteadySpeed, interval, measure, together


def run(
    *,
    speed: float = 10.0,
    seconds: float = 60.0,
    noise: float = 0.05,
    seed: int = 0,
    warm_up_s: float = 0.0,
    start_s: float = 3.0,
    every_s: float = 1.0,
) -> list[Sample]:
    """A job that begins after ``start_s``, is at half speed while it warms up, and reports now and then."""
    chance, time_s, steps, samples = random.Random(seed), start_s, 0, [Sample(0.0, 0.0)]
    while time_s < start_s + warm_up_s + seconds:
        pace = speed * (0.5 if time_s < start_s + warm_up_s else 1.0)
        time_s += max(0.05, chance.gauss(1.0, noise)) / pace
        steps += 1
        if time_s - samples[-1].time_s >= every_s or steps == 1:
            samples.append(Sample(time_s, float(steps)))
    return samples


def good(found: SteadySpeed | Rejected) -> SteadySpeed:
    assert isinstance(found, SteadySpeed), found
    return found


def why(samples: list[Sample], **options: float) -> str:
    found = measure(samples, **options)
    assert isinstance(found, Rejected), found
    return found.reason


def test_the_start_and_the_warm_up_do_not_count() -> None:
    found = good(measure(run(speed=10.0, seconds=60.0, warm_up_s=15.0)))
    assert found.steps_per_second == pytest.approx(10.0, rel=0.02)
    assert 15.0 <= found.warm_up_s <= 30.0 and found.seconds <= 60.0


def test_a_job_of_slow_steps_is_measured_by_few() -> None:
    found = good(measure(run(speed=0.2, seconds=100.0)))
    assert found.steps_per_second == pytest.approx(0.2, rel=0.05)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    held = 0
    for seed in range(200):
        found = good(measure(run(speed=20.0, seconds=30.0, noise=0.3, seed=seed)))
        low, high = interval(found.steps_per_second, found.relative_error)
        held += low <= 20.0 <= high
    assert 165 <= held <= 196  # 90 % of 200, and what chance allows


def test_a_restart_splits_the_run_and_the_longest_part_counts() -> None:
    first, second = run(seconds=10.0), run(seconds=60.0, seed=1)
    again = [Sample(100.0 + time_s, steps + 20.0) for time_s, steps in second]
    found = good(measure(first + again))
    assert found.steps_per_second == pytest.approx(10.0, rel=0.02)
    assert found.seconds > 30.0


def test_what_cannot_be_measured_is_rejected_with_its_reason() -> None:
    samples = run()
    assert why([]) == "no step was reported"
    assert why([Sample(t, 5.0) for t in range(60)]) == "no step was done"
    assert why([*samples, Sample(70.0, math.nan)]).startswith("a report is not a number")
    assert why([Sample(0.0, -1.0), *samples]).startswith("a negative count")
    assert why([*samples[:30], *(Sample(t - 20.0, n) for t, n in samples[30:])]).startswith("the clock went back")
    assert why(samples[:4]).startswith("too short")
    assert why(samples, seconds_min=300.0).startswith("too short: steady for")
    assert why([*samples[:20], Sample(200.0, samples[19].steps)]).startswith("stalled: no step in the last")
    jumped = [*samples[:20], *(Sample(t + 3600.0, n) for t, n in samples[20:])]
    assert why(jumped).startswith("stalled, or the clock jumped")
    leapt = [*samples[:20], *(Sample(t, n + 1e6) for t, n in samples[20:])]
    assert why(leapt).startswith("the clock jumped")
    ever_slower = [Sample(float(t), 20.0 * t - t * t / 8.0) for t in range(61)]
    assert why(ever_slower).startswith("no steady state")


def test_several_runs_know_how_starts_differ() -> None:
    alike = [good(measure(run(speed=10.0, seed=seed))) for seed in range(3)]
    apart = [good(measure(run(speed=speed))) for speed in (9.0, 10.0, 11.0)]
    assert together(alike).steps_per_second == pytest.approx(10.0, rel=0.01)
    assert together(apart).relative_error > 5 * together(alike).relative_error
    assert together(alike[:1]).relative_error >= 0.02


numbers = st.floats(allow_nan=True, allow_infinity=True)
times = st.floats(0.0, 1e9)


@given(st.lists(st.builds(Sample, numbers | times, numbers | times), max_size=40))
def test_anything_is_measured_or_rejected(samples: list[Sample]) -> None:
    found = measure(samples)
    if isinstance(found, SteadySpeed):
        assert all(math.isfinite(value) for value in found), found
        assert found.steps_per_second > 0 and found.relative_error >= 0 and found.seconds > 0
    else:
        assert found.reason


bad = st.sampled_from([math.nan, math.inf, -math.inf, -1.0, -1e300])


@given(st.integers(0, 60), bad, st.integers(0, 5))
def test_one_impossible_report_spoils_a_run(place: int, value: float, seed: int) -> None:
    samples = run(seed=seed)
    place = min(place, len(samples) - 1)
    samples[place] = samples[place]._replace(steps=value)
    assert isinstance(measure(samples), Rejected)


@given(st.floats(1e-3, 1e5), st.integers(0, 1000))
def test_the_unit_of_time_does_not_matter(factor: float, seed: int) -> None:
    samples = run(seed=seed)
    plain, scaled = measure(samples), measure([Sample(t * factor, n) for t, n in samples])
    assert good(scaled).steps_per_second * factor == pytest.approx(good(plain).steps_per_second, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_a_job_counts_there_is_an_answer(seed: int) -> None:
    """Also in steps that are next to nothing, or at times that are."""
    chance = random.Random(seed)
    for _ in range(500):
        step = 10 ** chance.uniform(-330, 15) if chance.random() < 0.5 else 5e-324 * chance.randint(1, 100)
        every_s, time_s, steps, samples = 10 ** chance.uniform(-9, 9), 0.0, 0.0, list[Sample]()
        for _ in range(chance.randint(0, 30)):
            time_s += every_s * chance.random()
            steps += step * chance.choice([0, 1, chance.random()])
            samples.append(Sample(time_s, steps))
        assert isinstance(measure(samples), SteadySpeed | Rejected)
