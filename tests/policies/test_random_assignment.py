"""The assignment by lot."""

from collections import Counter

from gavelx.policies import RandomAssignment
from tests.policies.instants import instant, types

TEN = instant({"a": 2, "b": 3}, [[1.0, 5.0]] * 10)


def test_a_draw_follows_from_seed_and_instant() -> None:
    def drawn(seed: int, time_s: float) -> list[int]:
        return types(RandomAssignment(seed).allocate(TEN.replace(time_s=time_s)).share_JA)

    assert drawn(0, 0.0) == drawn(0, 0.0)
    assert len({tuple(drawn(0, time_s)) for time_s in range(20)}) > 15
    assert len({tuple(drawn(seed, 0.0)) for seed in range(20)}) > 15


def test_everybody_has_the_same_chance() -> None:
    """10 jobs, 5 devices, 400 draws: each runs 200 times on average, with a standard deviation of 10."""
    runs = Counter[int]()
    for time_s in range(400):
        share_JA = RandomAssignment().allocate(TEN.replace(time_s=float(time_s))).share_JA
        assert share_JA.sum(axis=0).tolist() == [2.0, 3.0]
        runs.update(share_JA.any(axis=1).nonzero()[0].tolist())
    assert all(150 < runs[j] < 250 for j in range(10))


def test_it_is_drawn_anew_after_a_round() -> None:
    assert RandomAssignment(round_s=120.0).allocate(TEN).execution.refresh_s == 120.0
