import pytest

from gavelx.errors import OptionError
from gavelx.files.energy_tables import find_grid, load_pue, load_tdp_w, read_grid
from gavelx.files.results import Usage, Use
from gavelx.pricing.energy import Draw, footprint_of

USAGE = Usage("mine", (Use(0, "", {"v100": 7200.0}), Use(1, "", {"k80": 3600.0})), {"v100": 3600.0, "k80": 0.0})
TDP_W = {"v100": 300.0, "k80": 150.0}


def test_power_times_time_times_pue() -> None:
    footprint = footprint_of(USAGE, TDP_W, {"v100": 400.0, "k80": 100.0}, pue=1.1, draw=Draw())
    assert footprint.kwh_by_accelerator == pytest.approx({"v100": 0.66, "k80": 0.165})
    assert footprint.kwh == pytest.approx(0.825)
    assert footprint.kg_co2 == pytest.approx(0.66 * 0.4 + 0.165 * 0.1)


def test_parts_of_the_power() -> None:
    half = footprint_of(USAGE, TDP_W, {}, pue=1.0, draw=Draw(busy=0.5, idle=0.1))
    assert half.kwh_by_accelerator == pytest.approx({"v100": 0.33, "k80": 0.075})


def test_what_is_not_known_is_not_0() -> None:
    footprint = footprint_of(USAGE, {"v100": 300.0}, {"v100": 400.0}, pue=1.0, draw=Draw())
    assert footprint.kwh is None and footprint.kg_co2 is None
    assert footprint.kwh_by_accelerator["v100"] == pytest.approx(0.6)
    unused = Usage("mine", (), {"v100": 0.0, "tpu-v5e": 5.0})
    assert footprint_of(unused, {}, {}, pue=1.0, draw=Draw()).kg_co2 == 0.0


def test_tables() -> None:
    assert load_tdp_w(["V100", "p100", "k80", "a100-80gb", "tpu-v5e", "mine"]) == {
        "v100": 300.0,
        "p100": 250.0,
        "k80": 150.0,  # a half of the board
        "a100-80gb": 400.0,
    }
    assert load_pue()["gcp"] == 1.1
    grid = find_grid("azure", "eastus")
    assert grid is not None and grid == find_grid("azure", "East US") and grid.g_co2_per_kwh == 415.755
    assert find_grid("aws", "mars-1") is None
    assert read_grid("120").g_co2_per_kwh == 120.0
    assert read_grid("grid:germany") == read_grid("grid:DE")


@pytest.mark.parametrize("spec", ["aws:mars-1", "lots", "-1", "nan", "", "grid:", "x" * 5000])
def test_no_grid(spec: str) -> None:
    with pytest.raises(OptionError, match="--carbon") as caught:
        read_grid(spec)
    assert len(str(caught.value)) < 600
