"""The experiment on estimation in small: what is hidden is hidden, and scores, page and plot are written."""

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.estimation.__main__ import main
from experiments.estimation.hiding import chosen, hidings, truth_of
from experiments.estimation.limit import busyness, cells, elsewhere, fitted, fitted_absolute, step_times
from gavelx.measurements import Way
from gavelx.throughputs import Pairing, Setting


def test_the_command_writes_scores_page_and_plot(tmp_path: Path) -> None:
    names = ["completion", "column_mean"]
    assert main(["--tiny", "--tables", "simulation", "--estimators", *names, "--out", str(tmp_path)]) == 0
    scores = json.loads((tmp_path / "estimation.json").read_text())
    assert {one["estimator"] for one in scores} == set(names)
    assert len({one["regime"] for one in scores}) == 10
    alone = {
        one["regime"]: one["cells"] for one in scores if (one["kind"], one["estimator"]) == ("alone", names[0])
    }
    of_each = [cells for regime, cells in alone.items() if regime.endswith("100 hidden but for two job types")]
    assert alone["each device in turn hidden but for two job types"] > sum(of_each) > 0
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


def test_job_types_are_chosen_without_a_look_at_the_device() -> None:
    truth = truth_of("simulation", tiny=True)
    twisted = {way: speed * (7 if way.accelerator == "k80" else 1) for way, speed in truth.items()}
    of_k80 = [[one.known for one in chosen(table) if one.regime.startswith("k80")] for table in (truth, twisted)]
    assert of_k80[0] == of_k80[1]
    for known in of_k80[0]:
        assert len({way.job_type for way in known if way.accelerator == "k80"}) == 2


def test_what_follows_a_law_is_told_exactly_by_it() -> None:
    random = np.random.default_rng(0)
    truth: dict[Way, float] = {}
    for job in "abcdef":
        host_s, work = random.uniform(0.1, 1.0, 2)
        truth |= {
            Setting(job, d): 1 / (host_s + work / s) for d, s in (("k80", 0.5), ("p100", 1.0), ("v100", 2.0))
        }
    alone = [(way, speed) for way, speed in truth.items() if isinstance(way, Setting)]
    truth |= {Pairing(w.job_type, other, w.accelerator): 0.5 * v for w, v in alone for other in "abcdef"}
    ways = cells(truth, "v100")
    y, elsewhere_NX = np.log([truth[way] for way in ways]), elsewhere(truth, ways, "v100")
    assert step_times(elsewhere_NX, y) < 0.01  # seconds on the V100 are 1.5 times the P100's less half the K80's
    assert fitted(elsewhere_NX, y) > 0.01
    assert busyness(truth, ways, "v100") == pytest.approx(np.log(0.5))


def test_least_absolute_errors_do_not_mind_a_few_that_are_far_off() -> None:
    x = np.linspace(-1, 1, 50)
    features, y = np.stack([np.ones(50), x], axis=1), 2 * x + np.where(np.arange(50) % 10 == 0, 5.0 * (x > 0), 0.0)
    assert fitted_absolute(features, y) < 0.01 < fitted(features, y)
