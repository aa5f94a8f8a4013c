"""The benchmark of elastic jobs has the sizes that it says, and certified answers."""

from benchmarks.elastic import snapshot_of, timed


def test_no_size_is_left_out() -> None:
    snapshot = snapshot_of(20, 2, 8, 3.0)
    assert len(snapshot.open("sizes").configurations) == 20 * 2 * 8
    assert len(snapshot.configurations) == 20 * 2


def test_its_answers_are_certified() -> None:
    assert "gap" in timed("max_min_fairness", snapshot_of(20, 2, 8, 3.0))
