import json
from pathlib import Path

import pytest

from tests.cli.running import Shell

GOLDEN = Path(__file__).parents[1] / "data" / "golden_instances.json"


def test_one_decision_as_json(shell: Shell) -> None:
    ran = shell("allocate", "--policy", "max_min_fairness", "--snapshot", GOLDEN, "--index", 0, "--json", "-")
    instance = json.loads(GOLDEN.read_text())[0]
    assert ran.code == 0, ran.err
    assert set(ran.json["allocation"]) == {str(job["id"]) for job in instance["jobs"]}
    certificate = ran.json["certificate"]
    assert set(certificate) == {"objective", "bound", "violation", "path", "classes", "seconds"}
    assert certificate["objective"] == pytest.approx(instance["exact_optimum"]["max_min_fairness_perf"], rel=1e-6)


def test_one_decision_for_people(shell: Shell, tmp_path: Path) -> None:
    out = tmp_path / "allocation.json"
    ran = shell("allocate", "--policy", "fifo", "--snapshot", GOLDEN, "--index", 3, "--json", out)
    assert ran.code == 0, ran.err
    for words in ("fifo", "objective", "violation", "steps/s", "cluster"):
        assert words in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80
    assert set(json.loads(out.read_text())) == {"allocation", "configurations", "certificate", "prices"}


@pytest.mark.parametrize("index", [(), ("--index", 999)])
def test_an_index_that_is_missing_or_too_high(shell: Shell, index: tuple[object, ...]) -> None:
    ran = shell("allocate", "--policy", "fifo", "--snapshot", GOLDEN, *index)
    assert ran.code == 2
    assert "--index" in ran.err
