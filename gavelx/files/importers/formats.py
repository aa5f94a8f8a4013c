"""The formats of traces, and the detection of a file's format."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from gavelx.errors import InputFileError, OptionError, did_you_mean
from gavelx.files.csvs import NUMBER
from gavelx.files.importers import (
    alibaba,
    gavel,
    helios,
    jobcomp,
    philly,
    pollux,
    rows,
    slurm,
    swf,
    tidy,
    tiresias,
)
from gavelx.files.importers.recorded import Outcome
from gavelx.files.texts import read_head, shown
from gavelx.files.traces import REQUIRED

AUTO = "auto"


@dataclass(frozen=True)
class Layout:
    """A layout of trace files: how to detect it, how to read its rows, and how to turn a row into a job."""

    format: str
    what: str
    matches: Callable[[Sequence[str]], bool]
    rows: Callable[[Path], Iterator[rows.Item]]
    recorded: Callable[[Any], Outcome]


def _header(name: str, what: str, recorded: Callable[[Any], Outcome], *required: str) -> Layout:
    """A layout with a header. ``required`` are its columns; ``a/b`` is either of the two."""

    def matches(head: Sequence[str]) -> bool:
        there = rows.head_cells(head[0], rows.separator_of(head[0], required))
        return all(any(name in there for name in column.split("/")) for column in required)

    shown_columns = ", ".join(required).replace("/", " or ")
    read = partial(rows.with_header, required=required)
    return Layout(name, f"{what}, columns {shown_columns}", matches, read, recorded)


def _or_json(name: str, what: str, recorded: Callable[[Any], Outcome], *required: str) -> Layout:
    """A layout with a header, or the same jobs as ``sacct --json`` writes them."""
    table = _header(name, what, recorded, *required)

    def matches(head: Sequence[str]) -> bool:
        return (
            any('"jobs"' in line or '"meta"' in line for line in head) if _is_object(head) else table.matches(head)
        )

    def read(path: Path) -> Iterator[rows.Item]:
        return slurm.json_rows(path) if _is_object([read_head(path)]) else table.rows(path)

    return replace(table, matches=matches, rows=read)


def _is_object(head: Sequence[str]) -> bool:
    return head[0].lstrip().startswith("{")


def _tabs(name: str, what: str, recorded: Callable[[Any], Outcome], columns: Sequence[str]) -> Layout:
    """A layout of fields between tabs, without a header; its numbers tell it from other files with tabs."""

    def matches(head: Sequence[str]) -> bool:
        return any(_is_row(line.split("\t")) for line in head)

    def _is_row(cells: Sequence[str]) -> bool:
        named = dict(zip(columns, map(str.strip, cells), strict=False))
        numbers = (NUMBER.fullmatch(named.get(column, "")) for column in ("total_steps", "scale_factor"))
        return len(cells) == len(columns) and any(numbers)

    read = partial(rows.without_header, separator="\t", columns=columns)
    return Layout(name, f"{what}, {len(columns)} fields between tabs", matches, read, recorded)


def _is_pai(head: Sequence[str]) -> bool:
    there = [rows.head_cells(line, ",") for line in head]
    tasks = [cells for cells in there if len(cells) == len(alibaba.TASK_COLUMNS)]
    return any(
        cells[3] in alibaba.TASK_STATUSES or sorted(cells) == sorted(alibaba.TASK_COLUMNS) for cells in tasks
    )


LAYOUTS = (
    _header("csv", "trace of gavelx", tidy.own_job, *REQUIRED),
    _tabs("gavel", "published Gavel trace", gavel.gavel_job, gavel.FIELDS),
    _tabs("gavel", "older Gavel trace", gavel.gavel_job, gavel.NINE_FIELDS),
    _tabs("gavel", "Gavel trace of Philly jobs", gavel.gavel_job, gavel.SEVEN_FIELDS),
    _tabs("shockwave", "published Shockwave trace", gavel.shockwave_job, gavel.SHOCKWAVE_FIELDS),
    Layout(
        "philly",
        "Philly job log, a JSON list of jobs with attempts",
        lambda head: head[0].lstrip().startswith("["),
        rows.json_elements,
        philly.logged_job,
    ),
    _header(
        "philly",
        "list of jobs by duration",
        philly.listed_job,
        *("submit_time/timestamp", "duration_s/duration", "num_gpus"),
    ),
    _header(
        "pollux",
        "Pollux, AdaptDL or Sia workload",
        pollux.pollux_job,
        *("time", "application", "num_replicas", "batch_size"),
    ),
    _header(
        "elasticflow",
        "ElasticFlow trace",
        tiresias.elastic_job,
        *("submit_time/submission_time", "model_name", "ddl/deadline", "batch_size", "num_gpu", "duration"),
    ),
    _header(
        "elasticflow", "raw ElasticFlow trace", tiresias.elastic_job, "submission_time", "num_gpu", "duration"
    ),
    _header(
        "elasticflow",
        "ElasticFlow list",
        tiresias.elastic_job,
        *("arrival_s", "model", "global_batch_size", "num_gpus", "duration_s"),
    ),
    _header(
        "tiresias",
        "job list of Tiresias's simulator",
        tiresias.listed_job,
        *("submit_time", "model_name", "num_gpu", "duration"),
    ),
    _header(
        "helios",
        "cluster_log.csv of Helios",
        helios.helios_job,
        *("job_id", "gpu_num", "state", "submit_time", "start_time", "duration/end_time"),
    ),
    _header(
        "ones",
        "ONES list",
        tidy.ones_job,
        *("arrival_s/time", "model", "task", "epoch_size", "batch_size", "num_gpus"),
    ),
    Layout(
        "alibaba2020",
        "Alibaba pai_task_table, 10 columns: " + ", ".join(alibaba.TASK_COLUMNS),
        _is_pai,
        partial(rows.without_header, separator=",", columns=alibaba.TASK_COLUMNS),
        alibaba.pai_task,
    ),
    _header("alibaba2023", "Alibaba openb_pod_list", alibaba.openb_pod, *alibaba.POD_COLUMNS),
    _or_json(
        "slurm",
        "sacct --json, or --parsable2 with any --delimiter",
        slurm.slurm_job,
        *("JobID/JobIDRaw", "Submit", "Elapsed/ElapsedRaw", "AllocTRES/ReqTRES/AllocGRES/ReqGRES"),
    ),
    Layout(
        "swf",
        "standard workload format of the Parallel Workloads Archive, 18 numbers between blanks",
        swf.matches,
        swf.jobs,
        swf.swf_job,
    ),
    Layout(
        "jobcomp",
        "Slurm's job completion log, JobId=... UserId=... JobState=... in each line",
        jobcomp.matches,
        jobcomp.records,
        jobcomp.completed_job,
    ),
)
FORMATS = tuple(dict.fromkeys(layout.format for layout in LAYOUTS))


def find_layout(path: Path, name: str = AUTO) -> Layout:
    """The layout of a file: by its content, or of the format with this name.

    Raises :class:`OptionError` for an unknown name, :class:`InputFileError` for a file without such a layout.
    """
    if name not in (AUTO, *FORMATS):
        raise OptionError(
            f"no format is called {shown(name)}",
            where="--format",
            hint=did_you_mean(name, FORMATS, "gavelx docs traces"),
        )
    possible = [layout for layout in LAYOUTS if name in (AUTO, layout.format)]
    head = [line for line in read_head(path).splitlines() if line.strip()][:20] or [""]
    for layout in possible:
        if len(possible) == 1 or layout.matches(head):
            return layout
    kinds = "".join(f"\n  {layout.format}: {layout.what}" for layout in possible)
    problem = f"the format is not known; the file begins with {shown(head[0], 60)}"
    error = InputFileError(problem, where=str(path), expected="one of those below", hint="--format NAME")
    error.add_note(kinds.strip())
    raise error
