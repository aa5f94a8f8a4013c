"""Bills and price tables as a user sees them."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from gavelx.cli.listing import OLD_DAYS
from tests.cli.running import Shell

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
    assert "aws: the price of k80 is of 2020-03" in ran.err
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
    assert bills[0]["as_of"] == "2026-09-06" and bills[-1]["as_of"] is None
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
    assert all(word in ran.out for word in ("vision/ann", "(nobody)", "k80", "accelerator", "owner"))


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
    assert f"{full['total_usd'] / 1.08:,.2f}" in euro.out and "EUR. busy" in euro.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
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
    assert ran.code == 2 and "no price of p100" in ran.err and '--prices "aws+p100=1.35"' in ran.err
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
    assert OLD_DAYS == 365
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
    assert ran.code == 2 and "no row of the price table is of 'nonsense'" in ran.err and not ran.out


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
