"""``gavelx trace import``: convert a trace of another system to our CSV, and account for every row."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from gavelx.cli.output import stderr
from gavelx.cli.traces import hand_out
from gavelx.files.atomic import ensure_writable
from gavelx.files.importers import Imported, import_trace
from gavelx.files.importers.reading import Watch
from gavelx.files.throughput_tables import load_throughputs

LISTED = 100
"""The number of left-out rows that are listed; --json has all."""

CHANGES = {
    "job_types_named": "of a model that the table has",
    "job_types_closest": "with the closest model of the table as job type",
    "job_types_drawn": "with a drawn job type",
    "gpus_rounded_up": "with more devices than recorded, for less time (same device-time)",
    "gpus_cut": "with fewer devices than recorded, for more time (same device-time)",
    "runs_nowhere": "that run on no accelerator of the table (simulate --skip-unrunnable leaves them out)",
}


@dataclass(frozen=True)
class ImportOptions:
    """The options of ``trace import``, as typed."""

    format: str = "auto"
    skip_bad_rows: bool = False
    table: str = "simulation"
    reference: str = "v100"
    seed: int = 0


def run_import(file: str, typed: ImportOptions, out: str | None, as_json: bool) -> None:
    """Read a trace and write it as our CSV; the account of its rows goes to stderr, or into the JSON."""
    if out is not None:
        ensure_writable(out, file, typed.table)
    throughputs = load_throughputs(typed.table)
    with _rows_read() as watch:
        imported = import_trace(
            file,
            throughputs,
            format=typed.format,
            reference=typed.reference,
            seed=typed.seed,
            skip_bad_rows=typed.skip_bad_rows,
            watch=watch,
        )
    for line in _account(imported):
        stderr().print(line, markup=False, soft_wrap=True)
    hand_out(imported.jobs, out, as_json, more=_as_json(imported, typed))


def _as_json(imported: Imported, typed: ImportOptions) -> dict[str, Any]:
    return {
        "format": imported.format,
        "table": typed.table,
        "reference": typed.reference.lower(),
        "seed": typed.seed,
        "rows": imported.rows,
        "skipped": [bad._asdict() for bad in imported.skipped],
        "left_out": imported.left_out,
        "changes": imported.changes,
        "shifted_s": imported.shifted_s,
    }


def _account(imported: Imported) -> Iterator[str]:
    """The detected format, and a line for each kind of row that was changed or left out."""
    yield f"format: {imported.format}"
    for bad in imported.skipped[:LISTED]:
        yield f"skipped {bad}"
    if (more := len(imported.skipped) - LISTED) > 0:
        yield f"skipped, not shown here (--json lists all): {more:,}"
    for reason, count in imported.left_out.items():
        yield f"left out, {reason}: {count:,}"
    for name, count in imported.changes.items():
        yield f"jobs {CHANGES[name]}: {count:,}"


@contextmanager
def _rows_read() -> Iterator[Watch]:
    """Show the number of rows read; yield the function that updates it."""
    console = stderr()
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} rows"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("rows", total=None)
        yield lambda rows: progress.update(task, completed=rows)
