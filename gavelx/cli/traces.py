"""``gavelx trace generate`` and ``show``, and the output of a trace."""

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from gavelx.cli.drawing import drawn_jobs
from gavelx.cli.output import print_json, stdout
from gavelx.cli.tables import plain_table, policy_cell
from gavelx.files.atomic import ensure_writable
from gavelx.files.locate import data_path, names
from gavelx.files.throughput_tables import load_throughputs
from gavelx.files.traces import find_trace, read_trace, write_trace
from gavelx.jobs import Job
from gavelx.report.words import hours


def generate(
    jobs: int,
    *,
    job_types: str | None,
    arrival_rate: float,
    seed: int,
    multi_gpu: bool,
    multi_priority: bool,
    table: str,
    out: str | None,
    as_json: bool,
) -> None:
    """Make random jobs and write them as a trace."""
    made = drawn_jobs(
        jobs,
        job_types,
        load_throughputs(table),
        arrival_rate=arrival_rate,
        seed=seed,
        multi_gpu=multi_gpu,
        multi_priority=multi_priority,
    )
    hand_out(made, out, as_json)


def show(file: str | None, as_json: bool) -> None:
    """Print a summary of a trace; without one, the names of those that gavelx ships."""
    if file is None:
        _list_shipped(as_json)
        return
    summary = summarise(read_trace(find_trace(file)))
    if as_json:
        print_json(summary)
    else:
        _print_summary(summary)


def _list_shipped(as_json: bool) -> None:
    counts = {name: len(read_trace(data_path("traces", name))) for name in names("traces")}
    if as_json:
        print_json({"traces": [{"name": name, "jobs": count} for name, count in counts.items()]})
        return
    table = plain_table()
    table.add_column("trace", overflow="fold")
    table.add_column("jobs", justify="right")
    for name, count in counts.items():
        table.add_row(policy_cell(name), f"{count:,}")
    stdout().print(table)


def summarise(jobs: Sequence[Job]) -> dict[str, Any]:
    """The figures of a trace by name; None for figures that an empty trace does not have."""
    arrivals = [job.arrival_s for job in jobs]
    waits_s = [job.recorded_start_s - job.arrival_s for job in jobs if job.recorded_start_s is not None]
    return {
        "jobs": len(jobs),
        "first_arrival_s": min(arrivals, default=None),
        "last_arrival_s": max(arrivals, default=None),
        "total_steps": math.fsum(job.total_steps for job in jobs),
        "with_slo": sum(job.slo is not None for job in jobs),
        "owners": len({job.owner for job in jobs if job.owner}),
        "with_recorded_start": len(waits_s),
        "recorded_wait_mean_s": math.fsum(waits_s) / len(waits_s) if waits_s else None,
        "requested_accelerators": dict(Counter(filter(None, (job.requested_accelerator for job in jobs)))),
        "scale_factors": {str(n): count for n, count in sorted(Counter(job.scale_factor for job in jobs).items())},
        "weights": {f"{w:g}": count for w, count in sorted(Counter(job.weight for job in jobs).items())},
        "job_types": dict(Counter(job.job_type for job in jobs).most_common()),
    }


def hand_out(
    jobs: Sequence[Job], out: str | None, as_json: bool, more: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Write the trace to a file and its summary to stdout; without a file, print the trace (or JSON).

    ``more`` are further keys of the JSON.
    """
    if out is not None:
        ensure_writable(out)
        write_trace(out, jobs)
    elif not as_json:
        sys.stdout.write(_csv(jobs))
        return
    summary = summarise(jobs)
    if as_json:
        print_json(summary | dict(more))
    else:
        _print_summary(summary)


def _csv(jobs: Sequence[Job]) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder, "trace.csv")
        write_trace(path, jobs)
        return path.read_text(encoding="utf-8")


def _print_summary(summary: dict[str, Any]) -> None:
    table = plain_table(show_header=False)
    table.add_row("jobs", f"{summary['jobs']:,}")
    table.add_row("arrivals", f"{hours(summary['first_arrival_s'])} h to {hours(summary['last_arrival_s'])} h")
    table.add_row("total steps", f"{summary['total_steps']:,.0f}")
    for name in ("scale_factors", "weights", "job_types", "requested_accelerators"):
        if not summary[name]:
            continue
        counts = (f"{value}: {count}" for value, count in summary[name].items())
        table.add_row(name.replace("_", " "), policy_cell(", ".join(counts)))
    for name in ("with_slo", "owners", "with_recorded_start"):
        if summary[name]:
            table.add_row(name.replace("_", " "), f"{summary[name]:,}")
    if summary["recorded_wait_mean_s"] is not None:
        table.add_row("mean recorded wait", f"{hours(summary['recorded_wait_mean_s'])} h")
    stdout().print(table)
