"""Moves keep to what there is, in any order of the jobs, and features are numbers without a unit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gavelx.slots.greedy import Greedy, Steps, Weights
from gavelx.slots.model import NONE, Sizes, Slots
from gavelx.slots.moves import FEATURES, Moves
from gavelx.slots.turns import Score, handed_out
from tests.slots.plain_moves import Plain

SLOT_S = 100.0


def drawn(seed: int, groups: int) -> tuple[Slots, Moves]:
    random = np.random.default_rng(seed)
    N, V, K, J = 3, 6, 2, int(random.integers(1, 8))
    group_NV = np.sort(random.integers(groups, size=(N, V)), axis=1)
    use_NVR = np.eye(groups)[group_NV] * random.integers(1, 5, size=(N, V, 1))
    sizes = Sizes(use_NVR, random.uniform(0.1, 3.0, size=(N, V)), group_NV)
    room_R = random.integers(3, 9, size=groups).astype(float)
    slots = Slots.of(sizes, room_R, random.integers(N, size=(K, J)), random.uniform(1.0, 1500.0, size=(K, J)))
    return slots, Moves.along(Steps.hull(sizes, room_R))


def by_chance(seed: int) -> Score:
    weight_F = np.random.default_rng(seed).normal(size=FEATURES)
    return lambda features: features @ weight_F


@given(st.integers(0, 10**6), st.integers(1, 3))
@example(seed=164, groups=3)  # jobs hold more than they take in their fastest sizes
@settings(max_examples=60, deadline=None)
def test_no_score_hands_out_more_than_there_is(seed: int, groups: int) -> None:
    slots, moves = drawn(seed, groups)
    for score in (by_chance(seed), lambda features: np.ones(features.shape[:-1])):
        size_KJ = handed_out(slots, moves, score, SLOT_S)
        assert (slots.use_KR(size_KJ) <= slots.room_KR + 1e-9).all()
    assert not moves.allowed_KJM(slots, size_KJ).any(), "a score that likes all moves leaves none"
    assert np.isfinite(moves.features(slots, size_KJ, SLOT_S)).all()


@given(st.integers(0, 10**6), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_the_order_of_jobs_does_not_matter(seed: int, groups: int) -> None:
    slots, moves = drawn(seed, groups)
    order = np.random.default_rng(seed).permutation(slots.kind_KJ.shape[1])
    other = Slots.of(slots.sizes, slots.room_KR[0], slots.kind_KJ[:, order], slots.left_KJ[:, order])
    size_KJ = handed_out(slots, moves, by_chance(seed), SLOT_S)
    features = moves.features(slots, size_KJ, SLOT_S)
    assert features.shape[3] == FEATURES
    assert np.isfinite(features).all()
    np.testing.assert_allclose(
        moves.features(other, size_KJ[:, order], SLOT_S), features[:, order], rtol=1e-5, atol=1e-5
    )


@given(st.integers(0, 10**6), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_moves_on_the_way_to_a_schedule_lead_there(seed: int, groups: int) -> None:
    slots, moves = drawn(seed, groups)
    target_KJ = Greedy(Steps.hull(slots.sizes, slots.room_KR[0]), [Weights(1.0)])(slots)
    size_KJ = np.full(target_KJ.shape, NONE)
    for _ in range(100):
        right_KJM = moves.towards_KJM(slots, size_KJ, target_KJ)
        if not right_KJM.any():
            break
        k, j, m = (int(one[0]) for one in np.nonzero(right_KJM))
        assert moves.allowed_KJM(slots, size_KJ)[k, j, m], "what is on the way to sizes that fit fits, too"
        size_KJ[k, j] = moves.next_NWM[slots.kind_KJ[k, j], size_KJ[k, j], m]
    np.testing.assert_array_equal(size_KJ, target_KJ)


@given(st.integers(0, 10**6), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_moves_and_features_are_those_that_are_defined_one_by_one(seed: int, groups: int) -> None:
    slots, moves = drawn(seed, groups)
    random = np.random.default_rng(seed)
    shape = slots.kind_KJ.shape
    slots = replace(
        slots,
        time_s=300.0,
        left_KJ=np.where(random.random(shape) < 0.15, 0.0, slots.left_KJ),
        arrival_s_KJ=np.where(random.random(shape) < 0.15, np.inf, random.uniform(0.0, 300.0, shape)),
    )
    for size_KJ in (np.full(shape, NONE), handed_out(slots, moves, by_chance(seed), SLOT_S)):
        allowed_KJM, features = moves.allowed_KJM(slots, size_KJ), moves.features(slots, size_KJ, SLOT_S)
        for k, j, m in np.ndindex(allowed_KJM.shape):
            plain = Plain(slots, moves, k, size_KJ[k], SLOT_S)
            assert allowed_KJM[k, j, m] == plain.allowed(j, m)
            np.testing.assert_allclose(features[k, j, m], plain.features(j, m), rtol=1e-6, atol=1e-7)


def test_a_score_of_zero_stops() -> None:
    slots, moves = drawn(1, 1)
    assert (handed_out(slots, moves, lambda features: np.zeros(features.shape[:-1]), SLOT_S) == NONE).all()


@pytest.mark.parametrize("factor", [60.0, 1e-3])
def test_units_of_time_do_not_matter(factor: float) -> None:
    slots, moves = drawn(2, 2)
    sizes = Sizes(slots.sizes.use_NVR, slots.sizes.speed_NV / factor, slots.sizes.group_NV)
    slower = Slots.of(sizes, slots.room_KR[0], slots.kind_KJ, slots.left_KJ)
    none_KJ = np.full(slots.kind_KJ.shape, NONE)
    other = Moves.along(Steps.hull(sizes, slots.room_KR[0]))
    np.testing.assert_allclose(
        other.features(slower, none_KJ, SLOT_S * factor),
        moves.features(slots, none_KJ, SLOT_S),
        rtol=1e-4,
        atol=1e-4,
    )
