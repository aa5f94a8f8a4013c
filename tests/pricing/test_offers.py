"""What can be bought: the cheapest of each cloud and size, of the prices that count."""

from pathlib import Path

import pytest

from gavelx.errors import InputFileError, OptionError
from gavelx.files.price_tables import Terms, read_discounts
from gavelx.pricing.offers import Offer, load_offers

HEADER = "cloud,region,instance_type,accelerator,accelerator_count,price_usd_per_hour,price_kind,as_of\n"
TABLE = (
    HEADER
    + """sky,east,f.1,V100,1,3,on_demand,2020-03
sky,west,f.1,V100,1,2.8,on_demand,2020-03
sky,west,f.4,V100,4,11,on_demand,2020-03
sky,west,f.1,V100,1,1,on_demand,2019-01
sky,west,f.1,V100,1,0.9,spot,2020-03
sky,west,f.h,V100,0.5,0.1,on_demand,2020-03
sea,,n v2,v100-16gb,2,5,on_demand,
sky,west,k.1,K80,1,0.5,on_demand,2021-01
"""
)


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "prices.csv"
    path.write_text(TABLE)
    return str(path)


def rows(offers: tuple[Offer, ...]) -> list[tuple[str, str, int, float]]:
    return [(offer.accelerator, str(offer), offer.devices, offer.usd_per_hour) for offer in offers]


def test_the_cheapest_region_of_each_size_at_the_latest_date(table: str) -> None:
    assert rows(load_offers(table, ["v100", "k80"])) == [
        ("v100", "sky/f.1", 1, 2.8),
        ("v100", "sea/n_v2", 2, 5.0),
        ("v100", "sky/f.4", 4, 11.0),
        ("k80", "sky/k.1", 1, 0.5),
    ]


def test_as_of_an_earlier_date(table: str) -> None:
    offers = load_offers(table, ["v100", "k80"], Terms("2019-12"))
    assert rows(offers) == [("v100", "sky/f.1", 1, 1.0), ("v100", "sea/n_v2", 2, 5.0)]


def test_another_kind_of_price(table: str) -> None:
    assert rows(load_offers(table, ["v100", "k80"], Terms(kind="spot"))) == [("v100", "sky/f.1", 1, 0.9)]
    with pytest.raises(OptionError, match=r"sells none of v100, k80 at reserved prices; it has nothing"):
        load_offers(table, ["v100", "k80"], Terms(kind="reserved"))


def test_a_discount_comes_before_the_choice_of_the_cheapest(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(HEADER + "sky,,f.2,V100,2,6,on_demand,\nsky,,g.2,V100,2,5,on_demand,\n")
    discounts = read_discounts("sky:f=50%")
    assert rows(load_offers(str(path), ["v100"], Terms(discounts=discounts))) == [("v100", "sky/f.2", 2, 3.0)]
    assert rows(load_offers(str(path), ["v100"])) == [("v100", "sky/g.2", 2, 5.0)]


def test_several_sources_and_a_list_at_the_end(table: str) -> None:
    offers = load_offers(f"{table}, k80=0.3,v100=2", ["k80", "v100"])
    assert [offer.usd_per_hour for offer in offers] == [0.3, 0.5, 2.0, 2.8, 5.0, 11.0]


def test_a_price_beside_a_table_leaves_its_instances(table: str) -> None:
    sold = [("sky/f.1", 1, 2.8), ("sea/n_v2", 2, 5.0), ("sky/f.4", 4, 11.0)]
    offers = rows(load_offers(f"{table}+k80=0.7", ["v100", "k80"]))
    assert offers == [*(("v100", *offer) for offer in sold), ("k80", "1xk80", 1, 0.7)]


def test_clouds_of_the_shipped_table() -> None:
    offers = load_offers("aws,gcp,azure", ["v100", "p100", "k80"])
    assert {(offer.cloud, offer.accelerator) for offer in offers} >= {
        ("aws", "v100"),
        ("gcp", "p100"),
        ("azure", "k80"),
    }
    assert all(offer.usd_per_hour > 0 and offer.as_of for offer in offers)
    assert not any(offer.cloud == "aws" and offer.accelerator == "p100" for offer in offers)


@pytest.mark.parametrize(
    ("spec", "kind", "said"),
    [
        ("v100=0", OptionError, "costs nothing"),
        ("h100=2", OptionError, "sells none of v100; it has h100; clouds with a price: v100 (aws, "),
        ("v100=-1", OptionError, "cannot read"),
        ("v100=nan", OptionError, "cannot read"),
        ("", OptionError, "has an empty part"),
        ("aws,,gcp", OptionError, "has an empty part"),
        ("awz", OptionError, "neither a cloud"),
        ("no_such.csv", InputFileError, "no such file"),
    ],
)
def test_what_sells_nothing(spec: str, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as error:
        load_offers(spec, ["v100"])
    assert said in str(error.value)


@pytest.mark.parametrize("price", ["0", "-1", "nan", "inf", "", "free", "1e999"])
def test_bad_prices_in_a_file(tmp_path: Path, price: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(f"{HEADER}sky,west,f.1,V100,1,{price},on_demand,2020-03\n")
    with pytest.raises((OptionError, InputFileError)):
        load_offers(str(path), ["v100"])


def test_a_date_that_is_none() -> None:
    with pytest.raises(OptionError, match="--as-of"):
        load_offers("aws", ["v100"], Terms("yesterday"))


def test_regions_compete_under_one_name() -> None:
    gcp, iowa = load_offers("gcp", ["k80"]), load_offers("gcp:us-central1", ["k80"])
    assert {offer.region for offer in iowa} == {"us-central1"}
    assert load_offers("gcp:us-central1,gcp", ["k80"]) == gcp
