"""DL2 as published, in small: the page is made, and the copy of DRF does as DRF does."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
from experiments.dl2 import published


@pytest.mark.slow
def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRACES_OF_A_COPY", "TRACES_OF_A_ROUND", "TRACES_OF_A_VALIDATION"):
        monkeypatch.setattr(published, name, 2)
    monkeypatch.setattr(published, "STEPS_OF_A_COPY", 150)
    monkeypatch.setattr(published, "PATIENCE_SLOTS", 50)
    monkeypatch.setattr(published, "TABLE_2", {"no critic": published.TABLE_2["no critic"]})
    assert published.main(["--seeds", "1", "--rounds", "1", "--traces", "2", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "dl2_published.md").read_text()
    copy = re.search(r"\| DRF \| ([\d.]+)% \| [\d.]+% \| ([+-][\d.]+)% \|", page)
    assert copy is not None, page
    assert float(copy[1]) >= 85.0
    assert abs(float(copy[2])) <= 5.0
    assert "no critic" in page
