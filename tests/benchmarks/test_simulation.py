import gc
import json
from pathlib import Path

import pytest

from benchmarks.simulation import main, stops
from gavelx.files.throughput_tables import load_throughputs


@pytest.mark.slow
def test_a_small_trace_is_simulated_to_the_end_and_written_down(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    assert main(["trace", "--jobs", "300", "--json", str(file)]) == 0
    (row,) = json.loads(file.read_text(encoding="utf-8"))["rows"]
    assert (row["jobs"], row["completed"], row["devices"]) == (300, 300, 6)
    assert 0 < row["utilization"] <= 1
    assert row["cpu_seconds"] > 0


def test_the_longest_event_of_each_kind_is_said_and_the_collector_is_left_as_it_was() -> None:
    before = gc.get_threshold()
    rows = stops(load_throughputs("simulation"), repeat=1, count=40, servers=1)
    assert {"Wake", "LeaseEnded"} <= {row["event"] for row in rows}
    assert all(row["most_cpu_ms"] >= 0 for row in rows)
    assert gc.get_threshold() == before
