"""``gavelx throughputs estimate``: the wanted speeds, estimated from measured ones."""

import sys
from collections import Counter
from collections.abc import Sequence

from gavelx.cli.output import print_json, stderr
from gavelx.errors import OptionError
from gavelx.estimator import make_estimator
from gavelx.estimator.combined import Combined
from gavelx.files.atomic import ensure_writable, write_atomically
from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.measurement_tables import estimated_rows, read_measurements, read_wanted, rows_as_csv
from gavelx.files.shipped_speeds import shipped_measurements


def run_estimate(
    observed: Sequence[str], wanted: str, *, out: str | None, estimator: str, level: float, as_json: bool
) -> None:
    """Write the wanted rows with their estimates, to a file or to stdout."""
    if not 0.0 < level < 1.0:
        raise OptionError(f"{level:g} cannot be used", where="--level", expected="a share between 0 and 1")
    if out is not None:
        ensure_writable(out, *observed, wanted)
    believes = make_estimator(estimator, load_data_sheets())
    told = [one for path in observed for one in read_measurements(path)]
    if estimator == Combined.name:
        own = {one.way for one in told}
        told = [*(one for one in shipped_measurements() if one.way not in own), *told]
    believes.observe(told)
    asked = read_wanted(wanted)
    ways = list(dict.fromkeys(way for row in asked for way in row.ways.values()))
    estimate_of = dict(zip(ways, believes.estimate(ways, level), strict=True))
    rows = estimated_rows(asked, estimate_of)
    if out is not None:
        write_atomically(out, rows_as_csv(rows))
    elif not as_json:
        sys.stdout.write(rows_as_csv(rows))
    if as_json:
        print_json({"estimator": estimator, "level": level, "rows": rows})
    counts = Counter(estimate.origin for estimate in estimate_of.values())
    stderr().print(", ".join(f"{count} {origin}" for origin, count in counts.items()), style="dim")
