"""The speeds that a run needs and its table lacks, estimated from all that is measured.

Estimates are kept in memory, so that a second run of one process with the same table does not compute them again.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from gavelx.errors import OptionError, WorkloadError
from gavelx.estimator.job_names import near_name, read_job
from gavelx.estimator.missing_speeds import filled, missing_ways
from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.shipped_speeds import shipped_measurements
from gavelx.files.texts import shown
from gavelx.files.throughput_tables import TABLES
from gavelx.jobs import Job
from gavelx.measurements import Measurement
from gavelx.spelling import nearest
from gavelx.throughputs import Setting, Throughputs

KEPT_MAX = 8
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
        if len(_cache) >= KEPT_MAX:
            _cache.clear()
        from threadpoolctl import threadpool_limits  # noqa: PLC0415  # slow to import, and only needed here

        from gavelx.estimator.combined import Combined  # noqa: PLC0415

        of_pairs = any(not isinstance(way, Setting) for way in missing)
        estimator = Combined(sheets)
        estimator.observe(_observed(table, of_pairs=of_pairs))
        with threadpool_limits(1):  # matrices are small: threads would only wait for each other
            _cache[key] = filled(table, missing, estimator)
    return _cache[key]


def check_types(accelerators: Iterable[str], table: Throughputs) -> None:
    """Raise :class:`OptionError` for a type of which nothing is known, and that is spelled like one that is."""
    sheets = load_data_sheets()
    chips = {device.partition("-")[0]: None for device in sheets.by_name}
    for name in accelerators:
        if name in table.accelerators or sheets.has(name):
            continue
        if near := get_close_matches(name, {**dict.fromkeys(table.accelerators), **chips}, n=1, cutoff=0.7):
            problem = f"nothing is known of accelerator type {shown(name)}"
            raise OptionError(problem, where="--cluster", hint=f"did you mean {near[0]!r}?")


def check_names(jobs: Iterable[Job], accelerators: Sequence[str], table: Throughputs, where: str) -> None:
    """Raise an error for a job type that no table has and that is not the name of one of today's jobs.

    If the table has all accelerator types, only for one that is nearly such a name: others are found later.
    """
    all_known = set(accelerators) <= set(table.accelerators)
    measured = {one.way.job_type for one in shipped_measurements()}
    for job_type, job in {job.job_type: job for job in jobs}.items():
        if job_type in table.job_types or job_type in measured or read_job(job_type) is not None:
            continue
        if hint := near_name(job_type) or (not all_known and nearest(job_type, table.job_types)):
            problem = f"unknown job type {shown(job_type)}"
            expected = f"a job type of throughput table {table.name}, or a name such as llama-7b-lora-bs16"
            raise WorkloadError(problem, where=f"{where}, job {job.id}", expected=expected, hint=hint)


def _observed(table: Throughputs, *, of_pairs: bool) -> list[Measurement]:
    """The table's own measured speeds, and those that gavelx ships; the table's own count where both have one."""
    tables = (table.isolated, table.colocated) if of_pairs else (table.isolated,)
    every = [entry for one in tables for entry in one.items()]
    own = {way: speed for way, speed in every if way not in table.ranges}
    shipped = [one for one in shipped_measurements() if one.way not in own]
    return [*shipped, *(Measurement(way, speed) for way, speed in own.items())]
