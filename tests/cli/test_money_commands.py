"""Bills and price tables as a user sees them."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from gavelx.files.current_prices import YEARS
from tests.cli.running import Shell

pytestmark = pytest.mark.slow

POLICIES = "fifo,max_min_fairness"
HEADER = "accelerator,price_usd_per_hour,as_of,currency\n"


@pytest.fixture
def runs(shell: Shell, tmp_path: Path) -> Path:
    out = tmp_path / "runs.json"
    cluster = ("--cluster", "v100=2,k80=2", "--jobs", "6", "--workers", "1")
    assert shell("compare", "--policies", POLICIES, *cluster, "--json", out).code == 0
    return out


def test_a_matrix_of_bills(shell: Shell, runs: Path, tmp_path: Path) -> None:
    html, out = tmp_path / "bill.html", tmp_path / "bill.json"
    prices = "aws,gcp,azure,v100=1.6,k80=0.9"
    ran = shell("bill", "--result", runs, "--prices", prices, "--json", out, "--html", html)
    assert ran.code == 0, ran.err
    assert "total under" in ran.out and "v100=1.6,k80=0.9" in ran.out
    assert "aws: prices more than a year old: k80 of 2020-03" in ran.err  # the oldest come first
    bills = json.loads(out.read_text(), parse_float=Decimal)["bills"]
    assert [(bill["prices"], bill["policy"]) for bill in bills] == [
        (prices, policy)
        for prices in ("aws", "gcp", "azure", "v100=1.6,k80=0.9")
        for policy in ("fifo", "max_min_fairness")
    ]
    for bill in bills:
        assert bill["total_usd"] == sum(job["usd"] for job in bill["per_job"]) + bill["idle_usd"]
        assert {job["job_id"] for job in bill["per_job"]} == set(range(6))
        assert bill["busy_usd"] == sum(entry["busy_usd"] for entry in bill["per_accelerator"])
    assert bills[0]["as_of"] == "2026-08-26" and bills[-1]["as_of"] is None
    assert bills[0]["energy"]["kwh"] > 0 and bills[-1]["energy"]["kg_co2"] is None
    page = html.read_text()
    assert page.count("<svg") == 1 and "max_min_fairness" in page and f"{bills[0]['total_usd']:,.2f}" in page


def test_the_run_says_the_same_of_its_own_prices(shell: Shell, tmp_path: Path) -> None:
    out, prices = tmp_path / "run.json", "v100=1.6,p100=1.35"
    assert (
        shell(
            "simulate",
            "--policy",
            "fifo",
            "--cluster",
            "v100=2,p100=1",
            "--jobs",
            "5",
            "--prices",
            prices,
            "--json",
            out,
        ).code
        == 0
    )
    ran = shell("bill", "--result", out, "--prices", prices, "--json", "-")
    bill = ran.json["bills"][0]
    assert bill["busy_usd"] == pytest.approx(json.loads(out.read_text())["cost_usd"], abs=0.00501)


def test_one_bill_by_type_owner_and_job(shell: Shell, runs: Path, tmp_path: Path) -> None:
    document = json.loads(runs.read_text())["runs"][0]
    document["per_job"][0]["owner"] = "vision/ann"
    one = tmp_path / "one.json"
    one.write_text(json.dumps(document))
    ran = shell("bill", "--result", one, "--prices", "gcp")
    assert all(word in ran.out for word in ("vision/ann", "(no owner)", "k80", "accelerator", "owner"))


def test_runs_of_one_policy_are_told_apart_by_their_files(shell: Shell, runs: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.json"
    again.write_text(json.dumps(json.loads(runs.read_text())["runs"][0]))
    ran = shell("bill", "--result", runs, "--result", again, "--prices", "gcp", "--json", "-")
    policies = [bill["policy"] for bill in ran.json["bills"]]
    assert policies == ["fifo (runs)", "max_min_fairness", "fifo (again)"]
    (tmp_path / "b").mkdir()
    same = again.rename(tmp_path / "b" / runs.name)
    ran = shell("bill", "--result", runs, "--result", same, "--prices", "gcp", "--json", "-")
    policies = [bill["policy"] for bill in ran.json["bills"]]
    assert policies == [f"fifo ({runs})", "max_min_fairness", f"fifo ({same})"]


def test_discounts_currency_kind_and_grid(shell: Shell, runs: Path) -> None:
    def bill(*options: str) -> dict:
        return shell("bill", "--result", runs, "--json", "-", *options).json["bills"][0]

    full, half = bill("--prices", "gcp"), bill("--prices", "gcp", "--discount", "gcp=50%")
    assert half["total_usd"] == pytest.approx(full["total_usd"] / 2, abs=0.011)
    family = bill("--prices", "aws", "--discount", "aws=10%,aws:p3=20%")
    rates = {entry["accelerator"]: entry["usd_per_hour"] for entry in family["per_accelerator"]}
    assert rates == pytest.approx({"v100": 3.06 * 0.8, "k80": 0.9 * 0.9})
    assert bill("--prices", "gcp", "--kind", "spot")["total_usd"] < full["total_usd"]
    region = bill("--prices", "gcp:us-west1", "--kind", "spot")
    assert {entry["region"] for entry in region["per_accelerator"]} == {"us-west1"}
    clean = bill("--prices", "gcp", "--carbon", "grid:Norway", "--pue", "1.0", "--draw", "busy=0.5")
    assert clean["energy"]["kg_co2"] < full["energy"]["kg_co2"] / 2
    euro = shell("bill", "--result", runs, "--prices", "gcp", "--currency", "EUR=1.08")
    row = next(line.split() for line in euro.out.splitlines() if line.startswith("fifo"))
    total, busy, idle = (Decimal(amount.replace(",", "")) for amount in row[1:4])
    assert total == busy + idle and "EUR. busy" in euro.out
    for amount, usd in ((busy, full["busy_usd"]), (idle, full["idle_usd"])):
        assert float(amount) == pytest.approx(usd / 1.08, abs=0.0051 + 0.0051 / 1.08)


def test_a_spot_run_is_billed_as_run_and_any_table_says_that_it_was_not_its_own(
    shell: Shell, tmp_path: Path
) -> None:
    out, run = tmp_path / "spot.json", ("simulate", "--policy", "max_min_fairness", "--cluster", "v100=2,k80=2")
    spot = ("--spot-history", "spot_history", "--spot-place", "us-west-2", "--spot-start", "2020-02-16")
    assert shell(*run, "--jobs", "8", *spot, "--json", out).code == 0
    document = json.loads(out.read_text())
    assert len(document["prices"]["periods"]) > 1
    ran = shell("bill", "--result", out, "--prices", "as-run,aws", "--json", "-")
    own, table = ran.json["bills"]
    assert own["busy_usd"] == pytest.approx(document["cost_usd"], abs=0.00501)
    assert own["busy_usd"] < table["busy_usd"] and own["idle_usd"] < table["idle_usd"]
    assert (own["prices"], own["as_of"]) == ("as-run", None)
    assert {entry["source"] for entry in own["per_accelerator"]} == {"as-run"}
    assert "aws: the run was made at other prices (spot_history from 2020-02-16 00:00 UTC on" in ran.err
    assert "--prices as-run bills at those" in ran.err and "as-run: the run" not in ran.err
    shown = shell("bill", "--result", out, "--prices", "as-run")
    assert f"{own['busy_usd']:,.2f}" in shown.out and not shown.err


def test_a_run_at_fixed_prices_costs_the_same_as_run_as_under_its_table(shell: Shell, runs: Path) -> None:
    own, table = (shell("bill", "--result", runs, "--prices", name, "--json", "-") for name in ("as-run", "gcp"))
    amounts = ("busy_usd", "idle_usd", "total_usd", "per_job", "per_owner")
    for one, other in zip(own.json["bills"], table.json["bills"], strict=True):
        assert [one[name] for name in amounts] == [other[name] for name in amounts]
        rates = [[entry["usd_per_hour"] for entry in bill["per_accelerator"]] for bill in (one, other)]
        assert rates[0] == rates[1]
    assert "other prices" not in own.err + table.err
    replaced = shell("bill", "--result", runs, "--prices", "as-run+V100-16GB=100", "--json", "-").json["bills"][0]
    assert replaced["total_usd"] > own.json["bills"][0]["total_usd"]


def test_prices_that_change_are_billed_second_by_second(shell: Shell, tmp_path: Path) -> None:
    changes, out = tmp_path / "changes.csv", tmp_path / "run.json"
    changes.write_text("time_s,accelerator,usd_per_hour\n3600,v100,2\n7200,v100,0.5\n")
    trace = tmp_path / "trace.csv"
    header = "job_id,arrival_s,job_type,scale_factor,total_steps"
    trace.write_text(f"{header}\n0,1800,ResNet-18 (batch size 32),1,500000\n")
    cluster = ("--cluster", "v100=2", "--prices", "v100=1", "--price-changes", changes)
    ran = shell("simulate", "--policy", "fifo", "--trace", trace, *cluster, "--json", out)
    assert ran.code == 0, ran.err
    end_s = json.loads(out.read_text())["makespan_s"]
    assert end_s > 7200.0
    bill = shell("bill", "--result", out, "--prices", "as-run", "--json", "-").json["bills"][0]
    later = (end_s - 7200.0) / 3600.0 * 0.5
    assert bill["busy_usd"] == pytest.approx(0.5 * 1 + 1.0 * 2 + later, abs=0.00501)
    assert bill["idle_usd"] == pytest.approx(1.5 * 1 + 1.0 * 2 + later, abs=0.00501)
    assert bill["per_accelerator"][0]["usd_per_hour"] is None
    other = shell("bill", "--result", out, "--prices", "v100=1")
    assert "v100=1: the run was made at other prices (v100=1, which changed)" in other.err


def test_results_of_before_have_no_prices_of_their_own(shell: Shell, runs: Path, tmp_path: Path) -> None:
    document = json.loads(runs.read_text())
    for run in document["runs"]:
        del run["prices"]
    old = tmp_path / "old.json"
    old.write_text(json.dumps(document))
    now, then = (shell("bill", "--result", path, "--prices", "gcp", "--json", "-") for path in (runs, old))
    assert now.json == then.json and "other prices" not in then.err
    ran = shell("bill", "--result", old, "--prices", "as-run")
    assert ran.code == 2 and "written before results kept their prices" in ran.err


@pytest.mark.parametrize(
    "options", [("--kind", "spot"), ("--as-of", "2023-09"), ("--discount", "aws=10%")], ids=lambda words: words[0]
)
def test_the_prices_of_a_run_or_a_list_have_no_date_no_kind_and_no_discount(
    shell: Shell, runs: Path, options: tuple[str, str]
) -> None:
    for prices in ("as-run", "v100=1,p100=1,k80=1", "as-run,v100=1,p100=1,k80=1"):
        ran = shell("bill", "--result", runs, "--prices", prices, *options)
        assert ran.code == 2 and f"{options[0]}: there is no table to choose prices from" in ran.err
    cloud = "gcp" if options[0] == "--kind" else "aws"
    assert shell("bill", "--result", runs, "--prices", f"as-run,{cloud}", *options).code == 0


def test_won_are_whole(shell: Shell, runs: Path) -> None:
    usd = shell("bill", "--result", runs, "--prices", "gcp", "--json", "-").json["bills"][0]
    ran = shell("bill", "--result", runs, "--prices", "gcp", "--currency", "krw=0.00073")
    assert "KRW. busy" in ran.out
    row = next(line.split() for line in ran.out.splitlines() if line.startswith("fifo"))
    total, busy, idle = (int(amount.replace(",", "")) for amount in row[1:4])
    assert total == busy + idle and busy == pytest.approx(usd["busy_usd"] / 0.00073, abs=8)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--prices", "as-run+v100"), "--prices: 'as-run+v100' is neither a cloud nor"),
        (("--prices", "as-run+v100=x"), "--prices: cannot read 'v100=x'"),
        (("--prices", "aws,nimbus"), "--prices: 'nimbus' is neither a cloud nor"),
        (("--prices", "v100=1.6"), "--prices: no price of k80; 'v100=1.6' has prices of v100"),
        (("--prices", "aws:mars-1"), "--prices: 'mars-1' is not in the table"),
        (("--prices", "aws+k80=-1"), "--prices: cannot read 'k80=-1'"),
        (("--prices", "aws+k80=nan"), "--prices: cannot read 'k80=nan'"),
        (
            ("--prices", "aws", "--as-of", "2019-12"),
            "'aws' has prices up to 2019-12 of nothing; its first date is",
        ),
        (("--prices", "aws", "--as-of", "then"), "--as-of: 'then' is no date"),
        (("--prices", "aws", "--kind", "spot"), "no price (spot) of v100, k80; 'aws' has prices of nothing"),
        (("--prices", "aws", "--kind", "hourly"), "--kind: 'hourly' is no kind"),
        (("--prices", "aws", "--discount", "aws=110%"), "--discount: cannot read 'aws=110%'"),
        (("--prices", "aws", "--discount", "asw=10%"), "--discount: 'asw' is not in the table"),
        (("--prices", "aws", "--discount", "aws=1%,aws=2%"), "--discount: 'aws' is there twice"),
        (("--prices", "aws", "--currency", "EUR"), "--currency: cannot read 'EUR'"),
        (("--prices", "aws", "--currency", "EUR=0"), "--currency: cannot read 'EUR=0'"),
        (
            ("--prices", "aws", "--currency", "usd=2"),
            "--currency: 2 US dollars for one; expected another currency",
        ),
        (("--prices", "aws", "--currency", "EUR=1.1,GBP=1.3"), "--currency: a bill is in one currency"),
        (("--prices", "aws", "--pue", "0.5"), "--pue: a PUE of 0.5; expected 1 to 10"),
        (("--prices", "aws", "--draw", "busy=2"), "--draw: 'busy=2' cannot be used"),
        (("--prices", "aws", "--carbon", "aws:mars-1"), "--carbon: nothing is known of the grid of 'aws:mars-1'"),
        (("--prices", "aws", "--html", "-"), "--html: only --json can go to stdout"),
    ],
)
def test_mistakes_get_one_clear_message(shell: Shell, runs: Path, options: tuple[str, ...], said: str) -> None:
    ran = shell("bill", "--result", runs, *options)
    assert ran.code == 2 and said in ran.err and ran.err.count("gavelx:") == 1, ran.err
    assert not ran.out


def test_p100_is_not_sold_by_aws(shell: Shell, tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    assert shell("simulate", "--policy", "fifo", "--cluster", "p100=1", "--jobs", "2", "--json", out).code == 0
    ran = shell("bill", "--result", out, "--prices", "aws")
    assert ran.code == 2 and "no price of p100" in ran.err and '--prices "aws+p100=DOLLARS"' in ran.err
    assert "clouds with a price: p100 (azure, gcp)" in ran.err
    assert shell("bill", "--result", out, "--prices", "aws+p100=1.35").code == 0


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            "v100,-1,,",
            "row 2, column price_usd_per_hour: '-1' cannot be used; expected a finite number, 0 or more",
        ),
        ("v100,NaN,,", "row 2, column price_usd_per_hour: 'NaN' cannot be used"),
        ("v100,1,,EUR", "row 2, column currency: the currency 'EUR' has no rate; expected USD"),
        ("v100,1,2023-02-30,", "row 2, column as_of: '2023-02-30' is no date"),
    ],
)
def test_bad_tables_name_row_and_column(shell: Shell, runs: Path, tmp_path: Path, row: str, said: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(HEADER + row)
    ran = shell("bill", "--result", runs, "--prices", path)
    assert ran.code == 2 and f"{path}, {said}" in ran.err


# -- prices import, check and show --------------------------------------------------------------------------------


def test_import_check_and_use(shell: Shell, runs: Path, tmp_path: Path) -> None:
    listed, table = tmp_path / "list.csv", tmp_path / "table.csv"
    listed.write_text(HEADER + "v100,3.06,2024-01-01,\nk80,0.81,2024-01-01,EUR\nk80,free,,\n")
    ran = shell("prices", "import", "csv", listed, "--currency", "EUR=1.1", "--out", table)
    assert ran.code == 2 and f"{listed}, row 4, column price_usd_per_hour: 'free' cannot" in ran.err.replace(
        ": column", ", column"
    )
    options = ("--currency", "EUR=1.1", "--skip-bad-rows", "--out", table)
    ran = shell("prices", "import", "csv", listed, *options)
    assert ran.code == 0 and "2 prices (on_demand: 2)" in ran.out and "row 4: column price_usd_per_hour" in ran.err
    assert shell("prices", "import", "csv", listed, *options, "--json").json["prices"] == 2
    assert "V100,1" in shell("prices", "import", "csv", listed, "--currency", "EUR=1.1", "--skip-bad-rows").out
    assert shell("prices", "check", table).code == 0
    assert shell("bill", "--result", runs, "--prices", table).code == 0


def test_check_says_what_is_wrong(shell: Shell, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("cloud,instance_type,accelerator,price_usd_per_hour,as_of\n" + "x,b,B200,0.01,2026-01\n" * 2)
    ran = shell("prices", "check", table)
    assert ran.code == 2 and "row 2: error: $0.01 for one b200 of x b; expected $0.050 at least" in ran.out
    assert "2 rows: 2 errors, 0 warnings" in ran.out
    found = shell("prices", "check", table, "--json")
    assert found.code == 2 and found.json["errors"] == 2 and found.json["alarms"][0]["trap"] == "outlier"


def test_the_shipped_table(shell: Shell) -> None:
    ran = shell("prices", "check")
    assert ran.code == 0 and "0 errors" in ran.out


def test_show_marks_old_prices(shell: Shell) -> None:
    assert YEARS == 1
    ran = shell("prices", "show", "--accelerators", "k80")
    assert "0.90*" in ran.out and "over a year ago" in ran.out
    assert "0.81*" in shell("prices", "show", "--accelerators", "k80", "--discount", "aws=10%").out
    rows = shell("prices", "show", "--accelerators", "a100-80gb", "--as-of", "2023-12", "--json").json["rows"]
    assert all(row["as_of"] < "2024" for row in rows)


@pytest.mark.parametrize("json", [(), ("--json",)])
def test_nothing_to_show_is_an_error(shell: Shell, json: tuple[str, ...]) -> None:
    ran = shell("prices", "show", "--cloud", "gcp", "--accelerators", "k80", "--as-of", "2019-01-01", *json)
    assert ran.code == 2 and "no row of the price table matches" in ran.err and not ran.out
    ran = shell("prices", "show", "--accelerators", "v100,nonsense", *json)
    assert ran.code == 2 and "the price table has no row for 'nonsense'" in ran.err and not ran.out


# -- spot ---------------------------------------------------------------------------------------------------------


def test_spot_prices_and_nodes(shell: Shell, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.csv"
    nodes.write_text(
        "accelerator,nodes_requested,offset_s,duration_s,nodes_available\nV100,2,0,9000,2\nV100,2,9000,9000,1\n"
    )
    run = (
        "simulate",
        "--policy",
        "max_min_fairness",
        "--cluster",
        "v100=2,k80=2",
        "--jobs",
        "6",
        "--devices-per-server",
        "1",
    )
    plain = shell(*run, "--json", "-").json
    ran = shell(*run, "--spot-history", "spot_history", "--spot-availability", nodes, "--json", "-")
    assert ran.json["jobs_completed"] == 6 and ran.json["cost_usd"] < plain["cost_usd"]
    assert "v100 in azure eastus" in ran.err
    assert ran.json["idle_device_s"]["v100"] < 2 * ran.json["makespan_s"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--spot-start", "2020-01-10"), "--spot-start: there is no price history"),
        (("--spot-history", "spot_history", "--price-changes", "x.csv"), "both say how prices change"),
        (("--spot-history", "nothing.csv"), "nothing.csv: there is no such file"),
        (("--spot-availability", "nothing.csv"), "nothing.csv: there is no such file"),
        (("--spot-availability", "x.csv", "--rules", "published"), "--spot-availability: the rules 'published'"),
        (("--spot-availability", "x.csv", "--failures", "servers=1"), "both say when servers go"),
        (
            ("--spot-history", "spot_history", "--prices", "aws", "--spot-place", "eastus-9"),
            "has no price in 'eastus-9'",
        ),
    ],
)
def test_spot_mistakes(shell: Shell, options: tuple[str, ...], said: str) -> None:
    ran = shell("simulate", "--policy", "fifo", "--cluster", "v100=1,t4=1", "--jobs", "2", *options)
    assert ran.code == 2 and said in ran.err, ran.err


def test_a_type_without_a_spot_price_is_bought_on_demand_only_if_asked(shell: Shell) -> None:
    run = ("simulate", "--policy", "fifo", "--cluster", "v100=1,p100=1", "--jobs", "2", "--spot-place", "aws")
    ran = shell(*run, "--spot-history", "spot_history")
    assert ran.code == 2 and "--spot-history: no spot price of p100. Try: --prices gcp" in ran.err, ran.err
    ran = shell(*run, "--spot-history", "spot_history", "--prices", "gcp")
    assert ran.code == 0 and "p100 on demand by gcp" in ran.err, ran.err


def test_a_change_below_a_cent_is_shown(shell: Shell, tmp_path: Path) -> None:
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    head = "accelerator,cloud,price_usd_per_hour,as_of\n"
    old.write_text(f"{head}t4,mine,0.526,2026-01\nl4,mine,0.8048,2026-01\nk80,mine,0.9,2026-01\n")
    new.write_text(f"{head}t4,mine,0.52594,2026-02\nl4,mine,0.8049,2026-02\nk80,mine,0.45,2026-02\n")
    ran = shell("prices", "refresh", "csv", new, "--table", old)
    assert ran.code == 0, ran.err
    shown = {tuple(line.split()[-3:]) for line in ran.out.splitlines()}
    assert shown >= {("0.8048", "0.8049", "+0.01%"), ("0.5260", "0.5259", "-0.01%"), ("0.90", "0.45", "-50.0%")}
    assert "gone: " not in ran.out and "the lists" not in ran.out


def test_names_of_a_price_list_are_shown_as_they_are(shell: Shell, tmp_path: Path) -> None:
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    for file, usd in ((old, 1), (new, 2)):
        file.write_text(f"accelerator,price_usd_per_hour\n[/x],{usd}\n[red]card,{usd}\n")
    ran = shell("prices", "refresh", "csv", new, "--table", old)
    assert ran.code == 0 and "1 x [/x]" in ran.out and "1 x [red]card" in ran.out, ran.err


@pytest.mark.parametrize(
    ("version", "date", "said"),
    [
        (2, "2026-02", "0 new, 1 gone, 0 dearer, 1 cheaper, 0 the same gone: they count no more"),
        (
            1,
            "2026-02",
            "0 gone, 0 dearer, 1 cheaper, 0 the same 1 not in the lists, though their region is, still",
        ),
        (0, "2025-12", "0 gone, 0 dearer, 0 cheaper, 0 the same 1 in the lists do not count: the table has later"),
    ],
)
def test_gone_older_and_what_still_counts(
    shell: Shell, tmp_path: Path, version: int, date: str, said: str
) -> None:
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    head = "accelerator,accelerator_count,cloud,price_usd_per_hour,as_of,source\n"
    old.write_text(f"{head}t4,1,mine,0.526,2026-01,list@1\nt4,2,mine,1,2026-01,list@1\n")
    new.write_text(f"{head}t4,1,mine,0.5,{date},list@{version}\n")
    ran = shell("prices", "refresh", "csv", new, "--table", old)
    assert said in " ".join(ran.out.split()), ran.err
