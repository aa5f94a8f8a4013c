"""The benchmark of elastic jobs has the sizes that it says, and certified answers."""

from benchmarks.elastic import decisions, snapshot_of, timed


def test_no_size_is_left_out() -> None:
    snapshot = snapshot_of(20, 2, 8, 3.0)
    assert len(snapshot.open("sizes").configurations) == 20 * 2 * 8
    assert len(snapshot.configurations) == 20 * 2


def test_its_answers_are_certified() -> None:
    assert "gap" in timed("max_min_fairness", snapshot_of(20, 2, 8, 3.0))


def test_decisions_are_timed_and_the_network_is_asked_for_all_jobs_at_once() -> None:
    alone, ahead, learned = decisions(repeats=0, jobs=6, types=2)
    assert alone.startswith("elastic(srtf_program): ")
    assert ahead.startswith("lookahead(elastic(srtf_program)): ")
    assert ahead.endswith(" ms")
    asked = int(learned.split("asked ")[1].split()[0])
    assert 2 <= asked < 6, "every job begins at the first look, and some grow at later ones"
