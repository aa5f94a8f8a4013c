from decimal import Decimal
from pathlib import Path

import pytest

from gavelx.errors import InputFileError, OptionError
from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.price_importers import FORMATS, Given, Imported, import_prices
from gavelx.files.price_importers.offers import inside, instance_types, nothing_inside
from gavelx.files.price_rows import price_csv
from gavelx.files.price_tables import load_prices
from tests.files.price_importers.price_samples import SAMPLES

GIVEN = Given("lambda", "2026-01-01", {"EUR": Decimal("1.08")})


def read(folder: Path, format: str, text: str | None = None, given: Given = GIVEN, **options: bool) -> Imported:
    path = folder / "list"
    path.write_text(SAMPLES[format] if text is None else text)
    return import_prices(format, [path], given, **options)


def offers(imported: Imported) -> set[tuple[str, str, float, float, str]]:
    return {(row.cloud, row.accelerator, row.devices, float(row.usd), row.kind) for row in imported.rows}


def test_skypilot(tmp_path: Path) -> None:
    imported = read(tmp_path, "skypilot")
    assert offers(imported) == {
        ("lambda", "v100-16gb", 8, 6.32, "on_demand"),
        ("lambda", "v100-16gb", 1, 3.06, "on_demand"),
        ("lambda", "v100-16gb", 1, 0.918, "spot"),
    }
    assert {row.as_of for row in imported.rows} == {"2026-01-01"}
    assert {row.source for row in imported.rows} == {"skypilot-org/skypilot-catalog@2026-01-01"}
    assert sum(imported.left_out.values()) == 2 and "a device without its host" in imported.left_out
    with pytest.raises(OptionError, match="--cloud: the catalogue does not say whose prices it has"):
        read(tmp_path, "skypilot", given=Given())


def test_aws_takes_the_last_price_of_a_day(tmp_path: Path) -> None:
    imported = read(tmp_path, "aws-spot")
    assert offers(imported) == {("aws", "v100-16gb", 4, 3.672, "spot")}
    (row,) = imported.rows
    assert (row.region, row.zone, row.as_of) == ("us-east-1", "us-east-1a", "2024-03-01")
    assert imported.left_out == {"not Linux": 1, "no accelerator in it": 1}


def test_azure(tmp_path: Path) -> None:
    imported = read(tmp_path, "azure")
    assert {(row.kind, round(float(row.usd), 6)) for row in imported.rows} == {
        ("on_demand", 3.06),
        ("spot", 0.612),
        ("reserved", round(17107 / 8760, 6)),
    }
    assert {(row.instance_type, row.accelerator, row.as_of) for row in imported.rows} == {
        ("NC6s v3", "v100-16gb", "2026-01-01")  # the date of the answer, as given
    }
    in_force = read(tmp_path, "azure", given=Given()).rows
    assert {row.as_of for row in in_force} == {"2023-09-01"}
    assert sum(imported.left_out.values()) == 5
    euro = SAMPLES["azure"].replace('"USD"', '"EUR"')
    assert read(tmp_path, "azure", euro).rows[0].usd == Decimal("3.06") * Decimal("1.08")
    with pytest.raises(
        InputFileError, match=r"the currency 'EUR' has no rate; expected USD. Try: .*--currency EUR"
    ):
        read(tmp_path, "azure", euro, Given())


def test_azure_by_the_hundred_hours(tmp_path: Path) -> None:
    imported = read(tmp_path, "azure", SAMPLES["azure"].replace("1 Hour", "100 Hours", 1))
    assert "on_demand" not in {row.kind for row in imported.rows} and imported.left_out["not by the hour"] == 1


def test_azure_pages_after_each_other(tmp_path: Path) -> None:
    assert read(tmp_path, "azure", SAMPLES["azure"] + "\n" + SAMPLES["azure"]).read == 16


def test_gcp(tmp_path: Path) -> None:
    imported = read(tmp_path, "gcp", given=Given())
    assert {(row.region, row.kind, round(float(row.usd), 4)) for row in imported.rows} == {
        ("asia-northeast1", "on_demand", 3.7901),
        ("asia-northeast1", "spot", 1.1020),
        ("asia-northeast1", "reserved", round(1743.0630772 / 730, 4)),
        ("us-central1", "on_demand", 3.6734),
    }
    row = imported.rows[0]
    assert (row.accelerator, row.as_of, row.vcpus, row.memory_gib) == ("a100-40gb", "2025-03-06", 12, 85)
    assert row.source.endswith("@2025-03-06")


def test_our_own_with_other_currencies(tmp_path: Path) -> None:
    imported = read(tmp_path, "csv")
    assert offers(imported) == {("mine", "v100", 1, 3.06, "on_demand"), ("mine", "h100", 8, 86.4, "on_demand")}


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_written_reads_back(tmp_path: Path, format: str) -> None:
    imported = read(tmp_path, format)
    again = read(tmp_path, "csv", price_csv(imported.rows), Given())
    assert [row._replace(row=0) for row in again.rows] == [row._replace(row=0) for row in imported.rows]
    name = imported.rows[0].accelerator
    spots = {row.kind for row in imported.rows} == {"spot"}
    assert load_prices(tmp_path / "list", [name], strict=False).usd_per_hour or spots


@pytest.mark.parametrize(
    ("format", "old", "new", "row", "said"),
    [
        ("skypilot", "3.06", "-1", 4, "column Price: '-1' cannot be used"),
        ("skypilot", "V100,1.0", "V100,none", 4, "column AcceleratorCount: 'none' cannot be used"),
        ("aws-spot", "3.672000", "NaN", 1, "SpotPrice: 'NaN' cannot be used"),
        ("aws-spot", "2024-03-01T12", "soon", 1, "Timestamp: 'soon.* is no time"),
        ("azure", "0.612", '"free"', 2, "retailPrice: 'free' cannot be used"),
        ("gcp", "3.673385", "-3", 21, "hour of a2-highgpu-1g in us-central1: '-3' cannot be used"),
        ("csv", "3.06", "nan", 2, "column price_usd_per_hour: 'nan' cannot be used"),
        ("csv", "EUR", "DM", 3, "column currency: the currency 'DM' has no rate"),
    ],
)
def test_bad_rows_by_number(  # noqa: PLR0917
    tmp_path: Path, format: str, old: str, new: str, row: int, said: str
) -> None:
    text = SAMPLES[format].replace(old, new, 1)
    with pytest.raises(InputFileError, match=rf"list, row {row}: .*{said}") as caught:
        read(tmp_path, format, text)
    assert any("--skip-bad-rows leaves them out" in note for note in caught.value.__notes__)
    imported = read(tmp_path, format, text, skip_bad_rows=True)
    assert [bad.row for _, bad in imported.skipped] == [row]
    assert len(imported.rows) < len(read(tmp_path, format).rows) or format == "aws-spot"


@pytest.mark.parametrize(
    ("format", "text", "said"),
    [
        ("gcp", "compute:\n  instance: [1]\n", "no instance is priced in it"),
        ("gcp", "compute\n", "row 1: cannot read 'compute'"),
        ("gcp", SAMPLES["gcp"].replace("1741233236", "soon"), "row 8: 'soon' is no time"),
        ("azure", "{}", "the key 'Items' is missing"),
        ("azure", '{"Items": []}', "no price could be taken over"),
        ("aws-spot", "[", "row 1: is no JSON"),
        ("skypilot", "a,b\n1,2\n", "the column 'InstanceType' is missing"),
        ("csv", "", "the file is empty"),
    ],
)
def test_files_of_another_kind(tmp_path: Path, format: str, text: str, said: str) -> None:
    with pytest.raises(InputFileError, match=said):
        read(tmp_path, format, text)


def test_options_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"FORMAT: no format is called 'azur'. Try: did you mean 'azure'"):
        import_prices("azur", [tmp_path])
    with pytest.raises(OptionError, match="--as-of: 'soon' is no date"):
        import_prices("gcp", [tmp_path], Given(as_of="soon"))


def test_pages_as_a_list(tmp_path: Path) -> None:
    page = SAMPLES["azure"]
    assert read(tmp_path, "azure", f"[{page}, {page}]").read == 16


def test_a_month_is_no_day(tmp_path: Path) -> None:
    imported = read(tmp_path, "skypilot", given=Given("lambda", "2026-01"))
    assert {row.precision for row in imported.rows} == {"month"}


def test_a_sixth_of_a_device(tmp_path: Path) -> None:
    """The smallest Azure instance with an A10 has a sixth of one: no price of a device."""
    text = SAMPLES["azure"].replace("Standard_NC6s_v3", "Standard_NV6ads_A10_v5")
    assert {row.devices for row in read(tmp_path, "azure", text).rows} == {0.166667}
    assert load_prices("azure", ["a10"], strict=False).usd_per_hour == {}


KNOWN = [
    *[("aws-spot", "p6-b300.48xlarge", "b300", 8), ("aws-spot", "p6e-gb200.36xlarge", "gb200", 4)],
    *[("aws-spot", "trn2.48xlarge", "trainium2", 16), ("aws-spot", "trn2u.48xlarge", "trainium2", 16)],
    *[("aws-spot", "g7e.12xlarge", "rtxpro6000", 2), ("aws-spot", "dl1.24xlarge", "gaudi1", 8)],
    *[("azure", "Standard_ND96isr_MI300X_v5", "mi300x", 8), ("azure", "Standard_ND128isr_GB300_v6", "gb300", 4)],
    *[("azure", "Standard_NC80adis_H100_v5", "h100-94gb", 2), ("azure", "Standard_NV36ads_A10_v5", "a10", 1)],
    *[("gcp", "a3-ultragpu-8g", "h200-141gb", 8), ("gcp", "a4-highgpu-8g", "b200", 8)],
    *[("gcp", "a4x-highgpu-4g", "gb200", 4), ("gcp", "ct6e-standard-8t", "tpu-v6e", 8)],
]
IN_SAMPLE = {"aws-spot": "p3.8xlarge", "azure": "Standard_NC6s_v3", "gcp": "a2-highgpu-1g"}


@pytest.mark.parametrize(("format", "name", "accelerator", "devices"), KNOWN)
def test_instance_types_of_today(tmp_path: Path, format: str, name: str, accelerator: str, devices: int) -> None:
    imported = read(tmp_path, format, SAMPLES[format].replace(IN_SAMPLE[format], name))
    assert {(row.accelerator, row.devices) for row in imported.rows} == {(accelerator, devices)}


@pytest.mark.parametrize(
    ("format", "name"),
    [
        *[("aws-spot", "p7-x.48xlarge"), ("aws-spot", "trn9.large"), ("azure", "Standard_ND256isr_X_v7")],
        *[("gcp", "a5-highgpu-8g"), ("gcp", "ct7-hightpu-4t")],
    ],
)
def test_accelerators_that_are_not_known_are_named(tmp_path: Path, format: str, name: str) -> None:
    """What is left out for want of knowledge can be told from machines without accelerators."""
    plain = {"aws-spot": "m5.large", "azure": "Standard_D4s_v5", "gcp": "e2-micro"}[format]
    text = SAMPLES[format].replace(plain, name)
    left_out = read(tmp_path, format, text).left_out
    assert left_out[f"its accelerators are not in prices/instances.csv: {name}"] == 1


@pytest.mark.parametrize(
    ("cloud", "name"),
    [
        ("aws", "m5.large"),
        ("azure", "Standard_D4s_v5"),
        ("gcp", "n2-standard-8"),
        ("gcp", "g1-small"),
        ("gcp", ""),
    ],
)
def test_machines_without_accelerators_are_counted(cloud: str, name: str) -> None:
    assert nothing_inside(cloud, name) == "no accelerator in it"


def test_accelerators_of_instances_have_data_sheets() -> None:
    sheets = load_data_sheets()
    held = [inside(cloud, name) for cloud in ("aws", "azure", "gcp") for name in instance_types(cloud)]
    assert len(held) > 200
    assert [each for each in held if each is None or not sheets.has(each.accelerator)] == []
