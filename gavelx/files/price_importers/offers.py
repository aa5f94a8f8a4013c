"""Common parts of the importers: facts that the user adds to a file, and the contents of instance types."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import NamedTuple

from gavelx.files.csvs import NUMBER, read_rows
from gavelx.files.locate import data_path
from gavelx.files.price_rows import PRICE_MAX, PriceRow

NO_ACCELERATOR = "no accelerator in it"
UNKNOWN = "its accelerators are not in prices/instances.csv"
NO_PRICE = "no price"
Outcome = Sequence[PriceRow] | str
"""The offers of one row of a price list, or the reason why it has none."""


@dataclass(frozen=True)
class Given:
    """Facts that a file may lack: the cloud, the date, and the rates of currencies."""

    cloud: str | None = None
    as_of: str | None = None
    rates: Mapping[str, Decimal] = field(default_factory=dict)


def edition(name: str, as_of: str | None) -> str:
    """The source of a whole list of one date, which replaces older editions of it (`gavelx.files.current_prices`).

    >>> edition("skypilot-org/skypilot-catalog", "2026-11-01")
    'skypilot-org/skypilot-catalog@2026-11-01'
    """
    return f"{name}@{as_of}" if as_of else name


class Inside(NamedTuple):
    """The accelerators in an instance."""

    accelerator: str
    devices: float


@cache
def _instances() -> dict[tuple[str, str], Inside]:
    columns = ("cloud", "instance_type", "accelerator", "accelerator_count")
    return {
        (row.text("cloud"), plain(row.text("instance_type"))): Inside(
            row.text("accelerator").lower(), row.number("accelerator_count", above=0)
        )
        for row in read_rows(data_path("prices", "instances"), columns)
    }


def inside(cloud: str, instance_type: str) -> Inside | None:
    """The accelerators of an instance type of a cloud; None without accelerators, or if the type is unknown."""
    return _instances().get((cloud, plain(instance_type)))


def nothing_inside(cloud: str, instance_type: str) -> str:
    """Why an instance type without known accelerators is left out; with its name where it seems to have some.

    It seems so where its name begins with the letters of instance types of this cloud that have some.

    >>> nothing_inside("aws", "m5.large"), nothing_inside("aws", "p7.48xlarge")
    ('no accelerator in it', 'its accelerators are not in prices/instances.csv: p7.48xlarge')
    """
    seems = _family(instance_type) in _families(cloud) and plain(instance_type) not in PLAIN_TYPES
    return f"{UNKNOWN}: {instance_type}" if seems else NO_ACCELERATOR


PLAIN_TYPES = {"g1-small"}
"""Instance types (of Google Cloud) that have no accelerator, and the letters of some that have."""


def _family(instance_type: str) -> str:
    return re.split("[^a-z]", plain(instance_type))[0]


@cache
def _families(cloud: str) -> set[str]:
    return {_family(name) for of, name in _instances() if of == cloud and "+" not in name}


def instance_types(cloud: str) -> list[str]:
    """The instance types of a cloud whose accelerators are known."""
    rows = read_rows(data_path("prices", "instances"), ("cloud", "instance_type"))
    return [row.text("instance_type") for row in rows if row.text("cloud") == cloud]


def plain(instance_type: str) -> str:
    """``Standard_NC6s_v3`` and ``NC6s v3`` are one instance type."""
    return instance_type.lower().removeprefix("standard_").replace("_", " ")


def amount(text: str) -> Decimal | None:
    """A price as a decimal, exactly as written; None for a text that cannot be a price."""
    return Decimal(text) if NUMBER.fullmatch(text) and 0 <= Decimal(text) <= PRICE_MAX else None
