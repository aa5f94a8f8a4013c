import csv

import pytest

from gavelx.errors import OptionError
from gavelx.files import locate
from gavelx.files.locate import KINDS, data_folder, data_path, names, provenance

SHIPPED = [(kind, name) for kind in KINDS for name in names(kind)]


@pytest.mark.parametrize(("kind", "name"), SHIPPED)
def test_every_table_says_where_it_came_from(kind: str, name: str) -> None:
    with data_path(kind, name).open(newline="", encoding="utf-8") as file:
        rows = sum(1 for _ in csv.reader(file)) - 1
    said = provenance(kind, name)
    assert said["rows"] == rows
    assert all(said[key] for key in ("title", "unit", "derivation", "sources"))
    for source in said["sources"]:
        assert all(source[key] for key in ("name", "version", "date", "licence"))


def test_every_provenance_has_its_table() -> None:
    for kind in KINDS:
        assert {path.stem for path in data_folder(kind).glob("*.toml")} == set(names(kind))


def test_what_is_shipped() -> None:
    assert names("throughputs") == ("accelerator_aliases", "accelerators", "colocated", "isolated", "modern")
    assert names("prices") == ("gcp_regions", "instances", "prices", "spot_history")
    assert names("carbon") == ("carbon", "pue")
    assert {name.split("_")[0] for name in names("traces")} == {"gavel", "shockwave"}


def test_prices_of_unusable_licence_are_not_shipped() -> None:
    assert "boavizta" not in data_path("prices", "prices").read_text(encoding="utf-8")


def test_every_price_has_a_source_of_its_provenance() -> None:
    said = provenance("prices", "prices")["sources"]
    named = {f"{one['name']}{mark}{one['version']}" for one in said for mark in "@-"} | {
        one["name"] for one in said
    }
    with data_path("prices", "prices").open(newline="", encoding="utf-8") as file:
        used = {row["source"] for row in csv.DictReader(file)}
    assert used <= named
    assert all(any(name.startswith(one["name"]) for name in used) for one in said)


def test_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"'isolatd' is not among the throughputs.*'isolated'"):
        data_path("throughputs", "isolatd")


def test_installed_data_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    package = tmp_path / "site-packages" / "gavelx"
    (package / "_data" / "traces").mkdir(parents=True)
    (package / "_data" / "traces" / "mine.csv").touch()
    (package.parent / "traces").mkdir()
    monkeypatch.setattr(locate, "_PACKAGE", package)
    assert names("traces") == ("mine",)
    assert data_path("traces", "mine") == package / "_data" / "traces" / "mine.csv"
