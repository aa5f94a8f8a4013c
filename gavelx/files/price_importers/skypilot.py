"""SkyPilot's catalogue: ``vms.csv`` of a cloud, with the columns ``InstanceType, AcceleratorName,
AcceleratorCount, Price`` and, if wanted, ``SpotPrice, Region, AvailabilityZone, vCPUs, MemoryGiB``.

It has neither cloud nor date: ``--cloud`` and ``--as-of`` say them. A row makes an offer on demand and one on
spot, where it has those prices. Rows without an instance type price bare devices, without the host that our table
includes; they are left out. A row names no memory size of ``V100`` and ``A100``: that stands for 16 and 40 GB.
"""

from decimal import Decimal

from gavelx.errors import OptionError
from gavelx.files.csvs import Row
from gavelx.files.price_importers.offers import NO_ACCELERATOR, NO_PRICE, Given, Outcome, edition
from gavelx.files.price_rows import PriceRow, precision_of

REQUIRED = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price")
SIZES = {"v100": "v100-16gb", "a100": "a100-40gb", "h100": "h100-80gb", "h200": "h200-141gb"}
BARE = "a device without its host"


def skypilot_offers(row: Row, given: Given) -> Outcome:
    """The offers of one row of the catalogue."""
    if not given.cloud:
        raise OptionError("the catalogue does not say whose prices it has", where="--cloud", hint="--cloud aws")
    if not row.has("AcceleratorName"):
        return NO_ACCELERATOR
    if not row.has("InstanceType"):
        return BARE
    name = row.text("AcceleratorName").lower()
    offers = []
    for kind, column in (("on_demand", "Price"), ("spot", "SpotPrice")):
        if row.has(column):
            row.number(column, low=0)
            offers.append(
                PriceRow(
                    cloud=given.cloud.lower(),
                    region=row.text("Region", ""),
                    zone=row.text("AvailabilityZone", ""),
                    instance_type=row.text("InstanceType"),
                    accelerator=SIZES.get(name, name),
                    devices=row.number("AcceleratorCount", above=0),
                    vcpus=row.number("vCPUs", low=0) if row.has("vCPUs") else None,
                    memory_gib=row.number("MemoryGiB", low=0) if row.has("MemoryGiB") else None,
                    usd=Decimal(row.text(column)),
                    kind=kind,
                    as_of=given.as_of or "",
                    precision=precision_of(given.as_of or ""),
                    source=edition("skypilot-org/skypilot-catalog", given.as_of),
                    row=row.line,
                )
            )
    return offers or NO_PRICE
