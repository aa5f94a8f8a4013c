"""``gavelx mix`` and budgets on the command line: what they print, and what they refuse."""

import json
from pathlib import Path

import pytest

from gavelx.cli.mixing import _met_again, _on_paper
from gavelx.pricing.mix import Repetition
from tests.cli.running import Shell

HEADER = "job_id,arrival_s,job_type,scale_factor,total_steps,priority_weight,slo,duration_s,owner\n"
JOBS = """0,0,A3C,1,20000,1,2,7200,ml/ann
1,600,A3C,1,20000,1,,,ml/bob
2,1200,LM (batch size 5),1,100000,1,3,7200,ops
"""


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + JOBS)
    return str(path)


def test_a_mix_as_json(shell: Shell, trace: str) -> None:
    ran = shell("mix", "--trace", trace, "--prices", "aws,gcp", "--deadline", "6", "--json")
    assert ran.code == 0, ran.err
    assert ran.err.startswith("simulating cluster 1\naws,gcp: prices more than a year old: gcp/n1+1xk80")
    found = ran.json
    assert found["confirmed"]
    assert found["late_s"] == {}
    total = sum(row["count"] * row["usd_per_hour"] for row in found["instances"])
    assert found["usd_per_hour"] == pytest.approx(total)
    assert found["hours"] == pytest.approx(1 / 3 + 6)  # the last deadline is job 2's
    assert found["usd"] == pytest.approx(total * found["hours"])
    assert found["lower_bound_usd_per_hour"] <= found["paper_usd_per_hour"] <= found["usd_per_hour"]
    assert set(found["worth"]) <= {"v100", "p100", "k80"}
    for row in found["worth"].values():
        assert row["verdict"] in ("buy", "break-even", "rent", "drop")
        assert row["worth_usd_per_hour"] <= row["price_usd_per_hour"] * (1 + 1e-6)
    assert found == shell("mix", "--trace", trace, "--prices", "aws,gcp", "--deadline", "6", "--json").json


def test_a_mix_as_a_table(shell: Shell, trace: str) -> None:
    ran = shell("mix", "--trace", trace, "--prices", "k80=0.5", "--accelerators", "K80", "--deadline", "24")
    assert ran.code == 0, ran.err
    assert "1xk80" in ran.out
    assert "every deadline is met under deadlines" in ran.out
    assert "one more" in ran.out


def test_prices_of_another_kind_and_discounts(shell: Shell, trace: str) -> None:
    words = ("mix", "--trace", trace, "--prices", "gcp", "--accelerators", "k80", "--deadline", "200", "--json")
    usual, spot = shell(*words), shell(*words, "--kind", "spot")
    assert spot.code == 0, spot.err
    assert spot.json["kind"] == "spot" and spot.json["usd_per_hour"] < usual.json["usd_per_hour"]
    assert "spot instances may be taken away" in spot.err and "taken away" not in usual.err
    assert "hours, at spot prices" in " ".join(shell(*words[:-1], "--kind", "spot").out.split())
    half = shell(*words, "--discount", "gcp=50%").json
    assert half["usd_per_hour"] == pytest.approx(usual.json["usd_per_hour"] / 2)
    assert half["lower_bound_usd_per_hour"] == pytest.approx(usual.json["lower_bound_usd_per_hour"] / 2)
    for options, said in (
        (("--kind", "sopt"), "--kind: 'sopt' is no kind"),
        (("--kind", "reserved", "--prices", "k80=0.5"), "--kind: there is no table to choose prices from"),
        (("--discount", "gpc=10%"), "--discount: 'gpc' is not in the table"),
    ):
        refused = shell(*words, *options)
        assert (refused.code, refused.out) == (2, "") and said in refused.err


def test_repetitions_in_words() -> None:
    late, met, dearer = Repetition(2, None), Repetition(0, 3.0), Repetition(0, 4.5)
    assert _met_again([late, met, dearer]).endswith(", in 2 of 3 repetitions")
    assert _on_paper([met, late]) == "; in 1 of the repetitions no cluster was found"
    assert "$3.00 - $4.50" in _on_paper([met, dearer])
    assert _met_again([]) == _on_paper([]) == _on_paper([met, met]) == ""


def test_types_that_the_table_lacks_are_estimated_unless_they_are_not_to_be(shell: Shell, trace: str) -> None:
    words = (
        "mix",
        "--trace",
        trace,
        "--prices",
        "a100=3.67,k80=0.5",
        "--accelerators",
        "A100,k80",
        "--deadline",
        "6",
    )
    ran = shell(*words, "--json")
    assert ran.code == 0, ran.err
    assert {row["accelerator"]: row["estimated"] > 0 for row in ran.json["speeds"]} == {"a100": True, "k80": False}
    assert ran.json["speed_samples"] == len(ran.json["repetitions"]) == 19
    low, high = ran.json["intervals"]["paper_usd_per_hour"]
    assert low <= high
    told = " ".join(shell(*words, "--speed-samples", "3").out.split())
    assert "with speeds drawn from the ranges of estimates, in " in told and " of 3 repetitions" in told
    assert "repetitions" not in shell(*words, "--speed-samples", "0", "--json").json
    strict = shell(*words, "--strict-speeds")
    assert strict.code == 2
    assert "a100" in strict.err


def test_jobs_that_the_table_lacks_choose_among_all_types_that_are_sold(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "today.csv"
    path.write_text("job_id,arrival_s,job_type,scale_factor,total_steps\n0,0,llama-7b-lora-bs16,1,2000\n")
    words = ("mix", "--trace", str(path), "--prices", "k80=0.5,h100=9,tpu9=1,v100-16gb=3", "--deadline", "200")
    ran = shell(*words, "--json")
    assert ran.code == 0, ran.err
    assert [row["accelerator"] for row in ran.json["speeds"]] == ["k80", "v100", "h100"]
    assert {row["accelerator"] for row in ran.json["instances"]} == {"h100"}
    small = shell(*words, "--accelerators", "k80")
    assert (small.code, small.out) == (2, "")
    assert "cannot run on k80 (needs 18 GB, has 12)" in small.err
    assert "--accelerators TYPE,..." in small.err and "--skip-unrunnable" not in small.err
    strict = shell(*words, "--strict-speeds")
    assert strict.code == 2 and "unknown job type 'llama-7b-lora-bs16'" in strict.err


@pytest.mark.parametrize(
    ("job_type", "options", "said"),
    [
        (
            "llama-7b-lorra-bs16",
            ("--prices", "gcp"),
            r"jobs.csv, job 0, job type 'llama-7b-lorra-bs16': 'lorra' is not",
        ),
        ("lama-7b-lora-bs16", ("--prices", "gcp"), "did you mean llama-7b-lora-bs16?"),
        ("A3C", ("--prices", "asure"), "did you mean 'azure'?"),
        (
            "A3C",
            ("--prices", "gcp", "--accelerators", "h10"),
            "--accelerators: nothing is known of accelerator type 'h10'",
        ),
        ("A3C", ("--prices", "gcp", "--accelerators", "a100-90gb"), "did you mean 'a100-80gb"),
        ("A3C", ("--prices", "lambda", "--accelerators", "tpu-v5e"), "sells none of tpu-v5e; it has h100-80gb"),
        ("A3C", ("--prices", "h1000=3"), "sells none of k80, p100, v100; it has h1000"),
    ],
)
def test_unknown_names_and_types_that_are_not_sold(
    shell: Shell, tmp_path: Path, job_type: str, options: tuple[str, ...], said: str
) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(f"job_id,arrival_s,job_type,scale_factor,total_steps\n0,0,{job_type},1,2000\n")
    ran = shell("mix", "--trace", str(path), "--deadline", "200", *options)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err and len(ran.err.splitlines()) == 1


@pytest.mark.slow
def test_a_mix_that_is_not_confirmed_ends_with_1(shell: Shell, trace: str, tmp_path: Path) -> None:
    policy = tmp_path / "lazy.py"
    policy.write_text(
        "from dataclasses import replace\nfrom gavelx.policies import load_policy, Policy\n"
        "class Lazy(Policy):\n    def allocate(self, snapshot):\n"
        "        answer = load_policy('isolated').allocate(snapshot)\n"
        "        answer = replace(answer, share_C=answer.share_C * 0)\n"
        "        return answer.with_execution(backfill=False)\nlazy = Lazy()\n"
    )
    typed = ("mix", "--trace", trace, "--prices", "k80=0.5", "--deadline", "24", "--policy", f"{policy}:lazy")
    ran = shell(*typed)
    assert ran.code == 1
    assert "NOT CONFIRMED after" in ran.out
    assert "0 for ever" in ran.out
    assert shell(*typed, "--json").json["confirmed"] is False


def test_another_policy_and_other_rounds(shell: Shell, trace: str) -> None:
    typed = ("mix", "--trace", trace, "--prices", "gcp", "--deadline", "24", "--json")
    found = shell(*typed, "--policy", "srtf", "--round", "60").json
    assert found["policy"] == "srtf"
    assert found["confirmed"]


BAD = {
    "--trace": ["", ".", "no_such_trace", "/", "gavel_debug", "gavel_small_test"],  # the last two: no deadlines
    "--prices": [
        *("", ",", "aws,", "awz", "v100", "v100=", "v100=x", "v100=-1", "v100=0", "v100=nan", "v100=inf"),
        *("=1", "tpu=3", "no_such.csv", "/", "v100=1,v100=2", "v100=1;k80=2", "lambda:", "v100=1e999", "oci,x"),
    ],
    "--as-of": ["", "yesterday", "2020", "2020-13", "20200101", "2020-02-99", "2020/01/01", "-1", "1900-01"],
    "--accelerators": ["", ",", "tpu", "v100,", "v100;k80", "v100 k80", "v100=1", "V 100"],
    "--deadline": ["0", "-1", "nan", "inf", "x", "", "1e-9", "0.0001", "-inf", "1h"],
    "--max-devices": [
        *("", ",", "v100", "v100=", "v100=x", "v100=-1", "v100=1.5", "v100=1e3", "tpu=1", "=3", "v100=1,v100=2"),
        *("v100=99999999999", "v100=100001", "k80=0,v100=0", "v100=٣", "v100=1;k80=1"),
    ],
    "--policy": ["", "fifa", "deadlines(", "Cost()", "budgeted(fifo)", "budgeted(fifo, ml=x)", "no_file:policy"],
    "--table": ["", "no_such_table", "/", "no.csv"],
    "--round": ["0", "-1", "nan", "inf", "x", "", "0.5"],
    "--time-budget": ["0", "-1", "nan", "x", "1e9", ""],
}
GOOD_ACCELERATORS = {"v100,"}
"""A comma too many does no harm."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "value"),
    [(option, value) for option, values in BAD.items() for value in values if value not in GOOD_ACCELERATORS],
)
def test_bad_input_is_one_line_that_says_what(shell: Shell, trace: str, option: str, value: str) -> None:
    typed = {"--trace": trace, "--prices": "v100=3,k80=0.5", "--deadline": "24"} | {option: value}
    if value == "gavel_debug":
        del typed["--deadline"]
    if value == "gavel_small_test":
        typed |= {"--deadline": "0.00001"}
    if option == "--as-of":
        typed |= {"--prices": "aws"}
    ran = shell("mix", *(word for pair in typed.items() for word in pair))
    assert ran.code == 2, (ran.code, ran.out, ran.err)
    assert ran.out == ""
    assert "Traceback" not in ran.err
    assert len(ran.err) < 900


@pytest.mark.parametrize(
    "row",
    [
        "0,0,A3C,1,20000,1,-2,7200,",
        "0,0,A3C,1,20000,1,2,0,",
        "0,0,A3C,1,20000,1,nan,7200,",
        "0,0,A3C,1,20000,1,0.0001,7200,",
        "0,0,A3D,1,20000,1,2,7200,",
        "0,0,A3C,64,20000,1,2,7200,",
        "0,0,A3C,0,20000,1,2,7200,",
        "0,0,A3C,1,-1,1,2,7200,",
        "0,-1,A3C,1,20000,1,2,7200,",
        "0,0,A3C,1,20000,1,2,7200,\n0,0,A3C,1,20000,1,2,7200,",
        "",
    ],
)
def test_bad_rows_of_a_trace(shell: Shell, tmp_path: Path, row: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(HEADER + row + "\n")
    ran = shell("mix", "--trace", path, "--prices", "v100=3,k80=0.5")
    assert (ran.code, ran.out) == (2, "")


# -- budgets --------------------------------------------------------------------------------------------------


RUN = ("--cluster", "v100=1,k80=1", "--prices", "v100=3,k80=0.5")


def test_a_budget_and_what_it_changes(shell: Shell, trace: str) -> None:
    run = ("simulate", "--policy", "max_min_fairness", "--trace", trace, *RUN, "--budget", "ml=0.6,total=3")
    ran = shell(*run)
    assert ran.code == 0, ran.err
    assert "what the budgets change" in ran.out
    found = shell(*run, "--json", "-").json
    assert found["policy"] == "budgeted(max_min_fairness, ml=0.6, total=3)"
    assert list(found["budgets"]) == ["ml", "ops", "total"]
    ml = found["budgets"]["ml"]
    assert ml["budget_usd_per_hour"] == 0.6
    assert ml["within"]["usd_per_hour"] <= 0.6 + 0.35 * 0.1
    assert ml["without"]["usd_per_hour"] > 0.6
    assert ml["within"]["jct_mean_s"] > ml["without"]["jct_mean_s"]
    assert found["budgets"]["ops"]["budget_usd_per_hour"] is None
    assert found["budgets"]["total"]["within"]["jobs"] == 3


def test_a_comparison_within_budgets(shell: Shell, trace: str) -> None:
    policies = ("--policies", "fifo,max_min_fairness", "--workers", "1")
    ran = shell("compare", *policies, "--trace", trace, *RUN, "--budget", "ml=0.6", "--json", "-")
    assert [run["policy"] for run in ran.json["runs"]] == [
        "budgeted(fifo, ml=0.6)",
        "budgeted(max_min_fairness, ml=0.6)",
    ]


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        ("", "no budget"),
        ("ml", "cannot read 'ml'"),
        ("ml=x", "cannot read 'ml=x'"),
        ("ml=-1", "cannot read"),
        ("ml=nan", "cannot read"),
        ("ml=1,ml=2", "ml is named twice"),
        ("lm=1", "no job belongs to 'lm'; expected an owner of jobs. Try: did you mean 'ml'?"),
        ("=1", "=1"),
        ("ml=1)", "brackets"),
        ("ml=1), fifo", "--budget"),
        ("(ml=1", "brackets"),
    ],
)
def test_bad_budgets(shell: Shell, trace: str, budget: str, said: str) -> None:
    ran = shell("simulate", "--policy", "fifo", "--trace", trace, *RUN, "--budget", budget)
    assert ran.code == 2, (ran.out, ran.err)
    assert said in ran.err
    assert ran.err.startswith("gavelx: --budget")


@pytest.mark.parametrize("policy", ["budgeted(fifo, ml=1)", "packed(budgeted(max_min_fairness, ml=1))", "fifo"])
def test_rules_without_ceilings_keep_no_budget(shell: Shell, trace: str, policy: str) -> None:
    budget = ("--budget", "ml=1") if policy == "fifo" else ()
    ran = shell("simulate", "--policy", policy, "--trace", trace, *RUN, "--rules", "published", *budget)
    assert ran.code == 2
    assert "no budget holds" in ran.err


def test_what_one_more_dollar_is_worth(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    owners = ["ml/ann", "ml/bob", "ops", "ops"]
    path.write_text(
        json.dumps(
            {
                "format": "gavelx-snapshot-1",
                "cluster": {"fast": 2},
                "jobs": [
                    {"job_id": j, "job_type": "a", "total_steps": 1000.0, "owner": owner}
                    for j, owner in enumerate(owners)
                ],
                "throughputs": [
                    {"jobs": [j], "accelerator": "fast", "devices": 1, "steps_per_second": [4.0]} for j in range(4)
                ],
                "progress": [{"job_id": j, "steps_left": 1000.0, "elapsed_s": 0.0} for j in range(4)],
                "prices": {"fast": 3.0},
            }
        )
    )
    run = ("allocate", "--policy", "budgeted(max_min_fairness, ml=1.5)", "--snapshot", path, "--explain")
    assert "one more dollar" in shell(*run).out
    budgets = shell(*run, "--json", "-").json["explanation"]["budgets"]
    assert budgets["ml"]["usd_per_hour"] == pytest.approx(1.5)
    assert budgets["ml"]["without_usd_per_hour"] == pytest.approx(3.0)
    assert budgets["ml"]["speed"] == pytest.approx(0.5)
    assert budgets["ops"]["speed"] == pytest.approx(1.5)
    assert budgets["ml"]["is_spent"]
    assert budgets["ml"]["per_dollar"] == pytest.approx(1 / 1.5)  # the worst job is ml's: its level is its money
    assert budgets["ops"]["per_dollar"] is None
    assert "budgets" not in shell("allocate", "--policy", "fifo", *run[3:], "--json", "-").json["explanation"]


@pytest.mark.parametrize(
    ("options", "old"),
    [
        (("--prices", "gcp"), True),
        (("--prices", "gcp", "--as-of", "2020-12"), False),
        (("--prices", "k80=0.5"), False),
    ],
)
def test_old_prices_are_named(trace: str, shell: Shell, options: tuple[str, ...], old: bool) -> None:
    ran = shell("mix", "--trace", trace, *options, "--accelerators", "k80", "--deadline", "200", "--json")
    assert ran.code == 0, ran.err
    assert ("prices more than a year old: gcp/n1+1xk80 of 2020-03; gavelx prices refresh" in ran.err) == old
