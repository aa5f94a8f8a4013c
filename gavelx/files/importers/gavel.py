"""Traces in the format of the published Gavel scheduler, and of Shockwave, which has two more fields.

One job a line, fields between tabs: job type, command, working directory, name of the argument for the number of
steps, needs a data folder (0 or 1), total steps, scale factor, priority weight, SLO (negative: none), arrival in
seconds. Shockwave adds the mode (how the batch size changes: static, accordion or gns) after the scale factor, and
the duration in seconds before the arrival. Commands, folders and the mode are dropped: a job is known by its job
type, and batch sizes stay constant.
"""

from gavelx.files.csvs import Row
from gavelx.files.importers.recorded import SHORTEST_S, Recorded, seconds
from gavelx.files.limits import SCALE_FACTOR_MAX

_START = (
    "job_type",
    "command",
    "working_directory",
    "num_steps_arg",
    "needs_data_dir",
    "total_steps",
    "scale_factor",
)
FIELDS = (*_START, "priority_weight", "slo", "arrival_s")
SHOCKWAVE_FIELDS = (*_START, "mode", "priority_weight", "slo", "duration_s", "arrival_s")
MODES = ("static", "accordion", "gns")


def gavel_job(row: Row) -> Recorded:
    """A job of a published Gavel trace."""
    slo = row.number("slo")
    return Recorded(
        job_type=row.text("job_type"),
        total_steps=row.number("total_steps", above=0),
        gpus=row.whole("scale_factor", low=1, high=SCALE_FACTOR_MAX),
        weight=row.number("priority_weight", above=0),
        arrival_s=seconds(row, "arrival_s"),
        slo=slo if slo > 0 else None,
        duration_s=row.number("duration_s", low=SHORTEST_S) if row.has("duration_s") else None,
    )


def shockwave_job(row: Row) -> Recorded:
    """A job of a published Shockwave trace."""
    row.text("mode", known=MODES)
    row.number("duration_s", low=SHORTEST_S)
    return gavel_job(row)
