"""Plans over parts: exact against trying all, and the identity that equation 1c must keep."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.elastic import Elastic
from gavelx.errors import UserError
from gavelx.jobs import Job
from gavelx.part_plans import DeviceType, best_plan, executors_that_fit, waste
from gavelx.sizes import speed
from gavelx.throughputs import Setting, Throughputs

speeds = st.floats(0.05, 50.0)
devices = st.builds(
    DeviceType,
    count=st.integers(0, 4),
    parts_per_s=speeds,
    shared=st.lists(st.floats(0.2, 1.0), max_size=2).map(tuple),
    executors_most=st.integers(1, 3),
)


def shortest_by_trying(types: list[DeviceType], parts: int) -> float:
    """The shortest step of all ways to give each device of a type the same executors and parts."""
    ways = [
        [(m * a, a / each) for m, each in enumerate(one.executor_speeds, 1) for a in range(parts + 1)]
        for one in types
    ]
    return min(
        max(step_s for (_, step_s), one in zip(way, types, strict=True) if one.count)
        for way in product(*ways)
        if sum(one.count * runs for (runs, _), one in zip(way, types, strict=True)) >= parts
    )


@given(st.lists(devices, min_size=1, max_size=2), st.integers(1, 16))
@settings(max_examples=150, deadline=None)
def test_no_other_plan_has_a_shorter_step(types: list[DeviceType], parts: int) -> None:
    plan = best_plan(types, parts)
    if not any(one.count for one in types):
        assert plan is None
        return
    assert plan is not None
    assert plan.step_s == pytest.approx(shortest_by_trying(types, parts), rel=1e-12)


@given(st.lists(st.builds(DeviceType, st.integers(1, 4), speeds), min_size=3, max_size=3), st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_no_other_plan_on_three_types_has_a_shorter_step(types: list[DeviceType], parts: int) -> None:
    plan = best_plan(types, parts)
    assert plan is not None
    assert plan.step_s == pytest.approx(shortest_by_trying(types, parts), rel=1e-12)


@given(st.lists(devices, min_size=1, max_size=4), st.integers(1, 64))
@settings(max_examples=400, deadline=None)
def test_speed_without_waste_is_parts_over_the_time_of_a_step(types: list[DeviceType], parts: int) -> None:
    if (plan := best_plan(types, parts)) is None:
        return
    able = sum(
        n * m * one.executor_speeds[m - 1] for n, m, one in zip(plan.devices, plan.executors, types, strict=True)
    )
    assert plan.perf == parts / plan.step_s
    assert able - plan.waste == pytest.approx(plan.perf, rel=1e-12)
    assert -1e-12 * able <= plan.waste == pytest.approx(plan.wasted_part * able, rel=1e-9, abs=1e-12 * able)
    room = zip(plan.devices, plan.executors, plan.parts_each, types, strict=True)
    assert sum(n * a for n, _, a, _ in room) >= parts
    for n, m, a, one in zip(plan.devices, plan.executors, plan.parts_each, types, strict=True):
        assert n in (0, one.count)
        assert m <= one.executors_most
        assert a % m == 0
        assert a / m <= plan.step_s * one.executor_speeds[m - 1] * (1 + 1e-9)


def test_as_printed_the_speed_comes_out_too_high() -> None:
    """Two types, of which the slower has three devices: 3 * 0.5 parts/s are wasted, and 0.5 is what is printed."""
    count, able, runs = [1, 3], [4.0, 1.5], [4, 1]
    true, printed = (waste(count, able, runs, 7, as_printed=printed) for printed in (False, True))
    assert true == 1.5
    assert printed == 0.5
    assert 1 * 4.0 + 3 * 1.5 - true == 7.0
    assert best_plan([DeviceType(1, 4.0), DeviceType(3, 1.5)], 7) is not None


def test_a_device_too_slow_for_one_part_runs_none() -> None:
    plan = best_plan([DeviceType(2, 10.0), DeviceType(1, 0.1)], 4)
    assert plan is not None
    assert plan.devices == plan.parts_each == (2, 0)
    assert plan.waste == 0.0


def test_executors_share_a_device_where_that_pays_and_memory_allows() -> None:
    alone, two = DeviceType(1, 1.0, (0.6,), 1), DeviceType(1, 1.0, (0.6,), 2)
    assert best_plan([alone], 4).perf == 1.0  # type: ignore[union-attr]
    plan = best_plan([two], 4)
    assert plan is not None
    assert (plan.executors, plan.parts_each) == ((2,), (4,))
    assert plan.perf == pytest.approx(1.2)
    slower = best_plan([DeviceType(1, 1.0, (0.4,), 2)], 4)
    assert slower is not None
    assert (slower.executors, slower.perf) == ((1,), 1.0)
    assert executors_that_fit(32.0, 20.0, 1.0) == 1
    assert executors_that_fit(16.0, 20.0) == 0


@given(st.integers(1, 12), st.integers(1, 24))
def test_on_one_type_it_is_the_speed_of_a_size(count: int, parts: int) -> None:
    """The speeds of sizes, which policies see, are those of plans: a step is all parts once."""
    n = min(count, parts)
    table = Throughputs({Setting("mine", "v100", n): 2.0})
    job = Job(1, "mine", 100.0, elastic=Elastic("workers", 1, parts, parts=parts))
    plan = best_plan([DeviceType(n, 2.0 * parts / n)], parts)
    assert plan is not None
    if n != job.scale_factor:
        assert speed(job, "v100", n, 0, table) == pytest.approx(1.0 / plan.step_s, rel=1e-12)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: DeviceType(-1, 1.0),
        lambda: DeviceType(1, 0.0),
        lambda: DeviceType(1, float("nan")),
        lambda: DeviceType(1, 1.0, executors_most=0),
        lambda: DeviceType(1, 1.0, (1.5,)),
        lambda: best_plan([DeviceType(1, 1.0)], 0),
        lambda: best_plan([DeviceType(1, 1.0)], 10**9),
    ],
)
def test_what_no_job_or_device_has_is_refused(wrong) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UserError):
        wrong()
