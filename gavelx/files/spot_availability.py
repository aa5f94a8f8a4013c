"""Spot availability: the part of the requested nodes that a cloud had over time.

A CSV with ``accelerator, nodes_requested, offset_s, duration_s, nodes_available`` and, optionally, ``cloud, zone,
accelerators_per_node, start_date, kind`` (which identify a series): from ``offset_s`` on, for ``duration_s``, this
number of the nodes was available. Before the first row all were; between two rows, the earlier row holds.

Of several series of a type, the one with the most nodes is used (its parts are the finest), then the longest, then
the first.
"""

from collections.abc import Sequence
from pathlib import Path

from gavelx.errors import InputFileError
from gavelx.files.csvs import Row, read_rows
from gavelx.files.data_sheets import meant_by
from gavelx.files.price_importers.aws import region_of
from gavelx.files.texts import shown

REQUIRED = ("accelerator", "nodes_requested", "offset_s", "duration_s", "nodes_available")
_APART = ("kind", "cloud", "zone", "accelerators_per_node", "nodes_requested", "start_date")
DURATION_S_MAX = 1e10

Shares = tuple[tuple[float, float], ...]
"""Seconds, and the part of the nodes that was available for that time."""


def load_availability(
    path: str | Path, accelerators: Sequence[str], *, place: str | None = None
) -> dict[str, Shares]:
    """For each accelerator type that the file has: seconds and the part of the nodes, in order of time.

    ``place`` is the cloud, region or zone. Raises :class:`InputFileError` for what is wrong in the file (more
    nodes than were asked for, times that overlap), for one that has none of the types, or never any node of one.
    """
    meant = meant_by(accelerators)
    series: dict[str, dict[tuple[str, ...], list[Row]]] = {}
    there: set[str] = set()
    for row in read_rows(path, REQUIRED):
        accelerator = row.text("accelerator").lower()
        there.add(accelerator)
        name = meant(accelerator)
        zone = row.text("zone", "").lower()
        places = (zone, region_of(zone), row.text("cloud", "").lower())
        if name and (place is None or place.lower() in places):
            key = tuple(row.text(column, "") for column in _APART)
            series.setdefault(name, {}).setdefault(key, []).append(row)
    if not series:
        within = f" in {shown(place)}" if place else ""
        problem = (
            f"has no node{within} with {', '.join(accelerators)}; it has {', '.join(sorted(there)) or 'nothing'}"
        )
        raise InputFileError(problem, where=str(path))
    return {name: _best([_shares(rows) for rows in found.values()], found, path) for name, found in series.items()}


def _best(shares: Sequence[Shares], found: dict[tuple[str, ...], list[Row]], path: str | Path) -> Shares:
    """The series with the most nodes, then the longest, that ever had a node."""
    nodes = [rows[0].whole("nodes_requested", low=1) for rows in found.values()]
    usable = [n for n, one in enumerate(shares) if any(share > 0 for _, share in one)]
    if not usable:
        accelerator = next(iter(found.values()))[0].text("accelerator")
        raise InputFileError(f"there is never a node with {accelerator}", where=str(path), expected="one at times")
    best = max(usable, key=lambda n: (nodes[n], sum(seconds for seconds, _ in shares[n]), -n))
    return shares[best]


def _shares(rows: Sequence[Row]) -> Shares:
    """One series in order of time, without gaps: all nodes before the first row, and then as in the row before."""
    shares: list[tuple[float, float]] = []
    until_s = 0.0
    for row in sorted(rows, key=lambda row: row.number("offset_s", low=0)):
        offset_s = row.number("offset_s", low=0, high=DURATION_S_MAX)
        if shares and offset_s < until_s:
            raise row.mistake("offset_s", f"{offset_s:g} s is before the end of the row above it ({until_s:g} s)")
        if offset_s > until_s:
            seconds, share = shares.pop() if shares else (0.0, 1.0)
            shares.append((seconds + offset_s - until_s, share))
        duration_s = row.number("duration_s", above=0, high=DURATION_S_MAX)
        requested = row.whole("nodes_requested", low=1)
        available = row.whole("nodes_available", low=0)
        if available > requested:
            problem = f"{available} nodes, and {requested} were asked for"
            raise row.mistake("nodes_available", problem, expected=f"{requested} at most")
        shares.append((duration_s, available / requested))
        until_s = offset_s + duration_s
    return tuple(shares)
