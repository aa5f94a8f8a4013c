"""What is varied in the world of DL2, in small: the page is made, and changes are those that they say."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
from benchmarks.elastic import greedy_network
from experiments.dl2 import varied
from experiments.dl2.world import ARRIVALS, EPOCH, Arrivals, traces


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(varied, "network", lambda *_: greedy_network())
    monkeypatch.setattr(varied, "TRACES_OF_A_COPY", 1)
    monkeypatch.setattr(varied, "STEPS_OF_A_COPY", 5)
    assert varied.main(["--traces", "1", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "dl2_varied.md").read_text()
    assert "| twice the rate |" in page
    assert (tmp_path / "dl2_varied.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("arrivals", [varied.uniform, varied.waves])
def test_as_many_jobs_arrive_as_it_says(arrivals: Arrivals) -> None:
    counts = arrivals(np.random.default_rng(0), 12_000)
    assert counts.mean() == pytest.approx(2.0 if arrivals is varied.uniform else ARRIVALS, rel=0.03)


def test_halves_of_the_models_share_none() -> None:
    seen = [set(traces([1, 2], 8, models=half).kind_KJ.ravel().tolist()) for half in varied.HALVES]
    assert not seen[0] & seen[1]
    assert seen[0] | seen[1] == set(range(len(EPOCH)))


def test_lengths_that_are_not_off_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(varied, "network", lambda *_: greedy_network())
    exact, off = (varied.lengths_off(12, 2, part) for part in (0.0, 0.4))
    usual = varied.row(12, 2)
    assert {name: usual[name] for name in exact} == pytest.approx(exact)
    assert off != exact
