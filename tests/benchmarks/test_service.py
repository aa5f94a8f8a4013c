import json
from pathlib import Path

import pytest

from benchmarks.service.__main__ import main

pytestmark = pytest.mark.slow


def test_a_small_service_is_loaded_loses_agents_and_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    size = ["--agents", "4", "--devices", "2", "--jobs", "40", "--round", "1", "--heartbeat", "0.2"]
    main(["load", *size, "--seconds", "2", "--json", str(file)])
    rows = {row["what"]: row for row in json.loads(file.read_text(encoding="utf-8"))["rows"]}
    assert sum(row.get("rounds", 0) for row in rows.values()) > 0
    assert 0 < rows["rounds"]["heartbeat_p50_s"] <= rows["rounds"]["heartbeat_p100_s"]
    assert rows["submit"]["jobs"] == 20
    assert rows["2 leave"]["leased_s"] > 0 < rows["2 join"]["leased_s"]
    assert rows["restart"]["jobs_live"] == rows["after restart"]["jobs_live"] == 60
