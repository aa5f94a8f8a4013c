"""Schedules of the literature do what their descriptions say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.slots.baselines import drf, optimus, srtf, tetris
from gavelx.slots.greedy import FITS, Steps
from gavelx.slots.model import NONE, Sizes, Slots
from tests.slots.test_slots import drawn

SIZES = Sizes(np.array([[[1.0], [2.0], [3.0]]]), np.array([[1.0, 1.9, 1.0]]))
"""One to three devices; with three a job is as slow as with one."""
STEPS = Steps.along(SIZES, np.array([4.0]), [[[0, 1, 2]]])


def jobs(*left: float, devices: float = 4.0) -> Slots:
    return Slots.of(SIZES, np.array([devices]), np.zeros((1, len(left)), dtype=np.int64), np.array([left]))


@given(st.integers(0, 10**6), st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_schedules_keep_to_what_there_is(seed: int, groups: int) -> None:
    slots = drawn(seed, groups=groups)
    steps = Steps.hull(slots.sizes, slots.room_KR[0])
    for schedule in (drf(steps), srtf(steps), tetris(steps), optimus(steps)):
        size_KJ = schedule(slots)
        assert (size_KJ[~slots.live_KJ] == NONE).all()
        assert (slots.use_KR(size_KJ) <= slots.room_KR + 1e-9).all()


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_dominant_shares_are_filled_one_step_at_a_time(seed: int) -> None:
    slots = drawn(seed, groups=1)
    steps = Steps.hull(slots.sizes, slots.room_KR[0])
    for k, size_J in enumerate(drf(steps)(slots)):
        np.testing.assert_array_equal(size_J, filled(slots, steps, k))


def filled(slots: Slots, steps: Steps, k: int) -> np.ndarray:
    """The next step of the job with the least dominant share, one after the other."""
    kind_J, free_R = slots.kind_KJ[k], slots.room_KR[k].copy()
    open_J, step_J = slots.live_KJ[k].copy(), np.zeros(len(kind_J), dtype=int)

    def share(j: int) -> float:
        held_R = steps.use_NGHR[kind_J[j], 0, : step_J[j]].sum(axis=0)
        return float((held_R / slots.room_KR[k]).max())

    while open_J.any():
        j = min(np.flatnonzero(open_J), key=lambda j: (round(share(j), 12), j))
        path = steps.size_NGH[kind_J[j], 0]
        is_last = step_J[j] == len(path) or path[step_J[j]] == NONE
        if is_last or not (steps.use_NGHR[kind_J[j], 0, step_J[j]] <= free_R * FITS).all():
            open_J[j] = False
        else:
            free_R -= steps.use_NGHR[kind_J[j], 0, step_J[j]]
            step_J[j] += 1
    return np.array([steps.size_NGH[kind_J[j], 0, n - 1] if n else NONE for j, n in enumerate(step_J)])


@pytest.mark.parametrize("schedule", [srtf, tetris])
def test_the_shortest_job_has_its_fastest_size_and_no_larger_one(schedule: type) -> None:
    assert schedule(STEPS)(jobs(900.0, 100.0, 500.0))[0].tolist() == [NONE, 1, 1]


def test_tetris_weighs_demand_against_work() -> None:
    """A job of another kind that takes more of what is free comes first, unless it is much longer."""
    sizes = Sizes(np.array([[[1.0]], [[3.0]]]), np.ones((2, 1)))
    steps = Steps.hull(sizes, np.array([3.0]))
    for left, first in ((50.0, [NONE, 0]), (400.0, [0, NONE])):
        slots = Slots.of(sizes, np.array([3.0]), np.array([[0, 1]]), np.array([[100.0, left]]))
        assert tetris(steps)(slots)[0].tolist() == first
