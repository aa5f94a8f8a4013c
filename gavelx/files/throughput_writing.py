"""Writing of throughput tables, in the format of ``throughput_tables``.

The columns ``update_batch`` and ``noise_scale`` are written if the table has sizes of elastic jobs.
An estimated speed has its range in the further columns ``lower, upper`` and the ``origin`` ``estimated``.
Speeds of two jobs on one device go into the second file, ``speeds.pairs.csv`` beside ``speeds.csv``.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from gavelx.files.atomic import write_atomically
from gavelx.files.throughput_tables import PAIR_COLUMNS, pairs_path
from gavelx.throughputs import Pairing, Setting, Size, Throughputs

WRITTEN = (
    "job_type",
    "scale_factor",
    "accelerator",
    "consolidated",
    "steps_per_second",
    "lower",
    "upper",
    "origin",
)


def write_throughputs(path: str | Path, table: Throughputs) -> None:
    """Write a table that ``load_throughputs`` reads back, its pairs into a second file if it has any.

    Raises :class:`OptionError` if a file cannot be written.
    """
    if table.colocated:
        write_atomically(pairs_path(path), _csv(PAIR_COLUMNS, _pairs(table)))
    rows = [_row(table, setting) for setting in table.isolated]
    if not (table.sizes or table.noise_scale):
        write_atomically(path, _csv(WRITTEN, rows))
        return
    alone = ((*row, "", table.noise_scale.get(str(row[0]), "")) for row in rows)
    sized = (_sized_row(size, speed) for size, speed in table.sizes.items())
    write_atomically(path, _csv((*WRITTEN, "update_batch", "noise_scale"), [*alone, *sized]))


def _row(table: Throughputs, setting: Setting) -> tuple[object, ...]:
    lower, upper = table.ranges.get(setting, ("", ""))
    origin = "estimated" if setting in table.ranges else "measured"
    together = int(setting.consolidated)
    speed = repr(float(table.isolated[setting]))
    return setting.job_type, setting.scale_factor, setting.accelerator, together, speed, lower, upper, origin


def _sized_row(size: Size, speed: float) -> tuple[object, ...]:
    together = int(size.consolidated)
    own = size.job_type, size.devices, size.accelerator, together, repr(float(speed))
    return *own, "", "", "measured", size.batch, ""


def _pairs(table: Throughputs) -> Iterable[tuple[object, ...]]:
    """Each pair once, with the speeds of both."""
    for (a, b, accelerator), speed in table.colocated.items():
        beside = table.colocated[Pairing(b, a, accelerator)]
        if a <= b:
            yield a, b, accelerator, repr(float(speed)), repr(float(beside))


def _csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
