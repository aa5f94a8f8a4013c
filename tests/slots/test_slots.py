"""Schedules in the slot model keep to what there is, and looking ahead ends no worse than the best candidate."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.slots.ahead import CANDIDATES, Ahead
from gavelx.slots.greedy import FITS, Greedy, Steps, Weights, taken
from gavelx.slots.model import NONE, Sizes, Slots, chosen, play

SLOT_S = 100.0


def drawn(seed: int, *, groups: int, arrivals: bool = True) -> Slots:
    """Clusters with jobs of a few kinds, sizes in groups, and resources that some sizes need none of."""
    random = np.random.default_rng(seed)
    N, V, K, J = 4, int(random.integers(1, 9)), int(random.integers(1, 4)), int(random.integers(1, 9))
    group_NV = np.sort(random.integers(groups, size=(N, V)), axis=1)
    R = max(2, groups)
    use_NVR = random.integers(0, 4, size=(N, V, R)).astype(float)
    if groups > 1:
        use_NVR *= np.eye(R)[group_NV]
    use_NVR[:, :, 0] += use_NVR.sum(axis=2) == 0
    speed_NV = random.uniform(0.0, 3.0, size=(N, V)) * (random.random((N, V)) < 0.9)
    speed_NV[:, 0] += 0.1
    arrival_s_KJ = SLOT_S * random.integers(0, 5, size=(K, J)) * arrivals
    return Slots.of(
        Sizes(use_NVR, speed_NV, group_NV if groups > 1 else np.zeros((N, V), dtype=np.int64)),
        random.integers(3, 9, size=R).astype(float),
        random.integers(N, size=(K, J)),
        random.uniform(1.0, 1500.0, size=(K, J)),
        arrival_s_KJ=arrival_s_KJ,
        weight_KJ=random.uniform(0.5, 2.0, size=(K, J)),
    )


def greedy(slots: Slots, *weights: Weights) -> Greedy:
    return Greedy(Steps.hull(slots.sizes, slots.room_KR[0]), weights)


def cost_K(begin: Slots, end: Slots) -> np.ndarray:
    return (begin.weight_KJ * end.jct_s_KJ).sum(axis=1)


@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([*CANDIDATES, Weights(1.5, 3.0)]))
@settings(max_examples=40, deadline=None)
def test_a_greedy_schedule_keeps_to_what_there_is(seed: int, groups: int, weights: Weights) -> None:
    slots = drawn(seed, groups=groups)
    schedule = greedy(slots, weights)
    for _ in range(6):
        size_KJ = schedule(slots)
        assert (size_KJ[~slots.live_KJ] == NONE).all()
        assert (slots.use_KR(size_KJ) <= slots.room_KR + 1e-9).all()
        speed_KJ = slots.sizes.speed_NV[slots.kind_KJ, size_KJ]
        assert (speed_KJ[size_KJ != NONE] > 0.0).all()
        slots = slots.advance(size_KJ, SLOT_S)


@given(st.integers(0, 10**6), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_clusters_do_not_know_of_each_other(seed: int, groups: int) -> None:
    slots = drawn(seed, groups=groups)
    schedule = greedy(slots, Weights(1.0))
    together = play(slots, schedule, SLOT_S, most=30)
    for k in range(len(slots.kind_KJ)):
        alone = play(slots.take(np.array([k])), schedule, SLOT_S, most=30)
        np.testing.assert_allclose(alone.left_KJ[0], together.left_KJ[k], rtol=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 2))
@settings(max_examples=12, deadline=None)
def test_looking_ahead_ends_no_worse_than_the_best_candidate(seed: int, groups: int) -> None:
    """Without arrivals, at the speeds that are believed, where all slots are played as they are."""
    slots = drawn(seed, groups=groups, arrivals=False)
    slots = replace(slots, left_KJ=slots.left_KJ / 4.0)
    if not (slots.sizes.use_NVR[:, 0] <= slots.room_KR[0]).all():
        return
    candidates, steps = CANDIDATES[:4], Steps.hull(slots.sizes, slots.room_KR[0])
    ahead = play(slots, Ahead(steps, SLOT_S, candidates, slots=10_000), SLOT_S)
    alone = [cost_K(slots, play(slots, Greedy(steps, [one]), SLOT_S)) for one in candidates]
    assert (cost_K(slots, ahead) <= np.min(alone, axis=0) * (1.0 + 1e-9)).all()


@given(st.integers(0, 10**6))
@settings(max_examples=150, deadline=None)
def test_steps_are_those_that_are_taken_one_by_one(seed: int) -> None:
    """The step that is worth most while it fits; a job whose next one does not stays where it is."""
    random = np.random.default_rng(seed)
    K, J, H, R = (int(random.integers(1, most)) for most in (4, 9, 5, 4))
    worth_KJH = np.minimum.accumulate(random.integers(0, 9, size=(K, J, H)).astype(float), axis=2)
    use_KJHR = random.integers(0, 4, size=(K, J, H, R)).astype(float)
    room_KR = random.integers(1, 20, size=(K, R)).astype(float)
    taken_KJH = taken(worth_KJH, use_KJHR, room_KR)
    for k in range(K):
        free_R, closed = room_KR[k].copy(), set()
        for at in np.argsort(-worth_KJH[k].ravel(), kind="stable").tolist():
            j, h = divmod(at, H)
            takes = worth_KJH[k, j, h] > 0.0 and j not in closed and (use_KJHR[k, j, h] <= free_R * FITS).all()
            assert taken_KJH[k, j, h] == takes
            free_R -= takes * use_KJHR[k, j, h]
            closed |= set() if takes else {j}


@given(st.integers(0, 10**6), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_the_corners_of_the_hull_are_those_that_are_found_one_by_one(seed: int, groups: int) -> None:
    slots = drawn(seed, groups=groups)
    sizes, room_R = slots.sizes, slots.room_KR[0]
    for n, row in enumerate(Steps.hull(sizes, room_R).size_NGH):
        for g, path in enumerate(row):
            part_V = (sizes.use_NVR[n] / room_R).max(axis=1)
            there = (sizes.speed_NV[n] > 0.0) & (sizes.group_NV[n] == g) & (part_V <= FITS)
            assert path[path != NONE].tolist() == corners(sizes.speed_NV[n], part_V, np.flatnonzero(there))


def corners(speed_V: np.ndarray, part_V: np.ndarray, there: np.ndarray) -> list[int]:
    """Least size first; one between two others goes if it takes more than it is worth."""
    found: list[int] = []

    def slope(v: int, w: int) -> float:
        return float((1.0 / speed_V[v] - 1.0 / speed_V[w]) / (part_V[w] - part_V[v]))

    for v in sorted(there.tolist(), key=lambda v: (part_V[v], -speed_V[v])):
        if found and speed_V[v] <= speed_V[found[-1]]:
            continue
        while len(found) > 1 and slope(found[-2], found[-1]) <= slope(found[-2], v):
            found.pop()
        found.append(v)
    return found


def test_the_corners_of_the_hull_by_hand() -> None:
    """Two devices alone gain little, four much: the step from one leads to four."""
    speed_V, use_VR = np.array([[1.0, 1.1, 1.2, 4.0]]), np.array([[[1.0], [2.0], [3.0], [4.0]]])
    steps = Steps.hull(Sizes(use_VR, speed_V), np.array([8.0]))
    assert steps.size_NGH.tolist() == [[[0, 3]]]


def test_the_shortest_job_has_its_size_first() -> None:
    sizes = Sizes(np.array([[[1.0], [2.0]]]), np.array([[1.0, 1.9]]))
    slots = Slots.of(sizes, np.array([3.0]), np.zeros((1, 2), dtype=np.int64), np.array([[1000.0, 10.0]]))
    assert greedy(slots, Weights(2.0))(slots).tolist() == [[0, 1]]
    assert greedy(slots, Weights(0.0))(slots).tolist() == [[1, 0]]


def test_a_job_that_is_slower_than_believed_takes_longer() -> None:
    slots = Slots.of(
        Sizes(np.ones((1, 1, 1)), np.ones((1, 1))), np.array([2.0]), np.zeros((1, 2), int), [[150.0] * 2]
    )
    slots = replace(slots, pace_KJ=np.array([[1.0, 0.5]]))
    np.testing.assert_allclose(play(slots, greedy(slots, Weights(0.0)), SLOT_S).done_s_KJ, [[150.0, 300.0]])


@given(st.integers(0, 10**6), st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_a_schedule_does_not_know_how_fast_jobs_really_are(seed: int, groups: int) -> None:
    slots = drawn(seed, groups=groups)
    pace_KJ = np.random.default_rng(seed).uniform(0.2, 5.0, slots.pace_KJ.shape)
    schedule = Ahead(Steps.hull(slots.sizes, slots.room_KR[0]), SLOT_S)
    believed, real = (chosen(one, schedule) for one in (slots, replace(slots, pace_KJ=pace_KJ)))
    np.testing.assert_array_equal(believed, real)


@given(st.integers(0, 10**6), st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_candidates_that_are_asked_together_answer_as_alone(seed: int, groups: int) -> None:
    slots = drawn(seed, groups=groups)
    steps = Steps.hull(slots.sizes, slots.room_KR[0])
    alone = [Greedy(steps, [one])(slots) for one in CANDIDATES]
    np.testing.assert_array_equal(Ahead(steps, SLOT_S).first_CKJ(slots), alone)


def test_a_job_without_room_on_the_type_that_costs_least_takes_another() -> None:
    sizes = Sizes(np.eye(2)[None], np.ones((1, 2)), np.array([[0, 1]]))
    slots = Slots.of(sizes, np.ones(2), np.zeros((1, 2), dtype=np.int64), np.full((1, 2), 100.0))
    assert sorted(greedy(slots, Weights(0.0))(slots)[0].tolist()) == [0, 1]


@pytest.mark.parametrize("devices", [1, 4])
def test_prices_leave_a_type_that_all_want_to_the_jobs_that_gain_most_there(devices: int) -> None:
    """All are faster on the first type, half of them much, and the others are shorter."""
    sizes = Sizes(np.tile(np.eye(2)[None], (2, 1, 1)), np.array([[4.0, 1.0], [1.2, 1.0]]), np.array([[0, 1]] * 2))
    kind_J = np.repeat([0, 1], devices)
    left_KJ = np.where(kind_J == 0, 4000.0, 600.0)[None]
    slots = Slots.of(sizes, np.full(2, float(devices)), kind_J[None], left_KJ)
    np.testing.assert_array_equal(greedy(slots, Weights(0.0))(slots)[0], kind_J)
