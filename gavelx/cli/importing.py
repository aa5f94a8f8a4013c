"""``gavelx trace import``: convert a trace of another system to our CSV, and account for every row."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from gavelx.cli.output import stderr
from gavelx.cli.traces import hand_out
from gavelx.errors import OptionError
from gavelx.estimator import GangSpeeds, make_estimator
from gavelx.files.atomic import ensure_writable
from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.importers import Ending, Imported, import_trace
from gavelx.files.importers.reading import Watch
from gavelx.files.throughput_tables import load_throughputs, pairs_path
from gavelx.files.throughput_writing import write_throughputs

LISTED = 100
"""The number of left-out rows that are listed; --json has all."""

CHANGES = {
    "job_types_named": "of a model that the table has",
    "job_types_closest": "with the closest model of the table as job type",
    "job_types_drawn": "with a drawn job type",
    "gpus_rounded_up": "with more devices than recorded, for less time (same device-time)",
    "gpus_cut": "with fewer devices than recorded, for more time (same device-time; see --table-out)",
    "gpus_fractional": "with a part of a device, which hold a whole one for the same time",
    "gangs_joined": "that are all components of a heterogeneous job, with their devices together",
    "run_again": "that are a further run of a job that was requeued",
    "gpus_estimated": "with a number of devices that the table does not know, at an estimated speed",
    "starts_left_out": "whose recorded start comes before their submission, and is not kept",
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
    keep: str = "cancelled"
    table_out: str | None = None


def run_import(file: str, typed: ImportOptions, out: str | None, as_json: bool) -> None:
    """Read a trace and write it as our CSV; the account of its rows goes to stderr, or into the JSON."""
    for path in (out, typed.table_out):
        if path is not None:
            ensure_writable(path, file, typed.table)
    if out is not None and typed.table_out is not None:
        written = {Path(typed.table_out).absolute(), pairs_path(typed.table_out).absolute()}
        if Path(out).absolute() in written:
            raise OptionError("is also --out", where="--table-out", expected="another file")
    throughputs = load_throughputs(typed.table)
    estimated = typed.table_out is not None
    speeds = GangSpeeds(throughputs, make_estimator(data_sheets=load_data_sheets())) if estimated else None
    with _rows_read() as watch:
        imported = import_trace(
            file,
            throughputs,
            format=typed.format,
            reference=typed.reference,
            seed=typed.seed,
            keep=typed.keep,
            skip_bad_rows=typed.skip_bad_rows,
            estimate=speeds,
            watch=watch,
        )
    if speeds is not None and typed.table_out is not None:
        write_throughputs(typed.table_out, speeds.table(imported.estimated))
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
        "keep": typed.keep,
        "endings": {
            ending: {
                "jobs": ended.jobs,
                "device_hours": ended.device_s / 3600,
                "share_of_device_hours": imported.device_share(ending),
                "kept": ended.kept,
            }
            for ending, ended in imported.endings.items()
        },
        "changes": imported.changes,
        "estimated": [{"job_type": job_type, "scale_factor": n} for job_type, n in imported.estimated],
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
        yield f"left out, {reason}: {count:,}{_held(imported, reason)}"
    for ending, ended in imported.endings.items():
        if ended.kept and ending != Ending.COMPLETED:
            yield f"kept, {ending}: {ended.jobs:,}{_held(imported, ending)}"
    for name, count in imported.changes.items():
        yield f"jobs {CHANGES[name]}: {count:,}"


def _held(imported: Imported, reason: str) -> str:
    """The share of all device-time of the jobs with an ending; nothing for another reason."""
    ending = next((ending for ending in imported.endings if ending == reason), None)
    if ending is None or (share := imported.device_share(ending)) is None:
        return ""
    held = f"{100 * share:.1f} % of device-time"
    return f" ({held})" if imported.endings[ending].kept else f" ({held}; --keep {ending} keeps them)"


@contextmanager
def _rows_read() -> Iterator[Watch]:
    """Show the number of rows read; yield the function that updates it."""
    console = stderr()
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} rows"), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task("rows", total=None)
    with progress if console.is_terminal else nullcontext():
        yield lambda rows: progress.update(task, completed=rows)
