import json
from pathlib import Path

import pytest

from benchmarks.simulation import main


@pytest.mark.slow
def test_a_small_trace_is_simulated_to_the_end_and_written_down(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert main(["trace", "--jobs", "300", "--json", str(file)]) == 0
    (row,) = json.loads(file.read_text(encoding="utf-8"))["rows"]
    assert (row["jobs"], row["completed"], row["devices"]) == (300, 300, 6)
    assert 0 < row["utilization"] <= 1
    assert row["cpu_seconds"] > 0
