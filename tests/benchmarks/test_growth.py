"""The exponents that `benchmarks.growth` fits, and what it writes."""

import json
from pathlib import Path

import pytest

from benchmarks import growth


def test_the_exponent_is_the_slope_of_the_last_sizes() -> None:
    jobs = [64.0, 128.0, 256.0, 512.0]
    assert growth.exponent({"jobs": jobs, "seconds": [9.0, *(1e-6 * j**1.5 for j in jobs[1:])]}) == pytest.approx(
        1.5
    )
    assert growth.exponent({"jobs": jobs[:2], "seconds": [1.0, 2.0]}) is None


def test_figures_and_plot_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "SMALLEST", 4)
    monkeypatch.setattr(growth, "LARGEST", 16)
    assert growth.main(["fifo", "max_min_fairness", "--types", "2", "--out", str(tmp_path / "growth")]) == 0
    said = json.loads((tmp_path / "growth.json").read_text())
    assert set(said["policies"]) == {"fifo", "max_min_fairness"}
    assert said["policies"]["fifo"]["jobs"] == [4, 8, 16]
    assert (tmp_path / "growth.png").stat().st_size > 1000
