"""Which regions of Google Cloud sell an instance type: ``prices/gcp_regions.csv``.

Lists of its prices have each part in each region, also where no machine with it is sold. A price of an instance
that is not sold there is no offer: tables are made and read without it. Types that the file lacks are left alone,
and so are rows of SkyPilot's catalogue, which lists what is sold.
"""

from functools import cache

from gavelx.files.csvs import read_rows
from gavelx.files.locate import data_path
from gavelx.files.price_rows import PriceRow

NOT_SOLD = "not sold in that region (prices/gcp_regions.csv)"
LISTS_WHAT_IS_SOLD = "skypilot-org/"


def is_sold(row: PriceRow) -> bool:
    """Whether an offer is of a region that sells its instance type, as far as is known."""
    if row.cloud != "gcp" or not row.region or row.source.startswith(LISTS_WHAT_IS_SOLD):
        return True
    name, sold = row.instance_type.lower(), _regions()
    regions = sold.get(name) or sold.get(name.rpartition("-")[0])
    return regions is None or row.region in regions


@cache
def _regions() -> dict[str, set[str]]:
    """The regions of each instance type, or of all sizes of one: ``g2-standard``."""
    found: dict[str, set[str]] = {}
    for row in read_rows(data_path("prices", "gcp_regions"), ("instance_type", "region")):
        found.setdefault(row.text("instance_type"), set()).add(row.text("region"))
    return found
