"""``gavelx bill --log``: what a real cluster did, in dollars."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import shell as shell  # noqa: PLC0414  (a fixture)
from tests.cli.running import Shell
from tests.service.test_usage import Cluster, busy, stored


@pytest.fixture
def cluster() -> Cluster:
    return busy()


@pytest.fixture
def log(cluster: Cluster, tmp_path: Path) -> str:
    return stored(tmp_path / "state", cluster)


def test_a_bill_of_the_log_is_the_sum_of_what_status_says(shell: Shell, cluster: Cluster, log: str) -> None:
    ran = shell("bill", "--log", log, "--prices", "as-run", "--json", "-")
    (bill,) = ran.json["bills"]
    spent = cluster.spent_usd()
    assert bill["policy"] == "recorded (packed(max_min_fairness))"
    assert {job["job_id"]: job["usd"] for job in bill["per_job"]} == pytest.approx(spent, abs=0.01)
    assert bill["busy_usd"] == pytest.approx(sum(spent.values()), abs=0.0051)
    assert {owner["owner"] for owner in bill["per_owner"]} <= {"ml/ada", "ml/bob", "ops"}
    assert sum(owner["usd"] for owner in bill["per_owner"]) == pytest.approx(bill["busy_usd"])


def test_parts_of_it_and_other_prices(shell: Shell, cluster: Cluster, log: str, tmp_path: Path) -> None:
    page, middle = tmp_path / "bill.html", cluster.day - timedelta(minutes=2)
    total = {}
    for name, window in (
        ("whole", ()),
        ("first", ("--until", middle.isoformat())),
        ("second", ("--since", f"{middle:%Y-%m-%dT%H:%M:%S.%f}")),
        ("nothing", ("--since", "2026-10", "--until", "2026-11-01")),
    ):
        ran = shell("bill", "--log", log, "--prices", "v100=3,k80=0.5", *window, "--json", "-")
        assert ran.code == 0, ran.err
        total[name] = ran.json["bills"][0]["total_usd"]
    assert total["first"] + total["second"] == pytest.approx(total["whole"], abs=0.011)
    assert 0.0 == total["nothing"] < total["first"] < total["whole"]
    ran = shell("bill", "--log", log, "--prices", "as-run", "--since", "2026-11-01", "--html", page)
    assert "recorded (packe…x_min_fairness))" in ran.out and "ml/ada" in ran.out
    assert all(text in page.read_text() for text in (log, "2026-11-01", "<td>ml/ada</td>"))


def test_a_log_that_ends_before_the_bill_is_said(shell: Shell, cluster: Cluster, log: str) -> None:
    """A cluster without jobs writes no records, so its idle time may be missing."""
    early = cluster.day - timedelta(minutes=2)
    for until, said in ((early.isoformat(), False), ("2026-12", True)):
        ran = shell("bill", "--log", log, "--prices", "as-run", "--until", until, "--json", "-")
        assert ("last record of the log is of 2026-11-01T0" in ran.err) is said


def test_the_state_of_the_environment_is_billed_where_nothing_else_is_named(
    shell: Shell, log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for every command that reads a log: its URL may have a password."""
    monkeypatch.setenv("GAVELX_STATE", log)
    again = tmp_path / "again.json"
    assert shell("replay", "--policy", "fifo", "--json", again).code == 0
    for words, billed in (((), "recorded (packed(max_min_fairness))"), (("--result", again), "fifo")):
        ran = shell("bill", *words, "--prices", "v100=3,k80=0.5", "--json", "-")
        assert [bill["policy"] for bill in ran.json["bills"]] == [billed]


def test_beside_a_simulation_of_the_same_jobs(shell: Shell, log: str, tmp_path: Path) -> None:
    again = tmp_path / "again.json"
    assert shell("replay", log, "--policy", "fifo", "--json", again).code == 0
    ran = shell("bill", "--log", log, "--result", again, "--prices", "v100=3,k80=0.5", "--json", "-")
    assert [bill["policy"] for bill in ran.json["bills"]] == ["fifo", "recorded (packed(max_min_fairness))"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "gavelx: there is nothing to bill; expected --result FILE, or --log LOG of a cluster"),
        (("--result", "LOG", "--since", "2026-11-01"), "--since: only a log has dates"),
        (("--log", "LOG", "--since", "2026-12-01"), "--since: the log ends before"),
        (("--log", "LOG", "--since", "2026-11-02", "--until", "2026-11-02"), "2026-11-02 is not after 2026-11-02"),
        (("--log", "LOG", "--until", "2026-13"), "--until: cannot read '2026-13'; expected 2026-11, 2026-11-01"),
        (("--log", "LOG", "--until", "0001-01-01T00:00+23:00"), "--until: cannot read"),
        (("--log", "nowhere"), "log nowhere: there is no log"),
        (("--log", "LOG", "--prices", "aws:us-east-1,k80=1"), "no price of v100"),
        (("--log", "postgresql://ada:secret@127.0.0.1/x"), "--log: "),
    ],
)
def test_mistakes(shell: Shell, log: str, options: tuple[str, ...], said: str) -> None:
    words = [log if word == "LOG" else word for word in options]
    ran = shell("bill", *(() if "--prices" in options else ("--prices", "as-run")), *words)
    assert ran.code == 2
    assert said in " ".join(ran.err.split())
    assert "secret" not in ran.err


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_no_text_breaks_a_date(shell: Shell, log: str, option: str) -> None:
    digits = "0123456789-:T+Zw. "
    for n in range(150):
        text = "".join(digits[(n * n * 7 + i * i * 13 + n * i) % len(digits)] for i in range(n % 23))
        ran = shell("bill", "--log", log, "--prices", "as-run", option, text, "--json", "-")
        assert ran.code == 2 or json.loads(ran.out), text
        assert "mistake of ours" not in ran.err
