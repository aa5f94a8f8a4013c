"""Offers are of regions that sell the instance, and the prices of a cluster are of one region."""

from pathlib import Path

import pytest

from gavelx.files.price_importers import Given, import_prices
from gavelx.files.price_tables import Terms, load_quotes, places_of, price_rows, table_rows
from gavelx.files.sold_regions import is_sold

HEAD = "cloud,region,instance_type,accelerator,accelerator_count,price_usd_per_hour\n"
LISTED = [
    "gcp,northamerica-northeast1,a3-highgpu-8g,h100-80gb,8,9",
    "gcp,us-central1,a3-highgpu-8g,h100-80gb,8,88",
    "gcp,us-east1,a3-highgpu-8g,h100-80gb,8,80",
    "gcp,mars,z9-standard-8,h100-80gb,8,95",
]


def test_no_shipped_offer_is_of_a_region_that_does_not_sell_it() -> None:
    assert all(map(is_sold, price_rows("gcp")))
    regions = {row.region for row in price_rows("gcp") if row.instance_type.startswith("a2-ultragpu")}
    assert regions <= {"asia-southeast1", "europe-west4", "us-central1", "us-east4", "us-east5"}


@pytest.mark.parametrize("kind", ["on_demand", "spot"])
def test_the_cheapest_price_is_of_a_region_that_sells_it(kind: str) -> None:
    for name in ("h100-80gb", "a100-80gb", "a100-40gb", "l4"):
        row = load_quotes("gcp", [name], Terms(kind=kind))[name].row
        assert row is not None and is_sold(row)


def test_a_table_of_the_user_is_read_without_such_rows(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(HEAD + "\n".join(LISTED) + "\n")
    assert [row.region for row in table_rows(str(path))] == ["us-central1", "mars"]
    imported = import_prices("csv", [path], Given())
    assert [row.region for row in imported.rows] == ["us-central1", "mars"]
    assert imported.left_out == {"not sold in that region (prices/gcp_regions.csv)": 2}


def test_prices_of_a_cluster_are_of_one_region_that_sells_all() -> None:
    for names in (["a100-40gb", "h100-80gb", "a100-80gb"], ["v100", "p100", "k80"], ["l4", "h100-80gb"]):
        quotes = load_quotes("gcp", names)
        assert len(set(places_of(quotes).values())) == 1, names


def test_without_such_a_region_each_price_says_its_own() -> None:
    places = places_of(load_quotes("gcp", ["v100", "t4"]))
    assert places["t4"] == "gcp us-east1" and places["v100"] != places["t4"]


def test_a_cluster_in_one_region_takes_the_cheapest_for_all(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(
        "cloud,region,accelerator,price_usd_per_hour\nx,a,v100,1\nx,a,k80,5\nx,b,v100,2\nx,b,k80,2\nx,c,k80,1\n"
    )
    quotes = load_quotes(str(path), ["v100", "k80"])
    assert set(places_of(quotes).values()) == {"x b"}
    assert [float(quote.usd) for quote in quotes.values()] == [2.0, 2.0]


def test_the_eight_a100_of_oracle_cost_what_it_asks() -> None:
    (row,) = [row for row in price_rows("oci") if row.instance_type == "BM.GPU.A100-v2.8"]
    assert row.usd == 32
