"""AWS: the output of ``aws ec2 describe-spot-price-history``.

An element of ``SpotPriceHistory`` has ``InstanceType, AvailabilityZone, ProductDescription, SpotPrice`` (a text,
in US dollars) and ``Timestamp``. Only Linux is taken. Dates are days; of several prices of an instance type in a
zone on one day the table has the last one. The prices in between are for ``simulate --spot-history``, which reads
such files itself.
"""

from collections.abc import Iterable

from gavelx.files.jsons import Node
from gavelx.files.price_importers.offers import Given, Outcome, amount, inside, nothing_inside
from gavelx.files.price_rows import PriceRow, is_date

LIST = "SpotPriceHistory"
NOT_LINUX = "not Linux"
LINUX = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")


def spot_offers(node: Node, given: Given) -> Outcome:
    """The offer of one element."""
    if node["ProductDescription"].text() not in LINUX:
        return NOT_LINUX
    instance_type, zone = node["InstanceType"].text(), node["AvailabilityZone"].text()
    if (held := inside("aws", instance_type)) is None:
        return nothing_inside("aws", instance_type)
    time = node["Timestamp"].text()
    if not is_date(time[:10]):
        raise node["Timestamp"].mistake(f"{time[:40]!r} is no time", expected="2024-03-01T10:00:00+00:00")
    if (usd := amount(node["SpotPrice"].text())) is None:
        text = node["SpotPrice"].text()[:40]
        raise node["SpotPrice"].mistake(f"{text!r} cannot be used", expected="a finite number, 0 or more")
    return [
        PriceRow(
            cloud="aws",
            region=region_of(zone),
            zone=zone,
            instance_type=instance_type,
            accelerator=held.accelerator,
            devices=held.devices,
            usd=usd,
            kind="spot",
            as_of=time[:10],
            precision="day",
            source=f"describe-spot-price-history {time}",
        )
    ]


def region_of(zone: str) -> str:
    """The region of an availability zone: ``us-east-1`` of ``us-east-1a``."""
    return zone.rstrip("abcdefghijklmnopqrstuvwxyz") or zone


def last_of_each_day(rows: Iterable[PriceRow]) -> list[PriceRow]:
    """The last price of each day, instance type and zone; its source names the time."""
    last: dict[tuple[str, ...], PriceRow] = {}
    for row in rows:
        key = (row.cloud, row.zone, row.instance_type, row.as_of)
        if key not in last or row.source >= last[key].source:
            last[key] = row
    return list(last.values())
