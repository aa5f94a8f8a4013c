"""Measured speeds with their provenance: a throughput table with more columns, and a second file of pairs.

``speeds.csv`` is a table as in `throughput_tables`, with these further columns:

================== ==========================================================================================
``relative_error`` the standard error of the speed, relative to it
``seconds``        how long steps were counted
``memory_mib``     at most, of all processes together
``utilization``    of the devices, 0 to 1
``measured_at``    when, in UTC: ``2026-07-01T12:00:00Z``
``source``         origin of the measurement
================== ==========================================================================================

Pairs that share a device are in ``speeds.pairs.csv``, as in the shipped ``colocated.csv``: ``job_type_a``,
``job_type_b``, ``accelerator``, ``steps_per_second_a``, ``steps_per_second_b`` and the same further columns, with
``relative_error_a`` and ``relative_error_b``.
"""

import csv
import io
import math
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gavelx.files.atomic import write_atomically
from gavelx.files.csvs import Row, read_rows
from gavelx.files.texts import exists
from gavelx.files.throughput_tables import (
    COLUMNS,
    PAIR_COLUMNS,
    TABLES,
    isolated_rows,
    pair_rows,
    pairs_path,
    setting_of,
    speed_of,
)
from gavelx.measurements import Estimate, Measurement, Way
from gavelx.throughputs import Pairing, Setting

MORE = ("seconds", "memory_mib", "utilization", "measured_at", "source")
Cells = dict[str, str]


class Profile(NamedTuple):
    """A measurement with the memory and utilization of the job; None if unknown."""

    measurement: Measurement
    memory_mib: float | None = None
    utilization: float | None = None


def read_profiles(name_or_path: str | Path) -> list[Profile]:
    """Every speed of a table, alone and in pairs, with its provenance.

    Raises the errors of :func:`gavelx.files.throughput_tables.load_throughputs`.
    """
    source = PUBLISHED.get(str(name_or_path), "")
    profiles = []
    for row in isolated_rows(name_or_path, COLUMNS[:3]):
        if (speed := speed_of(row)) is not None:
            profiles.append(_profile(row, setting_of(row), speed, "", source))
    for row in pair_rows(name_or_path):
        a, b, accelerator = row.text("job_type_a"), row.text("job_type_b"), row.text("accelerator").lower()
        for way, side in ((Pairing(a, b, accelerator), "_a"), (Pairing(b, a, accelerator), "_b"))[: 1 + (a != b)]:
            profiles.append(_profile(row, way, row.number("steps_per_second" + side, low=0), side, source))
    return profiles


def read_estimates(name_or_path: str | Path) -> dict[Way, Estimate]:
    """The estimates in a table: its columns ``estimate, lower, upper`` for jobs alone, or nothing."""
    found = dict[Way, Estimate]()
    for row in isolated_rows(name_or_path, COLUMNS[:3]):
        if row.has("estimate"):
            lower, middle, upper = (row.number(name, low=0) for name in ("lower", "estimate", "upper"))
            found[setting_of(row)] = Estimate(middle, lower, upper, "estimated")
        elif speed_of(row) is None:
            found[setting_of(row)] = Estimate(math.nan, math.nan, math.nan, "unknown")
    return found


PUBLISHED = dict.fromkeys(TABLES[:2], "stanford-futuredata/gavel, published 2022") | {
    TABLES[2]: "uw-mad-dash/shockwave, published 2022"
}
"""Sources of the shipped tables; throughputs/*.toml has the details."""


def _profile(row: Row, way: Way, speed: float, side: str, source: str) -> Profile:
    measurement = Measurement(
        way,
        speed,
        relative_error=row.number("relative_error" + side, low=0, default=0.0),
        seconds=row.number("seconds", low=0, default=0.0),
        measured_at=row.text("measured_at", ""),
        source=row.text("source", source),
    )
    return Profile(measurement, _maybe(row, "memory_mib"), _maybe(row, "utilization"))


def _maybe(row: Row, column: str) -> float | None:
    return row.number(column, low=0) if row.has(column) else None


def write_profiles(path: str | Path, profiles: Sequence[Profile]) -> None:
    """Add measurements to a table, or make one. A newer measurement replaces that of the same way to run.

    Other rows and unknown columns stay as they are. Of a pair, both members must be given. Raises
    :class:`InputFileError` for a file that is not a table, :class:`OptionError` if it cannot be written.
    """
    alone = [p for p in profiles if isinstance(p.measurement.way, Setting)]
    if alone:
        there = read_rows(path, COLUMNS) if exists(str(path)) else ()
        _write(path, {setting_of(row): row.cells for row in there}, {p.measurement.way: _cells(p) for p in alone})
    beside = {p.measurement.way: p for p in profiles if isinstance(p.measurement.way, Pairing)}
    if beside:
        there = pair_rows(path) if exists(str(pairs_path(path))) else ()
        before = {_of_two(*(row.text(name) for name in PAIR_COLUMNS[:3])): row.cells for row in there}
        new = dict[Hashable, Cells]()
        for (job_type, partner, accelerator), profile in beside.items():
            other = beside[Pairing(partner, job_type, accelerator)]
            new.setdefault(_of_two(job_type, partner, accelerator), _pair_cells(profile, other))
        _write(pairs_path(path), before, new)


def _of_two(a: str, b: str, accelerator: str) -> Hashable:
    """A key of the pair that does not depend on the order of its members."""
    return frozenset((a, b)), accelerator.lower()


def _write(path: str | Path, before: Mapping[Hashable, Cells], new: Mapping[Hashable, Cells]) -> None:
    """Write the existing rows, then the new ones; columns keep their order."""
    rows = {**before, **{key: before.get(key, {}) | cells for key, cells in new.items()}}
    header = dict.fromkeys(name for row in (*before.values(), *new.values()) for name in row)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(header), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows.values())
    write_atomically(path, text.getvalue())


def _cells(profile: Profile) -> Cells:
    way = profile.measurement.way
    assert isinstance(way, Setting)
    speed = profile.measurement.steps_per_second
    return {
        "job_type": way.job_type,
        "scale_factor": str(way.scale_factor),
        "accelerator": way.accelerator,
        "consolidated": str(int(way.consolidated)),
        "steps_per_second": f"{speed:.6g}",
        "status": "ok" if speed > 0 else "not_runnable",
        "relative_error": f"{profile.measurement.relative_error:.3g}",
    } | _more(profile)


def _pair_cells(a: Profile, b: Profile) -> Cells:
    way = a.measurement.way
    assert isinstance(way, Pairing)
    speeds = a.measurement.steps_per_second, b.measurement.steps_per_second
    return {
        "job_type_a": way.job_type,
        "scale_factor": "1",
        "job_type_b": way.partner,
        "accelerator": way.accelerator,
        "steps_per_second_a": f"{speeds[0]:.6g}",
        "steps_per_second_b": f"{speeds[1]:.6g}",
        "status": "ok" if all(speeds) else "not_runnable",
        "relative_error_a": f"{a.measurement.relative_error:.3g}",
        "relative_error_b": f"{b.measurement.relative_error:.3g}",
    } | _more(a)


def _more(profile: Profile) -> Cells:
    measurement = profile.measurement
    memory_mib, utilization = profile.memory_mib, profile.utilization
    texts = (
        f"{measurement.seconds:.4g}",
        "" if memory_mib is None else f"{memory_mib:.0f}",
        "" if utilization is None else f"{utilization:.3f}",
        measurement.measured_at,
        measurement.source,
    )
    return dict(zip(MORE, texts, strict=True))
