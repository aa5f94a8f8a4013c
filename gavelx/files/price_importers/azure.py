"""Azure: answers of the retail prices API (``https://prices.azure.com/api/retail/prices``), one page or more.

An element of ``Items`` has ``armSkuName, armRegionName, skuName, productName, type, retailPrice, unitOfMeasure``,
and ``currencyCode, effectiveStartDate, reservationTerm``. ``Consumption`` is on demand, or spot where the name of
the SKU says so; a ``Reservation`` of one year is a price for all of its 8,760 hours. Windows, low priority and
dev/test prices are left out, reservations of other terms, and units other than ``1 Hour``. A date is when the
price came into force, which may be years before the answer; so the user may give the date of the answer instead.
"""

from decimal import Decimal

from gavelx.errors import UserError
from gavelx.files.jsons import Node
from gavelx.files.price_importers.offers import Given, Outcome, inside, nothing_inside
from gavelx.files.price_rows import USD, PriceRow, in_usd, is_date, precision_of

LIST = "Items"
HOURS_A_YEAR = 8760
WINDOWS, LOW, OTHER_TYPE, OTHER_TERM = "Windows", "low priority", "neither on demand nor reserved", "another term"
UNIT, OTHER_UNIT = "1 Hour", "not by the hour"


def retail_offers(node: Node, given: Given) -> Outcome:
    """The offer of one item."""
    name, sku = node["armSkuName"].text(""), node["skuName"].text("")
    if (held := inside("azure", name)) is None:
        return nothing_inside("azure", name)
    kind = _kind(node, sku)
    if kind not in ("on_demand", "spot", "reserved"):
        return kind
    price = Decimal(repr(node["retailPrice"].number(low=0)))
    try:
        usd = in_usd(price, node["currencyCode"].text() if "currencyCode" in node else USD, given.rates)
    except UserError as error:
        raise node.mistake(error.problem, expected=error.expected, hint=error.hint) from None
    since = node["effectiveStartDate"].text()[:10] if "effectiveStartDate" in node else ""
    if since and not is_date(since):
        raise node["effectiveStartDate"].mistake(f"{since!r} is no date", expected="2023-09-21T00:00:00Z")
    as_of = given.as_of or since
    return [
        PriceRow(
            cloud="azure",
            region=node["armRegionName"].text(""),
            instance_type=name.removeprefix("Standard_").replace("_", " "),
            accelerator=held.accelerator,
            devices=held.devices,
            usd=usd / HOURS_A_YEAR if kind == "reserved" else usd,
            kind=kind,
            as_of=as_of,
            precision=precision_of(as_of),
            source="prices.azure.com",
        )
    ]


def _kind(node: Node, sku: str) -> str:
    """The kind of a price, or why it is left out."""
    if "windows" in node["productName"].text("").lower():
        return WINDOWS
    if "low priority" in sku.lower():
        return LOW
    if "unitOfMeasure" in node and node["unitOfMeasure"].text() != UNIT:
        return OTHER_UNIT
    type_ = node["type"].text()
    if type_ == "Reservation":
        return "reserved" if node["reservationTerm"].text("") == "1 Year" else OTHER_TERM
    if type_ != "Consumption":
        return OTHER_TYPE
    return "spot" if "spot" in sku.lower() else "on_demand"
