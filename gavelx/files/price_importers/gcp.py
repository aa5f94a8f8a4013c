"""Google Cloud: ``pricing.yml`` of Cyclenerd/google-cloud-pricing-cost-calculator, or the same as JSON.

    about: {timestamp: ...}
    compute: {instance: {a2-highgpu-1g: {cpu: 12, ram: 85, cost: {us-central1: {hour: 3.67, hour_spot: 1.29}}}}}

``hour`` is on demand, ``hour_spot`` spot, and ``month_1y`` a reservation of one year, divided by 730 hours. The
file has a time, which is the date of all its prices. A price of 0 says that there is none.

The file is the plain part of YAML: nested mappings by indentation, and texts after a bar, which are skipped. That
is read here in a few lines; whatever else YAML has is refused.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from gavelx.errors import InputFileError
from gavelx.files.price_importers.offers import (
    NO_PRICE,
    Given,
    Inside,
    Outcome,
    amount,
    edition,
    inside,
    nothing_inside,
)
from gavelx.files.price_rows import PriceRow, precision_of
from gavelx.files.texts import read_lines, shown

HOURS_A_MONTH = 730
KINDS = {"hour": ("on_demand", 1), "hour_spot": ("spot", 1), "month_1y": ("reserved", HOURS_A_MONTH)}
_LINE = re.compile(r"( *)([^\s:#'\"][^:#'\"]*|'[^']*'|\"[^\"]*\"):(?: +(.*?))?\s*")
Leaf = tuple[int, tuple[str, ...], str]
"""Row, path of keys and value."""


def read_leaves(path: Path) -> Iterator[Leaf]:
    """Every value of nested mappings, with the keys that lead to it. Raises :class:`InputFileError`."""
    above: list[tuple[int, str]] = []
    skipped_below: int | None = None
    for number, line in enumerate(read_lines(path), start=1):
        text = line.rstrip()
        indent = len(text) - len(text.lstrip(" "))
        if not text.strip() or text.lstrip().startswith("#") or text in ("---", "..."):
            continue
        if skipped_below is not None and indent > skipped_below:
            continue
        skipped_below = None
        if (match := _LINE.fullmatch(text)) is None:
            expected = "KEY: or KEY: VALUE"
            raise InputFileError(
                f"cannot read {shown(text.strip())}", where=f"{path}, row {number}", expected=expected
            )
        while above and above[-1][0] >= indent:
            above.pop()
        key, value = match[2].strip("'\""), (match[3] or "").strip("'\"")
        if value[:1] in ("|", ">"):
            skipped_below = indent
        elif value:
            yield number, (*(name for _, name in above), key), value
        above.append((indent, key))


class Instance(dict[str, str]):
    """One instance type in one region: its prices by name, and its row."""

    def __init__(self, name: str, region: str, row: int) -> None:
        super().__init__()
        self.name, self.region, self.row = name, region, row


def read_instances(path: Path) -> tuple[str, list[Instance]]:
    """The date of a file, and what it offers in each region. Raises :class:`InputFileError`."""
    as_of, found = "", dict[tuple[str, str], Instance]()
    sizes: dict[str, dict[str, str]] = {}
    for row, keys, value in read_leaves(path):
        match keys:
            case ("about", "timestamp"):
                as_of = _day(value, f"{path}, row {row}")
            case ("compute", "instance", name, "cost", region, key):
                found.setdefault((name, region), Instance(name, region, row))[key] = value
            case ("compute", "instance", name, ("cpu" | "ram") as key):
                sizes.setdefault(name, {})[key] = value
    if not found:
        expected = "compute: instance: NAME: cost: REGION: hour"
        raise InputFileError("no instance is priced in it", where=str(path), expected=expected)
    for instance in found.values():
        instance.update(sizes.get(instance.name, {}))
    return as_of, list(found.values())


def _day(text: str, where: str) -> str:
    try:
        return datetime.fromtimestamp(float(text), UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        raise InputFileError(f"{shown(text)} is no time", where=where, expected="seconds since 1970") from None


def instance_offers(instance: Instance, given: Given) -> Outcome:
    """The offers of one instance type in one region."""
    if (held := inside("gcp", instance.name)) is None:
        return nothing_inside("gcp", instance.name)
    offers = []
    for key, (kind, hours) in KINDS.items():
        if key not in instance:
            continue
        if (usd := amount(instance[key])) is None:
            problem = f"{key} of {instance.name} in {instance.region}: {shown(instance[key])} cannot be used"
            raise InputFileError(problem, expected="a finite number, 0 or more")
        if usd > 0:
            offers.append(_offer(instance, held, usd / hours, kind, given))
    return offers or NO_PRICE


def _offer(instance: Instance, held: Inside, usd: Decimal, kind: str, given: Given) -> PriceRow:
    sizes = [float(instance[key]) if amount(instance.get(key, "")) is not None else None for key in ("cpu", "ram")]
    return PriceRow(
        cloud="gcp",
        region=instance.region,
        instance_type=instance.name,
        accelerator=held.accelerator,
        devices=held.devices,
        vcpus=sizes[0],
        memory_gib=sizes[1],
        usd=usd,
        kind=kind,
        as_of=given.as_of or "",
        precision=precision_of(given.as_of or ""),
        source=edition("Cyclenerd/google-cloud-pricing-cost-calculator", given.as_of),
        row=instance.row,
    )
