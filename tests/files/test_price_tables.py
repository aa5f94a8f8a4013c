from decimal import Decimal
from math import isnan
from pathlib import Path

import pytest

from gavelx.errors import InputFileError, OptionError, UserError
from gavelx.files.price_rows import PriceRow
from gavelx.files.price_tables import (
    Terms,
    check_discounts,
    clouds,
    load_all_prices,
    load_prices,
    load_quotes,
    price_rows,
    read_discounts,
)

HEADER = "accelerator,price_usd_per_hour,accelerator_count,cloud,region,price_kind,as_of\n"


def save(folder: Path, content: str) -> Path:
    path = folder / "mine.csv"
    path.write_text(content)
    return path


@pytest.mark.parametrize(
    ("cloud", "prices"),
    [
        ("gcp", {"v100": 2.85, "p100": 1.68, "k80": 0.52}),
        ("azure", {"v100": 3.06, "p100": 2.07, "k80": 0.9}),
        ("AWS", {"v100": 3.06, "k80": 0.9}),
    ],
)
def test_a_cloud(cloud: str, prices: dict[str, float]) -> None:
    assert load_prices(cloud, list(prices)).usd_per_hour == prices


def test_any_case_and_either_name_of_a_device() -> None:
    prices = load_prices("aws", ["V100", "V100-16GB", "v100-16gb-sxm"]).usd_per_hour
    assert prices == {"v100": 3.06, "v100-16gb": 3.06, "v100-16gb-sxm": 3.06}


def test_prices_of_an_earlier_date() -> None:
    assert load_prices("gcp", ["a100-80gb"], as_of="2023-09-21").usd_per_hour["a100-80gb"] == pytest.approx(5.0277)
    assert load_prices("gcp", ["k80"], as_of="2020-03").usd_per_hour == {"k80": 0.52}
    with pytest.raises(
        OptionError, match=r"no price of h100-80gb; 'gcp' has prices up to 2022-12-31 of .*a100-40gb"
    ):
        load_prices("gcp", ["h100-80gb"], as_of="2022-12-31")


@pytest.mark.parametrize("as_of", ["yesterday", "2023-13-01", "2023-1-1", "2023", ""])
def test_no_date(as_of: str) -> None:
    with pytest.raises(OptionError, match=r"--as-of: .* is no date; expected a date such as 2023-09-21"):
        load_prices("gcp", ["k80"], as_of=as_of)


def test_a_type_without_a_price() -> None:
    said = r"no price of p100, tpu9; 'aws' has prices of k80.*v100-16gb.*; clouds .*: p100 \(azure, gcp\)\."
    with pytest.raises(OptionError, match=said) as error:
        load_prices("aws", ["v100", "P100", "tpu9"])
    assert error.value.hint == '--prices "aws+p100=DOLLARS+tpu9=DOLLARS" with prices of yours'
    assert load_prices("aws", ["v100", "P100"], strict=False).usd_per_hour == {"v100": 3.06}


def test_every_missing_type_is_named_with_who_sells_it_on_the_same_terms() -> None:
    with pytest.raises(OptionError) as error:
        load_prices("gcp:us-east1", ["v100", "k80", "a100-40gb"])
    assert "no price of v100, k80; " in error.value.problem
    assert "clouds with a price: v100 (aws, azure, gcp), k80 (aws, azure, gcp)" in error.value.problem
    assert '"gcp:us-east1+v100=DOLLARS+k80=DOLLARS"' in error.value.hint
    with pytest.raises(OptionError) as error:
        load_quotes("aws", ["v100", "k80"], Terms(kind="spot"))
    assert "v100 (gcp), k80 (gcp)" in error.value.problem
    with pytest.raises(OptionError) as error:
        load_quotes("v100=1", ["v100", "mine"])
    assert "clouds" not in error.value.problem and error.value.hint.startswith('--prices "v100=1,mine=DOLLARS"')


def test_all_prices_of_a_table_are_there_under_each_name_of_a_device() -> None:
    prices = load_all_prices("aws+p100=2,mine=1.5")
    assert (prices.of("v100"), prices.of("v100-16gb"), prices.of("p100"), prices.of("mine")) == (
        3.06,
        3.06,
        2.0,
        1.5,
    )
    assert prices.of("h100-80gb") == load_prices("aws", ["h100-80gb"]).of("h100-80gb")
    assert isnan(prices.of("tpu9"))


def test_a_list() -> None:
    prices = load_prices("V100=1.6, p100=1.35,k80=0", ["v100", "p100", "K80"])
    assert prices.usd_per_hour == {"v100": 1.6, "p100": 1.35, "k80": 0.0}


@pytest.mark.parametrize(
    "part", ["v100", "=1", "v100=", "v100=x", "v100=-1", "v100=nan", "v100=inf", "v100=1e300", "", "a=1=2"]
)
def test_what_is_no_list(part: str) -> None:
    with pytest.raises(OptionError, match=r"--prices: cannot read .*expected TYPE=DOLLARS_PER_HOUR"):
        load_prices(f"k80=0.9,{part}", ["k80"])


def test_a_type_listed_twice() -> None:
    with pytest.raises(OptionError, match="'K80' is named twice"):
        load_prices("k80=0.9,K80=1", ["k80"])


def test_neither_cloud_nor_list_nor_file() -> None:
    with pytest.raises(
        OptionError, match=r"'gpc' is neither a cloud nor a list.*aws, azure, gcp.*--prices v100=1.6"
    ):
        load_prices("gpc", ["k80"])
    with pytest.raises(InputFileError, match=r"mine.csv: there is no such file"):
        load_prices("mine.csv", ["k80"])


def test_a_file_per_device_and_cheapest(tmp_path: Path) -> None:
    path = save(tmp_path, "accelerator,price_usd_per_hour,accelerator_count\nH100,80,8\nh100,9.5,1\nT4,0.5,\n")
    assert load_prices(path, ["H100", "t4"]).usd_per_hour == {"h100": 9.5, "t4": 0.5}


def test_the_rule_of_the_table(tmp_path: Path) -> None:
    rows = [
        "h100,1,1,,,on_demand,",  # no date: older than any date
        "h100,8,1,,,on_demand,2024-01-01",
        "h100,12,1,,,on_demand,2025-01",  # the latest, but not the cheapest of that date
        "h100,88,8,,,,2025-01",
        "h100,2,1,,,spot,2025-01",
        "h100,1,0.25,,,on_demand,2025-01",  # a fraction of a device
    ]
    path = save(tmp_path, HEADER + "\n".join(rows))
    assert load_prices(path, ["h100"]).usd_per_hour == {"h100": 11.0}
    assert load_prices(path, ["h100"], as_of="2024-12-31").usd_per_hour == {"h100": 8.0}
    assert load_prices(path, ["h100"], as_of="2020-01").usd_per_hour == {"h100": 1.0}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("h100,-1,1,,,,", "row 2, column price_usd_per_hour: '-1' cannot be used"),
        ("h100,1e300,1,,,,", "row 2, column price_usd_per_hour: '1e300' cannot be used"),
        ("h100,nan,1,,,,", "row 2, column price_usd_per_hour: 'nan' cannot be used"),
        ("h100,1,0,,,,", "row 2, column accelerator_count: '0' cannot be used"),
        ("h100,1,1e-320,,,,", "row 2, column accelerator_count: '1e-320' cannot be used"),
        (",1,1,,,,", "row 2, column accelerator: the cell is empty"),
        ("h100,1,1,,,,soon", "row 2, column as_of: 'soon' is no date"),
    ],
)
def test_mistakes_in_a_file(tmp_path: Path, row: str, said: str) -> None:
    with pytest.raises(InputFileError, match=said) as caught:
        load_prices(save(tmp_path, HEADER + row), ["h100"])
    assert "mine.csv" in str(caught.value)


def test_rows_to_show() -> None:
    assert {"aws", "azure", "gcp"} <= set(clouds())
    rows = price_rows("AWS", ["v100"], "on_demand")
    assert {row.accelerator for row in rows} == {"v100-16gb"}
    assert min(row.usd_per_hour for row in rows) == 3.06
    assert all(row.source and row.as_of for row in rows)
    with pytest.raises(OptionError, match=r"--cloud: 'gpc' is not in the table. Try: did you mean 'gcp'"):
        price_rows("gpc")
    with pytest.raises(OptionError, match=r"--kind: 'spto' is not in the table. Try: did you mean 'spot'"):
        price_rows(kind="spto")
    with pytest.raises(OptionError, match=r"--kind: the table has no spot prices of aws; expected on_demand$"):
        price_rows("aws", kind="spot")


@pytest.mark.parametrize("spec", ["", ".", "x" * 10_000, "a\0b", "k80=1\0", "k80=1," * 2000])
def test_texts_that_can_be_nothing(spec: str) -> None:
    with pytest.raises(UserError) as caught:
        load_prices(spec, ["k80"])
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            "h100,0,1,,,,2025-01",
            r"row 3: \$0 for h100; expected a price; catalogues write this for an unknown price",
        ),
        ("h100,700.0,1,,,,2025-01", r"row 3: \$700.0 for h100"),
        ("k80,0.5,1,,,,2025-01", r"row 3: two prices of k80: \$0.5 for 1 in row 3, \$0.9 for 1 in row 2"),
    ],
)
def test_prices_that_cannot_stand(tmp_path: Path, rows: str, said: str) -> None:
    path = save(tmp_path, HEADER + "k80,0.9,1,,,,2025-01\n" + rows)
    name = rows.partition(",")[0]
    with pytest.raises(InputFileError, match=said) as caught:
        load_prices(path, ["k80", name])
    assert "mine.csv" in str(caught.value)
    assert load_prices(f"{path}+{name}=2", [name]).usd_per_hour == {name: 2.0}
    assert load_prices(path, ["k80", "h100"], strict=False, as_of="2024-12").usd_per_hour == {}


def test_offers_that_agree_or_differ_in_something(tmp_path: Path) -> None:
    rows = "h100,9,1,,,,2025-01\nh100,9.0,1,,,,2025-01\nh100,8,1,sea,,,2025-01\nh100,80,8,,,,2025-01\n"
    assert load_prices(save(tmp_path, HEADER + rows), ["h100"]).usd_per_hour == {"h100": 8.0}


def test_two_names_of_one_device_are_one_type(tmp_path: Path) -> None:
    """The latest date counts whatever the name, and they cannot have two prices at one date."""
    rows = "v100,3.06,1,aws,,,2020-03-01\nV100-16GB,2.00,1,aws,,,2026-01-15\n"
    path = save(tmp_path, HEADER + rows)
    for name in ("v100", "v100-16gb"):
        assert load_prices(path, [name]).usd_per_hour == {name: 2.0}
    path = save(tmp_path, HEADER + rows.replace("2020-03-01", "2026-01-15"))
    with pytest.raises(InputFileError, match=r"row 3: two prices of aws v100-16gb"):
        load_prices(path, ["v100"])


def test_a_folder_or_file_named_like_a_cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gcp").mkdir()
    (tmp_path / "aws").write_text("no prices")
    assert load_prices("gcp", ["v100"]).usd_per_hour and load_prices("aws", ["v100"]).usd_per_hour


@pytest.mark.parametrize(
    ("family", "fits"),
    [
        ("aws", ["p3.2xlarge", "p3dn.24xlarge", "p33.large", ""]),
        ("aws:p3", ["p3.2xlarge"]),
        ("aws:p", ["p3.2xlarge", "p3dn.24xlarge", "p33.large"]),
        ("aws:p3.2xlarge", ["p3.2xlarge"]),
        ("gcp:p3", []),
    ],
)
def test_a_family_is_no_other_that_begins_alike(family: str, fits: list[str]) -> None:
    terms = Terms(discounts={family: Decimal("0.5")})
    names = ["p3.2xlarge", "p3dn.24xlarge", "p33.large", ""]
    rows = [PriceRow("aws", "v100", Decimal(4), instance_type=name) for name in names]
    assert [row.instance_type for row in rows if terms.usd(row) == 2] == fits


def test_discounts_are_of_something_that_is_sold(tmp_path: Path) -> None:
    path = str(save(tmp_path, HEADER + "v100,2,1,mine,,,\n"))
    check_discounts(read_discounts("mine=10%,aws:p3=5%"), [path, "aws"])
    for spec, tables in (("aws:p34=5%", ["aws"]), ("mine=1%", ["aws"]), ("aws=1%", ["v100=2"])):
        with pytest.raises(OptionError, match=r"--discount: .* is not in the table"):
            check_discounts(read_discounts(spec), tables)


@pytest.mark.parametrize("price", ["1e-400", "1e-7", "1e-99999999999999999999", "0e99999999999", "1e10"])
def test_prices_that_only_break_things(tmp_path: Path, price: str) -> None:
    path = save(tmp_path, HEADER + f"v100,{price},1,aws,,,\n")
    with pytest.raises(InputFileError, match=r"row 2, column price_usd_per_hour: .* cannot be used"):
        load_prices(path, ["v100"])
