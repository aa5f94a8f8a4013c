"""The prices of a run, and how they change: options become tables of prices.

Every price in a simulation enters here: from ``--prices``, ``--price-changes`` or ``--spot-history``. And every
command that makes money of prices says here if some are old.
"""

from collections.abc import Mapping, Sequence
from datetime import date

from gavelx.cli.output import stderr
from gavelx.cli.run_options import RunOptions
from gavelx.cluster import Cluster
from gavelx.errors import OptionError
from gavelx.files.current_prices import is_old
from gavelx.files.price_changes import load_price_changes
from gavelx.files.price_tables import Terms, check_discounts, load_prices, read_discounts
from gavelx.files.spot_history import load_spot_history
from gavelx.prices import Prices

DEFAULT_PRICES = "gcp"
NEWER = "gavelx prices refresh makes a table of newer lists"
PriceChanges = tuple[tuple[float, Prices], ...]


def prices_of(typed: RunOptions, cluster: Cluster) -> tuple[Prices, PriceChanges]:
    """The prices at the start of a run, and each change with its time in seconds.

    With ``--prices`` or ``--spot-history``, every accelerator type of the cluster must have a price; both together
    buy on demand the types that the history lacks. Raises :class:`OptionError` or :class:`InputFileError`.
    """
    accelerators = cluster.accelerators
    spot = typed.spot_history
    strict = typed.prices is not None and spot is None
    prices = load_prices(DEFAULT_PRICES if typed.prices is None else typed.prices, accelerators, strict=strict)
    if spot is None:
        tell_of_places(prices.places, prices.name)
    if spot is None and typed.spot_availability is None and typed.spot_place is not None:
        raise OptionError(
            "there are no spot servers and no spot prices",
            where="--spot-place",
            expected="--spot-history or --spot-availability with it",
        )
    if spot is None:
        if typed.spot_start is not None:
            raise OptionError("there is no price history", where="--spot-start", expected="--spot-history with it")
        if typed.price_changes is None:
            return prices, ()
        return prices, load_price_changes(typed.price_changes, prices, accelerators)
    if typed.price_changes is not None:
        raise OptionError("both say how prices change", where="--spot-history and --price-changes", expected="one")
    recorded = load_spot_history(spot, prices, accelerators, place=typed.spot_place, start=typed.spot_start)
    if typed.prices is None and recorded.on_demand:
        hint = f"--prices {DEFAULT_PRICES}, which has their prices on demand; or another --spot-place"
        raise OptionError(f"no spot price of {', '.join(recorded.on_demand)}", where="--spot-history", hint=hint)
    unpriced = [name for name in recorded.on_demand if name not in recorded.prices.usd_per_hour]
    if typed.prices is not None and unpriced:
        load_prices(typed.prices, unpriced)  # says which price is missing
    return recorded.prices, recorded.changes


def terms_of(as_of: str | None, kind: str, discount: str | None, tables: Sequence[str]) -> Terms:
    """The terms that these options state for prices of ``tables``.

    Raises :class:`OptionError` for a bad option, and for one where there is no table to choose prices from.
    """
    terms = Terms(as_of, kind.lower().replace("-", "_"), read_discounts(discount))
    asked = {"--as-of": as_of, "--kind": terms.kind != "on_demand", "--discount": terms.discounts}
    if not tables and (typed := [option for option, value in asked.items() if value]):
        problem, expected = "there is no table to choose prices from", "one in --prices, such as aws"
        raise OptionError(problem, where=" and ".join(typed), expected=expected)
    check_discounts(terms.discounts, tables)
    return terms


def told_of_age(dates: Mapping[str, str], table: str, now: str | None = None) -> str:
    """The line about prices that are old today, or on another day, or have no date; empty if there are none.

    ``dates`` are those of prices from a table, by what they are prices of.
    """
    old: dict[str, list[str]] = {}
    for name, as_of in dates.items():
        if is_old(as_of, now or date.today().isoformat()):
            old.setdefault(as_of, []).append(name)
    undated = old.pop("", [])
    parts = [f"{', '.join(names)} of {as_of}" for as_of, names in sorted(old.items())]
    said = [f"prices more than a year old: {', '.join(parts)}"] * bool(parts)
    said += [f"prices without a date: {', '.join(undated)}"] * bool(undated)
    return f"{table}: {'; '.join([*said, NEWER])}" if said else ""


def tell_of_places(places: Mapping[str, str], table: str) -> None:
    """Print a line if prices of one table are of several regions."""
    if len(set(places.values())) > 1:
        parts = ", ".join(f"{name} in {place}" for name, place in places.items())
        line = f"{table}: no region sells all of these types; prices are of {parts}"
        stderr().print(line, markup=False, soft_wrap=True)


def tell_of_age(dates: Mapping[str, str], table: str, now: str | None = None) -> None:
    """Print that line, if there is one."""
    if told := told_of_age(dates, table, now):
        stderr().print(told, markup=False, soft_wrap=True)
