from pathlib import Path

import pytest

from gavelx.policies import catalog
from tests.cli.running import Shell


def test_policies(shell: Shell) -> None:
    listed = shell("policies", "--json").json
    assert {row["name"] for row in listed["policies"]} == set(catalog())
    summaries = [row["summary"] for row in listed["policies"] + listed["modifiers"]]
    assert all(summary.endswith((".", ")")) and "`" not in summary and len(summary) > 30 for summary in summaries)
    assert "agnostic(POLICY)" in shell("policies").out


def test_throughputs_keep_three_answers_apart(shell: Shell, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("job_type,scale_factor,accelerator,steps_per_second\nLM,1,v100,2.5\nLM,1,k80,0\nLM,2,k80,7\n")
    rows = shell("throughputs", "show", "--table", table, "--json").json["rows"]
    assert rows[0] == {
        "job_type": "LM",
        "accelerator": "v100",
        "scale_factor": 1,
        "consolidated": True,
        "steps_per_second": 2.5,
    }
    lines = shell("throughputs", "show", "--table", table).out.splitlines()
    cells = {tuple(line.split()) for line in lines}
    assert ("LM", "1", "together", "2.5", "0") in cells
    assert ("LM", "2", "together", "?", "7") in cells


@pytest.mark.parametrize("option", ["--type", "--job-type"])
def test_throughputs_filter(shell: Shell, option: str) -> None:
    rows = shell("throughputs", "show", option, "resnet-50", "--scale-factor", 4, "--json").json["rows"]
    assert {row["scale_factor"] for row in rows} == {4}
    assert {row["job_type"].partition(" ")[0] for row in rows} == {"ResNet-50"}
    rows = shell("throughputs", "show", "--scale-factor", 4, "--json").json["rows"]
    assert {row["scale_factor"] for row in rows} == {4} and len({row["job_type"] for row in rows}) > 5


def test_offers_keep_their_prices_in_a_narrow_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = shell(
        "prices", "show", "--cloud", "gcp", "--accelerators", "v100", "--kind", "on_demand"
    ).out.splitlines()
    assert all(heading in lines[0] for heading in ("accelerator", "$ / hour", "kind", "as of"))
    assert all(line.startswith("v100") and " on_demand " in line for line in lines[2:-1])
    assert lines[-1].startswith("US dollars per device-hour")
    assert max(map(len, lines)) <= 80


def test_prices(shell: Shell) -> None:
    rows = shell("prices", "show", "--accelerators", "V100", "--json").json["rows"]
    assert {row["accelerator"] for row in rows} == {"v100"}
    assert {"aws", "gcp", "azure"} <= {row["cloud"] for row in rows}
    assert "US dollars per device-hour" in shell("prices", "show").out


def test_offers_of_one_cloud(shell: Shell) -> None:
    rows = shell("prices", "show", "--cloud", "aws", "--json").json["rows"]
    assert {row["cloud"] for row in rows} == {"aws"}
    assert {"as_of", "source", "usd_per_hour", "kind"} <= set(rows[0])
    ran = shell("prices", "show", "--cloud", "aws")
    assert max(map(len, ran.out.splitlines())) <= 80
    assert shell("prices", "show", "--accelerators", "abacus").code == 2


def test_sizes_without_a_price_are_unknown(shell: Shell) -> None:
    said = " ".join(shell("prices", "show", "--cloud", "azure").out.partition("No price is known of")[2].split())
    assert "NC48ads A100 v4" in said
    assert "NC80adis H100 v5" in said
    assert "NC40ads" not in said, "it has a price"


def test_long_lists_of_names_are_cut(shell: Shell) -> None:
    """The nearest, how many there are, and the command that lists them."""
    for arguments, lister in (
        (("simulate", "--policy", "zzz", "--cluster", "v100=1", "--jobs", "1"), "policies"),
        (("simulate", "--policy", "fifo", "--cluster", "zzz=1", "--jobs", "1"), "docs your_gpus"),
        (("throughputs", "show", "--type", "zzz"), "throughputs show"),
        (("prices", "show", "--accelerators", "zzz"), "prices show"),
        (("docs", "zzz"), "docs"),
    ):
        said = shell(*arguments).err
        assert f"in all: gavelx {lister})" in said, said
        assert said.count(",") < 12, said
    said = shell("throughputs", "show", "--type", "llama-7b-lora-bs16").err
    assert "gavelx docs your_gpus" in said, "its speeds are estimated"


def test_pages_are_listed_and_shown(shell: Shell) -> None:
    listed = shell("docs")
    assert listed.code == 0
    assert "write_a_policy" in listed.out
    assert shell("docs", "policies").out.startswith("# Policies\n")
    missed = shell("docs", "polices")
    assert missed.code == 2
    assert "did you mean 'policies'?" in missed.err


def test_policies_fit_a_narrow_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    said = shell("policies").out
    assert max(map(len, said.splitlines())) <= 50
    assert "…" not in said
    assert "max_min_fairness" in said
