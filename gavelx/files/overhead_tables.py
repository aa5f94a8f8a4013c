"""Overheads of checkpoints, restarts and resizes: numbers for all jobs, or a table by job type."""

from collections.abc import Collection
from pathlib import Path

from gavelx.files.amounts import read_amounts
from gavelx.files.csvs import read_rows
from gavelx.files.texts import exists
from gavelx.overheads import Overhead, Overheads

FORM = "--overheads checkpoint=10,restart=30,resize=2"
SECONDS_MAX = 1e5
"""The most seconds, a day; a larger number is probably a typing mistake."""


def load_overheads(spec: str, job_types: Collection[str]) -> Overheads:
    """Overheads from ``checkpoint=10,restart=30,resize=2`` (seconds, default 0) or from a CSV file.

    Without ``resize`` (in the file, where ``resize_s`` is empty) elastic jobs are restarted to change their size.
    The columns of the file are ``job_type, checkpoint_s, restart_s`` and perhaps ``resize_s``; job types without a
    row cost nothing. Raises
    :class:`OptionError` for a bad list, and :class:`InputFileError` for a mistake in the file: a job type that is
    not among ``job_types``, or is repeated, or a bad time.
    """
    is_path = bool(spec.strip()) and (exists(spec) or bool(Path(spec).suffix))
    if "=" in spec or not is_path:
        highest = dict.fromkeys(("checkpoint", "restart", "resize"), SECONDS_MAX)
        seconds = read_amounts(spec, highest, where="--overheads", form=FORM)
        stop, start = seconds.get("checkpoint", 0.0), seconds.get("restart", 0.0)
        return Overheads(Overhead(stop, start, seconds.get("resize")))
    by_type: dict[str, Overhead] = {}
    for row in read_rows(spec, ("job_type", "checkpoint_s", "restart_s")):
        job_type = row.job_type("job_type", job_types)
        if job_type in by_type:
            raise row.mistake("job_type", f"{job_type!r} is there twice", expected="one row for each")
        by_type[job_type] = Overhead(
            row.number("checkpoint_s", low=0.0, high=SECONDS_MAX),
            row.number("restart_s", low=0.0, high=SECONDS_MAX),
            row.number("resize_s", low=0.0, high=SECONDS_MAX) if row.has("resize_s") else None,
        )
    return Overheads(by_type=by_type)
