"""Importing price lists: read every row, collect the bad ones, and turn the others into rows of our table."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gavelx.errors import InputFileError, OptionError, UserError, did_you_mean
from gavelx.files.csvs import Row
from gavelx.files.importers.reading import BadRow
from gavelx.files.importers.rows import with_header
from gavelx.files.jsons import read_pages
from gavelx.files.price_importers import aws, azure, gcp, skypilot
from gavelx.files.price_importers.offers import Given, Outcome
from gavelx.files.price_rows import REQUIRED, PriceRow, is_date, price_row
from gavelx.files.sold_regions import NOT_SOLD, is_sold
from gavelx.files.texts import shown

SHOWN = 5
"""The most bad rows in an error message."""
Item = tuple[int, Any]
"""The line number of an item, and the item or the error about it."""


@dataclass(frozen=True)
class Imported:
    """The rows of price lists, and an account of every row that was left out."""

    format: str
    rows: tuple[PriceRow, ...]
    read: int
    skipped: tuple[tuple[str, BadRow], ...]
    left_out: dict[str, int]


@dataclass(frozen=True)
class Format:
    """A family of files: how it is read row by row, and how a row becomes offers."""

    items: Callable[[Path, Given], tuple[Given, Iterator[Item]]]
    offers: Callable[[Any, Given], Outcome]
    last: Callable[[Sequence[PriceRow]], Sequence[PriceRow]] = tuple


def _csv(*required: str) -> Callable[[Path, Given], tuple[Given, Iterator[Item]]]:
    return lambda path, given: (given, with_header(path, required))


def _json(key: str) -> Callable[[Path, Given], tuple[Given, Iterator[Item]]]:
    return lambda path, given: (given, _elements(path, key))


def _yaml(path: Path, given: Given) -> tuple[Given, Iterator[Item]]:
    as_of, instances = gcp.read_instances(path)
    return replace(given, as_of=given.as_of or as_of), ((each.row, each) for each in instances)


def _own(row: Row, given: Given) -> Outcome:
    offer = price_row(row, given.rates)
    return [offer._replace(cloud=offer.cloud or given.cloud or "", as_of=offer.as_of or given.as_of or "")]


_READ = {
    "skypilot": Format(_csv(*skypilot.REQUIRED), skypilot.skypilot_offers),
    "aws-spot": Format(_json(aws.LIST), aws.spot_offers, aws.last_of_each_day),
    "azure": Format(_json(azure.LIST), azure.retail_offers),
    "gcp": Format(_yaml, gcp.instance_offers),
    "csv": Format(_csv(*REQUIRED), _own),
}
FORMATS = tuple(_READ)


def import_prices(
    format: str, paths: Sequence[str | Path], given: Given | None = None, *, skip_bad_rows: bool = False
) -> Imported:
    """The rows of price lists of one format.

    Bad rows are refused, or with ``skip_bad_rows`` left out and listed. Rows that do not belong in our table are
    not mistakes: they are counted in ``left_out``, by reason.

    Raises :class:`InputFileError` for bad rows (the first one, with notes on those that follow) and for files that
    leave no price; :class:`OptionError` for a format that is none, or for a missing cloud.
    """
    given = given or Given()
    if format not in _READ:
        hint = did_you_mean(format, FORMATS)
        raise OptionError(f"no format is called {shown(format)}", where="FORMAT", hint=hint)
    if given.as_of is not None and not is_date(given.as_of):
        raise OptionError(f"{given.as_of!r} is no date", where="--as-of", expected="a date such as 2023-09-21")
    rows: list[PriceRow] = []
    bad: list[tuple[Path, int, UserError]] = []
    left_out: Counter[str] = Counter()
    read = 0
    for path in map(Path, paths):
        of_file, items = _READ[format].items(path, given)
        for number, item in items:
            read += 1
            try:
                if isinstance(item, UserError):
                    raise item
                outcome = _READ[format].offers(item, of_file)
            except InputFileError as error:
                bad.append((path, number, error.with_traceback(None)))
                continue
            if isinstance(outcome, str):
                left_out[outcome] += 1
            else:
                sold = list(filter(is_sold, outcome))
                left_out[NOT_SOLD] += len(sold) < len(outcome)
                rows += sold
    left_out = +left_out
    if bad and not skip_bad_rows:
        raise _refusal(bad, read)
    if not rows:
        reasons = ", ".join(f"{reason}: {count:,}" for reason, count in left_out.most_common()) or "nothing in it"
        raise InputFileError(f"no price could be taken over ({reasons})", where=", ".join(map(str, paths))[:300])
    skipped = tuple((str(path), BadRow(number, _problem(path, number, error))) for path, number, error in bad)
    return Imported(format, tuple(_READ[format].last(rows)), read, skipped, dict(left_out.most_common()))


def _elements(path: Path, key: str) -> Iterator[Item]:
    """The elements of a list in a JSON document, of several after each other, or of a list of them."""
    for page in read_pages(path):
        yield from enumerate(page[key].elements(), start=1)


def _problem(path: Path, number: int, error: UserError) -> str:
    """The problem with a row, without file and line number."""
    return error.message().removeprefix(str(path)).removeprefix(f", row {number}").lstrip(",: ")


def _refusal(bad: Sequence[tuple[Path, int, UserError]], read: int) -> UserError:
    """The error about the first bad row; what follows is in its notes."""
    path, number, first = bad[0]
    refusal = InputFileError(_problem(path, number, first), where=f"{path}, row {number}")
    for other, at, error in bad[1:SHOWN]:
        refusal.add_note(f"{other}, {BadRow(at, _problem(other, at, error))}")
    more = f", {len(bad) - SHOWN:,} of them not shown" if len(bad) > SHOWN else ""
    refusal.add_note(f"{len(bad):,} of {read:,} rows cannot be used{more}; --skip-bad-rows leaves them out")
    return refusal
