"""``gavelx throughputs show --type T``: measured, estimated and unknown speeds, with dates and intervals.

They come from a table, or from a scheduler, which also knows the speeds that its leases measured; ``export``
writes these into a table.
"""

import json as jsons
from collections.abc import Iterable, Sequence
from itertools import product
from math import isnan, nan
from typing import Any

from gavelx.cli.cluster_options import Address
from gavelx.cli.output import print_json, stdout
from gavelx.cli.tables import plain_table, policy_cell
from gavelx.errors import OptionError
from gavelx.estimator.job_names import JobNameError, read_job
from gavelx.estimator.steady_speed import interval
from gavelx.files.profiles import Profile, read_estimates, read_profiles, write_profiles
from gavelx.measurements import Estimate, Measurement, Way
from gavelx.spelling import meant, nearest
from gavelx.throughputs import Pairing, Setting

UNKNOWN = Estimate(nan, nan, nan, "unknown")
Json = dict[str, Any]


def show_type(table: str, text: str, scale_factor: int | None, as_json: bool) -> None:
    """Print the rows of a table for job types with this text in their names, and for pairs of such types.

    If there is no such pair, pairs with other types are shown.
    """
    measured = {profile.measurement.way: profile for profile in read_profiles(table)}
    guessed = read_estimates(table)
    types = list(dict.fromkeys(way.job_type for way in (*measured, *guessed)))
    named = meant(text, types)
    wanted = [name for name in types if text.lower() in name.lower() or name == named]
    ways = [way for way in _all_ways(wanted, [*measured, *guessed]) if _has_width(way, scale_factor)]
    if not ways:
        width = f" with scale factor {scale_factor}" if scale_factor else ""
        today = "gavelx docs your_gpus: jobs of this name are estimated where a cluster needs them"
        hint = today if _is_today(text) else nearest(text, types)
        raise OptionError(f"no row for {text!r}{width}", where="--type (--job-type)", hint=hint)
    rows = [_row(way, measured.get(way), guessed.get(way, UNKNOWN)) for way in ways]
    if as_json:
        print_json({"table": table, "rows": rows})
        return
    _print_rows(rows)
    stdout().print(_counted(rows), markup=False)


def _is_today(text: str) -> bool:
    try:
        return read_job(text) is not None
    except JobNameError:
        return True


def _all_ways(types: Sequence[str], known: Sequence[Way]) -> list[Way]:
    """The known ways of these types, and each type that is known anywhere alone on every accelerator type."""
    accelerators = dict.fromkeys(way.accelerator for way in known if isinstance(way, Setting))
    ways = [way for way in known if way.job_type in types]
    alone = [way for way in ways if isinstance(way, Setting)]
    gaps = (way._replace(accelerator=name) for way, name in product(alone, accelerators))
    pairs = [way for way in ways if isinstance(way, Pairing)]
    among = [way for way in pairs if way.partner in types]
    return list(dict.fromkeys([*sorted(gaps), *(among or pairs)]))


def _has_width(way: Way, scale_factor: int | None) -> bool:
    return scale_factor is None or (way.scale_factor if isinstance(way, Setting) else 1) == scale_factor


def _row(way: Way, profile: Profile | None, guess: Estimate) -> Json:
    """A row as JSON. A published speed without an error has no interval."""
    m = Measurement(way, nan) if profile is None else profile.measurement
    believed = guess
    if profile is not None:
        believed = Estimate(m.steps_per_second, *interval(m.steps_per_second, m.relative_error), "measured")
    known_error = believed.origin == "estimated" or m.relative_error > 0
    return way._asdict() | {
        "steps_per_second": _number(believed.steps_per_second),
        "lower": _number(believed.lower) if known_error else None,
        "upper": _number(believed.upper) if known_error else None,
        "origin": believed.origin,
        "seconds": m.seconds or None,
        "memory_mib": profile.memory_mib if profile else None,
        "utilization": profile.utilization if profile else None,
        "measured_at": m.measured_at or None,
        "source": m.source or None,
    }


def _number(value: float) -> float | None:
    return None if isnan(value) else value


def _print_rows(rows: Iterable[Json]) -> None:
    table = plain_table()
    table.add_column("job type", overflow="fold")
    for heading in ("on", "steps/s", "9 in 10 within", "known", "when, by"):
        table.add_column(heading, justify="right" if heading == "steps/s" else "left", overflow="fold")
    for row in rows:
        low, high = row["lower"], row["upper"]
        table.add_row(
            policy_cell(_what(row)),
            policy_cell(row["accelerator"]),
            _speed(row["steps_per_second"]),
            "" if low is None or high is None else f"{low:.4g} - {high:.4g}",
            row["origin"],
            policy_cell(", ".join(filter(None, (row["measured_at"], row["source"])))),
        )
    stdout().print(table)


def _what(row: Json) -> str:
    if "partner" in row:
        return f"{row['job_type']} beside {row['partner']}"
    devices = "" if row["scale_factor"] == 1 else f" x {row['scale_factor']}"
    return f"{row['job_type']}{devices}" + ("" if row["consolidated"] else ", spread")


def _speed(value: float | None) -> str:
    return "?" if value is None else f"{value:.4g}" if value else "cannot run"


def _counted(rows: Sequence[Json]) -> str:
    counts = {
        origin: sum(row["origin"] == origin for row in rows) for origin in ("measured", "estimated", "unknown")
    }
    return ", ".join(f"{count:,} {origin}" for origin, count in counts.items()) + ". Steps/s of the whole job."


# -- of a scheduler -------------------------------------------------------------------------------------------


def _ask(address: Address, text: str | None) -> Json:
    from gavelx.cli.clients import access_of, speeds_of  # noqa: PLC0415  (needs grpc)

    document: Json = jsons.loads(speeds_of(access_of(address), text or ""))
    return document


def show_measured(address: Address, text: str | None, as_json: bool) -> None:
    """Print the table of a scheduler, beside the speeds that its leases measured."""
    document = _ask(address, text)
    if as_json:
        print_json(document)
        return
    table = plain_table()
    table.add_column("job type", overflow="fold")
    table.add_column("on")
    for heading in ("table", "measured", "+-", "leases", "in use"):
        table.add_column(heading, justify="right")
    table.add_column("last", overflow="fold")
    for row in document["rows"]:
        m = row.get("measured")
        error = f"{interval(1.0, m['relative_error'])[1] - 1.0:.1%}" if m else ""
        seen = (_speed(m["steps_per_second"]), error, str(m["leases"])) if m else ("", "", "")
        cells = (_speed(row["table"]), *seen, _speed(row["in_use"]))
        table.add_row(
            policy_cell(_what(row)), policy_cell(row["accelerator"]), *cells, m["measured_at"] if m else ""
        )
    stdout().print(table)
    for note in _notes(document["rows"]):
        stdout().print(note, markup=False, soft_wrap=True)
    if not document["refine"]:
        stdout().print("This scheduler uses only its table (--no-refine).", style="dim")


def _notes(rows: Iterable[Json]) -> list[str]:
    """Warnings: wrong profiles, drift, and rejected leases."""
    notes = []
    for row in rows:
        m: Json = row.get("measured", {})
        name = f"{_what(row)} on {row['accelerator']}"
        if row["wrong"]:
            seen = f"{m['leases']} leases say {m['lower']:.4g} to {m['upper']:.4g}"
            notes.append(f"wrong profile: {name}: the table says {row['table']:.4g} steps/s, {seen}")
        if m.get("drifts"):
            notes.append(f"drift: {name}: another speed since {m['drifted_at']} (changed {m['drifts']} times)")
        if row.get("rejected"):
            notes.append(f"rejected: {name}: {row['rejected']} leases; the last one: {row['rejected_why']}")
    return notes


def export(address: Address, text: str | None, out: str, as_json: bool) -> None:
    """Write the speeds that leases measured into a table; a pair only if both of its jobs were measured."""
    seen = {_way(row): row["measured"] for row in _ask(address, text)["rows"] if "measured" in row}
    good = [
        way
        for way in seen
        if isinstance(way, Setting) or Pairing(way.partner, way.job_type, way.accelerator) in seen
    ]
    profiles = [
        Profile(
            Measurement(
                way,
                seen[way]["steps_per_second"],
                seen[way]["relative_error"],
                seen[way]["seconds"],
                seen[way]["measured_at"],
                f"{seen[way]['leases']} leases",
            )
        )
        for way in good
    ]
    write_profiles(out, profiles)
    if as_json:
        print_json({"out": out, "rows": len(profiles)})
    else:
        print(f"{len(profiles)} measured speeds are in {out}")


def _way(row: Json) -> Way:
    if "partner" in row:
        return Pairing(row["job_type"], row["partner"], row["accelerator"])
    return Setting(row["job_type"], row["accelerator"], row["scale_factor"], row["consolidated"])
