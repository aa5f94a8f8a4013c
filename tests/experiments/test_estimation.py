"""The experiment on estimation in small: what is hidden is hidden, and scores, page and plot are written."""

import json
from pathlib import Path

import pytest

from experiments.estimation.__main__ import main
from experiments.estimation.hiding import hidings, truth_of
from gavelx.throughputs import Pairing


def test_the_command_writes_scores_page_and_plot(tmp_path: Path) -> None:
    names = ["completion", "column_mean"]
    assert main(["--tiny", "--tables", "simulation", "--estimators", *names, "--out", str(tmp_path)]) == 0
    scores = json.loads((tmp_path / "estimation.json").read_text())
    assert {one["estimator"] for one in scores} == set(names)
    assert len({one["regime"] for one in scores}) == 8
    assert all(0 < one["median_error"] <= one["p90_error"] and 0 <= one["coverage"] <= 1 for one in scores)
    page = (tmp_path / "RESULTS.md").read_text()
    assert "30% of pairs measured" in page and "`column_mean`" in page
    assert (tmp_path / "estimation.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_hidden_is_hidden() -> None:
    truth = truth_of("simulation", tiny=False)
    ways = {hidden.regime: hidden.known for hidden in hidings(truth, 0, (0.1, 0.9))}
    few, most = (
        sum(isinstance(way, Pairing) for way in ways[f"{share} of pairs measured"]) for share in ("10%", "90%")
    )
    pairs = sum(isinstance(way, Pairing) for way in truth)
    assert few / pairs == pytest.approx(0.1, abs=0.01)
    assert most / pairs == pytest.approx(0.9, abs=0.01)
    column = [way for way in ways["k80 hidden but for two job types"] if way.accelerator == "k80"]
    assert len({way.job_type for way in column}) == 2
    assert all(way.partner in {other.job_type for other in column} for way in column if isinstance(way, Pairing))
    known = ways["four job types hidden but for two cells each"]
    cells = [sum(way.job_type == job for way in known) for job in {way.job_type for way in truth}]
    assert cells.count(2) == 4
    assert all(known <= truth.keys() for known in ways.values())
