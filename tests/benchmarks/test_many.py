import json
from pathlib import Path

from benchmarks.many import main


def test_many_jobs_are_allocated_and_the_figures_written_down(tmp_path: Path) -> None:
    file = tmp_path / "many.json"
    assert main(["--jobs", "3000", "--json", str(file)]) == 0
    row = json.loads(file.read_text(encoding="utf-8"))
    assert row["jobs"] == 3000
    assert 0 <= row["gap"] < 1e-9
    assert row["cpu_seconds"] > 0
    assert row["peak_mb"] > 0
