"""The speeds that a run needs and its table lacks, estimated from all that is measured.

Estimates are kept in memory, so that a second run of one process with the same table does not compute them again.
"""

from collections.abc import Sequence

from threadpoolctl import threadpool_limits

from gavelx.estimator.combined import Combined
from gavelx.estimator.missing_speeds import filled, missing_ways
from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.shipped_speeds import shipped_measurements
from gavelx.files.throughput_tables import TABLES
from gavelx.jobs import Job
from gavelx.measurements import Measurement, Way
from gavelx.throughputs import Setting, Throughputs

_cache: dict[object, Throughputs] = {}


def with_estimates(
    table: Throughputs, jobs: Sequence[Job], accelerators: Sequence[str], *, pairs: bool = False
) -> Throughputs:
    """The table with estimates of the speeds that these jobs need on these types and that it lacks.

    An accelerator type without a data sheet and without any speed stays unknown.
    """
    sheets = load_data_sheets()
    known = [name for name in accelerators if name in table.accelerators or sheets.has(name)]
    shipped = table.name in TABLES
    missing = missing_ways(jobs, known, table, only_new_types=shipped, pairs=pairs)
    if not missing:
        return table
    key = table.name, tuple(table.isolated.items()), tuple(table.colocated.items()), tuple(missing)
    if key not in _cache:
        of_pairs = any(not isinstance(way, Setting) for way in missing)
        estimator = Combined(sheets)
        estimator.observe(_observed(table, of_pairs=of_pairs))
        with threadpool_limits(1):  # matrices are small: threads would only wait for each other
            _cache[key] = filled(table, missing, estimator)
    return _cache[key]


def _observed(table: Throughputs, *, of_pairs: bool) -> list[Measurement]:
    """The table's own measured speeds, and those that gavelx ships; the table's own count where both have one."""
    own: dict[Way, float] = {**table.isolated, **(table.colocated if of_pairs else {})}
    own = {way: speed for way, speed in own.items() if way not in table.ranges}
    shipped = [one for one in shipped_measurements() if one.way not in own]
    return [*shipped, *(Measurement(way, speed) for way, speed in own.items())]
