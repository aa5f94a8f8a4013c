"""Files of measured speeds, and of speeds to estimate.

There are two kinds of rows, in one file or in several; a row with a ``job_type_a`` is of the second kind:

* one job type: ``job_type, accelerator`` and, if wanted, ``scale_factor`` (1) and ``consolidated`` (1 in one
  server, 0 spread over several; 1), with the speed in ``steps_per_second``;
* a pair that shares one device: ``job_type_a, job_type_b, accelerator`` with the speeds of both in
  ``steps_per_second_a`` and ``steps_per_second_b``.

A ``status`` is read as in throughput tables: 0 or ``not_runnable`` means that the job cannot run there; an empty
speed or ``absent`` that nothing was measured. The columns ``relative_error`` (of pairs also with ``_a`` and
``_b``), ``seconds, measured_at, source`` are those of :class:`~gavelx.measurements.Measurement`. Repeated rows are
repeated measurements. All other columns are ignored, and kept when wanted rows are written.
"""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gavelx.errors import InputFileError
from gavelx.files.csvs import Row, read_rows
from gavelx.files.limits import SCALE_FACTOR_MAX
from gavelx.files.throughput_tables import STATUSES
from gavelx.measurements import Estimate, Measurement, Way
from gavelx.throughputs import Pairing, Setting

BOUNDS = ("estimate", "lower", "upper", "origin")


class WantedRow(NamedTuple):
    """A row to estimate, with its ways to run by the suffix of their columns: ``""``, or ``_a`` and ``_b``."""

    cells: Mapping[str, str]
    ways: Mapping[str, Way]


def read_measurements(path: str | Path) -> list[Measurement]:
    """The measurements of a file. Raises :class:`InputFileError` that names file, row and column."""
    return [one for row in read_rows(path, ("accelerator",)) for one in _measurements(row)]


def read_wanted(path: str | Path) -> list[WantedRow]:
    """The rows of a file to estimate. Raises :class:`InputFileError`, also if the file has no row."""
    rows = [WantedRow(row.cells, _ways(row)) for row in read_rows(path, ("accelerator",))]
    if not rows:
        raise InputFileError("no row says what is wanted", where=str(path), expected="at least one row")
    return rows


def estimated_rows(
    wanted: Sequence[WantedRow], estimate_of: Mapping[Way, Estimate]
) -> list[dict[str, str | float | None]]:
    """The wanted rows with ``estimate, lower, upper, origin``, for pairs of both a and b; None if unknown."""
    return [
        {
            **row.cells,
            **{
                name + ending: None if isinstance(value, float) and math.isnan(value) else value
                for ending, way in row.ways.items()
                for name, value in zip(BOUNDS, estimate_of[way], strict=True)
            },
        }
        for row in wanted
    ]


def rows_as_csv(rows: Iterable[Mapping[str, str | float | None]]) -> str:
    """Rows as the text of a CSV file, with columns in the order in which rows name them; other cells are empty."""
    rows = list(rows)
    text = io.StringIO()
    columns = list(dict.fromkeys(column for row in rows for column in row))
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _measurements(row: Row) -> Iterator[Measurement]:
    for ending, way in _ways(row).items():
        column = "steps_per_second" + ending
        status = row.text("status", "ok" if row.has(column) else "absent", known=STATUSES)
        if status != "absent":
            yield Measurement(
                way,
                row.number(column, low=0) if status == "ok" else 0.0,
                row.number(
                    "relative_error" + ending, low=0, default=row.number("relative_error", low=0, default=0.0)
                ),
                row.number("seconds", low=0, default=0.0),
                row.text("measured_at", ""),
                row.text("source", ""),
            )


def _ways(row: Row) -> dict[str, Way]:
    accelerator = row.text("accelerator").lower()
    if row.has("job_type_a") or row.has("job_type_b"):
        if row.has("job_type"):
            expected = "one job type, or job_type_a and job_type_b"
            raise row.mistake("job_type", "the row names both a job type and a pair", expected=expected)
        row.whole("scale_factor", low=1, high=1, default=1)  # only jobs of one device share one
        a, b = row.text("job_type_a"), row.text("job_type_b")
        return {"_a": Pairing(a, b, accelerator), "_b": Pairing(b, a, accelerator)}
    if "job_type" not in row.cells and "job_type_a" not in row.cells:
        expected = "the column job_type, or job_type_a and job_type_b"
        raise row.mistake("", "the file has no column of job types", expected=expected)
    devices = row.whole("scale_factor", low=1, high=SCALE_FACTOR_MAX, default=1)
    together = row.whole("consolidated", low=0, high=1, default=1) == 1
    return {"": Setting(row.text("job_type"), accelerator, devices, together)}
