"""Names of jobs and devices of which nothing is known, and estimates for a single snapshot."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from gavelx.cli.output import stderr
from gavelx.errors import OptionError, WorkloadError, one_of
from gavelx.estimated_speeds import nameless_types, nearest_type, with_estimates
from gavelx.estimator.job_names import JobNameError, near_name, read_job
from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.shipped_speeds import shipped_measurements
from gavelx.files.texts import shown
from gavelx.jobs import Job
from gavelx.spelling import nearest
from gavelx.throughputs import Throughputs


def check_types(accelerators: Iterable[str], table: Throughputs, where: str = "--cluster") -> None:
    """Raise :class:`OptionError` for a type of which nothing is known: no speed of it, and no data sheet."""
    sheets = load_data_sheets()
    chips = {name if name.startswith("tpu") else name.partition("-")[0]: None for name in sheets.by_name}
    for name in accelerators:
        if name in table.accelerators or sheets.has(name):
            continue
        known = {**dict.fromkeys(table.accelerators), **chips, **sheets.by_name}
        near = [one for one in get_close_matches(name, known, n=5, cutoff=0.7) if _may_mean(name, one)]
        raise OptionError(
            f"nothing is known of accelerator type {shown(name)}",
            where=where,
            expected=""
            if near
            else one_of({**dict.fromkeys(table.accelerators), **chips}, "gavelx docs your_gpus", name),
            hint=f"did you mean {near[0]!r}?" if near else f"--table FILE, with speeds on {shown(name)}",
        )


def _may_mean(name: str, device: str) -> bool:
    """Whether the chip has its letters or its number right: a gtx1080 is no misspelled rtx5080."""
    typed, known = (text.partition("-")[0] for text in (name, device))
    return any(re.sub(part, "", typed) == re.sub(part, "", known) for part in (r"\d", r"\D"))


def check_names(jobs: Iterable[Job], accelerators: Sequence[str], table: Throughputs, where: str) -> None:
    """Raise an error for a job type that no table has and that is not the name of one of today's jobs.

    If the table has all accelerator types, only for one that is nearly such a name: others are found later.
    """
    all_known = set(accelerators) <= set(table.accelerators)
    measured = {one.way.job_type for one in shipped_measurements()}
    for job_type, job in {job.job_type: job for job in jobs}.items():
        if job_type in table.job_types or job_type in measured or _is_read(job_type, f"{where}, job {job.id}"):
            continue
        if hint := near_name(job_type) or (not all_known and nearest(job_type, table.job_types)):
            problem = f"unknown job type {shown(job_type)}"
            expected = f"a job type of throughput table {table.name}, or a name such as llama-7b-lora-bs16"
            raise WorkloadError(problem, where=f"{where}, job {job.id}", expected=expected, hint=hint)


def _is_read(job_type: str, where: str) -> bool:
    """Whether it is the name of one of today's jobs; an error about a part of it says which job has it."""
    try:
        return read_job(job_type) is not None
    except JobNameError as error:
        raise JobNameError(
            error.problem, where=f"{where}, {error.where}", expected=error.expected, hint=error.hint
        ) from None


def estimated(
    table: Throughputs, jobs: Sequence[Job], accelerators: Sequence[str], *, pairs: bool = False
) -> Throughputs:
    """The table with estimates; prints a line for each of its types that tells them nothing."""
    found = with_estimates(table, jobs, accelerators, pairs=pairs)
    for name in nameless_types(table, accelerators) if found is not table else ():
        line = (
            f"{shown(name)} is in no data sheet, and its speeds were left out of estimates; {nearest_type(name)}"
        )
        stderr().print(line, markup=False, soft_wrap=True)
    return found
