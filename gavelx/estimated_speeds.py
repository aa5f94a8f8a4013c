"""The speeds that jobs need and a table lacks, estimated from all that is measured, for commands and the service.

Estimators are kept in memory, so that a second run of one process with the same table does not fit them again.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gavelx.errors import did_you_mean
from gavelx.estimator.missing_speeds import filled, missing_ways
from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.shipped_speeds import shipped_measurements
from gavelx.files.throughput_tables import TABLES
from gavelx.jobs import Job
from gavelx.measurements import Measurement
from gavelx.throughputs import Setting, Throughputs

if TYPE_CHECKING:
    from gavelx.estimator.combined import Combined

KEPT_MAX = 8
_tables: dict[object, Throughputs] = {}
_estimators: dict[object, "Combined"] = {}


def with_estimates(
    table: Throughputs, jobs: Sequence[Job], accelerators: Sequence[str], *, pairs: bool = False
) -> Throughputs:
    """The table with estimates of the speeds that these jobs need on these types and that it lacks.

    An accelerator type without a data sheet and without any speed stays unknown. Speeds that the table has on
    types that are not among these and have no data sheet are left out (:func:`nameless_types`).
    """
    sheets = load_data_sheets()
    known = [name for name in accelerators if name in table.accelerators or sheets.has(name)]
    shipped = table.name in TABLES
    missing = missing_ways(jobs, known, table, only_new_types=shipped, pairs=pairs)
    if not missing:
        return table
    nameless = nameless_types(table, accelerators)
    key = table.name, tuple(table.isolated.items()), tuple(table.colocated.items()), tuple(missing), nameless
    if key not in _tables:
        of_pairs = any(not isinstance(way, Setting) for way in missing)
        found = filled(table, missing, _estimator(table, nameless, of_pairs=of_pairs))
        _keep(_tables, key, found)
    return _tables[key]


def nameless_types(table: Throughputs, accelerators: Sequence[str]) -> tuple[str, ...]:
    """The types of a table that no data sheet knows and that are not among these."""
    sheets = load_data_sheets()
    return tuple(name for name in table.accelerators if name not in accelerators and not sheets.has(name))


def nearest_type(name: str) -> str:
    """What to try for a type that no data sheet knows: a near name, else an empty text."""
    sheets = load_data_sheets()
    return did_you_mean(name, [*sheets.by_name, *sheets.aliases], "throughputs/accelerators.csv")


def _estimator(table: Throughputs, nameless: Sequence[str], *, of_pairs: bool) -> "Combined":
    """What has observed the table's own measured speeds and those that gavelx ships."""
    tables = (table.isolated, table.colocated) if of_pairs else (table.isolated,)
    every = [entry for one in tables for entry in one.items()]
    own = {way: speed for way, speed in every if way not in table.ranges and way.accelerator not in nameless}
    key = tuple(own.items())
    if key not in _estimators:
        from gavelx.estimator.combined import Combined  # noqa: PLC0415  # slow to import, and only needed here

        # the table's own count where both have one
        shipped = [one for one in shipped_measurements() if one.way not in own]
        estimator = Combined(load_data_sheets())
        estimator.observe([*shipped, *(Measurement(way, speed) for way, speed in own.items())])
        _keep(_estimators, key, estimator)
    return _estimators[key]


def _keep(kept: dict[object, Any], key: object, value: object) -> None:
    if len(kept) >= KEPT_MAX:
        kept.clear()
    kept[key] = value
