"""The experiment on sparse tables in small; what it draws is as it says, and sharing is worth its while."""

import json
from pathlib import Path

import numpy as np

from experiments.estimation.families import FAMILIES, drawn
from experiments.estimation.families import main as families
from experiments.estimation.sparse import main, score
from experiments.estimation.sparse_tables import NARROW, cases, drawn_at_random, roofline, share
from gavelx.estimator.names import read_name


def test_the_command_writes_scores_and_page(tmp_path: Path) -> None:
    assert main(["--tiny", "--out", str(tmp_path)]) == 0
    scores = json.loads((tmp_path / "sparse.json").read_text())
    assert {one["estimator"] for one in scores} == {"completion", "simple_process"}
    assert all(one["median_error"] > 0 and 0 <= one["coverage"] <= 1 for one in scores)
    page = (tmp_path / "SPARSE.md").read_text()
    assert "made, width 1 (30 %)" in page and "| all |" in page


def test_tables_by_name_hide_what_they_say() -> None:
    for name, make in cases(None).items():
        case = make(np.random.default_rng(1))
        assert case.known < case.truth.keys() and case.hidden and not case.known & set(case.hidden)
        if "2 jobs" in name:
            (device,) = {way.accelerator for way in case.hidden}
            assert len({way.job_type for way in case.known if way.accelerator == device}) == 2


def test_tables_at_random_are_of_every_kind_and_their_names_are_read() -> None:
    drawn = [drawn_at_random(np.random.default_rng([seed, 2]), None) for seed in range(40)]
    shares = [len(case.known) / len(case.truth) for case in drawn]
    assert min(shares) < 0.1 and max(shares) > 0.5
    assert len({len({way.accelerator for way in case.truth}) for case in drawn}) > 4
    for case in drawn:
        models = {read_name(way.job_type).model for way in case.truth}
        assert len(models) <= 18, models
    assert drawn_at_random(np.random.default_rng([3, 2]), None) == drawn[3]


def test_of_narrow_tables_it_is_no_worse_than_a_plain_process() -> None:
    """Six tables, 30 % of width 1 known: without shared levels, errors are twice those of the process."""
    ratios, hits = [], []
    for seed in range(6):
        random = np.random.default_rng([seed, 77])
        ours, plain = score("", seed, share(random, roofline(random, shapes=NARROW), 0.3))
        ratios.append(np.log(np.median(ours.errors) / np.median(plain.errors)))
        hits += ours.hits
    assert np.exp(np.mean(ratios)) < 1.05
    assert 0.85 <= np.mean(hits) <= 0.98


def test_of_tables_with_many_known_cells_it_is_hardly_worse_than_a_plain_process() -> None:
    """Four tables, 40 % of widths 1 to 8 known: priors that stay heavy, or widths without curve, cost a tenth."""
    ratios, hits = [], []
    for seed in range(4):
        random = np.random.default_rng([seed, 78])
        ours, plain = score("", seed, share(random, roofline(random, models=5), 0.4))
        ratios.append(np.log(np.median(ours.errors) / np.median(plain.errors)))
        hits += ours.hits
    assert np.exp(np.mean(ratios)) < 1.08
    assert 0.85 <= np.mean(hits) <= 0.98


def test_the_page_of_families_has_a_row_of_each(tmp_path: Path) -> None:
    assert families(["--draws", "1", "--first", "3", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "FAMILIES.md").read_text()
    assert all(f"| {family} |" in page for family in FAMILIES)


def test_of_models_that_differ_much_by_device_noise_is_not_passed_off_as_structure() -> None:
    """Six tables: with priors that keep their weight, however many examples, errors are a twentieth larger."""
    ratios = []
    for seed in range(200, 206):
        ours, plain = score("", seed, drawn(np.random.default_rng([seed, 78]), known=0.6, suits=0.45))
        ratios.append(np.log(np.median(ours.errors) / np.median(plain.errors)))
    assert np.exp(np.mean(ratios)) < 1.1
