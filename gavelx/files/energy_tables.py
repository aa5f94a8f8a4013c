"""Energy tables: power of devices, overhead of data centres, and carbon of grids."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from gavelx.errors import OptionError, did_you_mean
from gavelx.files.csvs import read_rows
from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.locate import data_path
from gavelx.files.texts import shown


class Grid(NamedTuple):
    """Grams of CO2 equivalent per kWh of a region's electricity, with the source."""

    g_co2_per_kwh: float
    source: str


def load_tdp_w(accelerators: Sequence[str]) -> dict[str, float]:
    """Thermal design power of one device of each type, in watts; types with an unknown power are left out."""
    sheets = load_data_sheets()
    tdp_w = {name.lower(): sheets.find(name).tdp_w for name in accelerators}
    return {name: watts for name, watts in tdp_w.items() if watts > 0}


def load_pue() -> Mapping[str, float]:
    """Power usage effectiveness by cloud: energy of the data centre over that of its computers."""
    rows = read_rows(data_path("carbon", "pue"), ("cloud", "pue"))
    return {row.text("cloud").lower(): row.number("pue", low=1.0) for row in rows}


def find_grid(cloud: str, region: str) -> Grid | None:
    """The grid of a cloud's region; of several sources the first in the table. None if unknown."""
    return _grids().get((cloud.lower(), _plain(region)))


def read_grid(spec: str) -> Grid:
    """Read ``gcp:us-central1``, ``grid:Germany`` or ``grid:DE`` (the average of a country) or grams per kWh.

    Raises :class:`OptionError` for a region that the table does not have.
    """
    cloud, colon, region = spec.partition(":")
    if not colon:
        try:
            grams = float(spec)
        except ValueError:
            grams = -1.0
        if not 0 <= grams < 1e5:
            expected = "CLOUD:REGION, grid:COUNTRY, or grams of CO2 per kWh"
            raise OptionError(
                f"cannot read {shown(spec)}", where="--carbon", expected=expected, hint="--carbon gcp:us-central1"
            )
        return Grid(grams, "as given")
    if (grid := find_grid(cloud, region)) is None:
        known = [f"{other}:{name}" for other, name in _grids() if other == cloud.lower()] or ["aws", "gcp", "grid"]
        hint = did_you_mean(f"{cloud.lower()}:{_plain(region)}", known)
        raise OptionError(f"nothing is known of the grid of {shown(spec)}", where="--carbon", hint=hint[:300])
    return grid


@cache
def _grids() -> dict[tuple[str, str], Grid]:
    grids: dict[tuple[str, str], Grid] = {}
    for row in read_rows(data_path("carbon", "carbon"), ("cloud", "region", "g_co2_per_kwh", "source")):
        grid = Grid(row.number("g_co2_per_kwh", low=0), row.text("source"))
        for column in ("region", "location") if row.text("cloud") == "grid" else ("region",):
            if row.has(column):
                grids.setdefault((row.text("cloud").lower(), _plain(row.text(column))), grid)
    return grids


def _plain(region: str) -> str:
    """Azure's ``East US`` and ``eastus`` are one region."""
    return region.lower().replace(" ", "")
