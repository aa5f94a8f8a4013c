"""Traces in the format of the published Gavel scheduler, and of Shockwave, which has two more fields.

One job a line, fields between tabs: job type, command, working directory, name of the argument for the number
of steps, needs a data folder (0 or 1), total steps, scale factor, priority weight, SLO (negative: none),
arrival in seconds. Gavel's repository has two older forms: with nine fields, without the working directory; and
with seven (the traces made of Philly's, ``traces/msr``), where total steps, arrival and scale factor come last,
and jobs have neither priority nor SLO. Shockwave adds the mode (how the batch size changes: static, accordion
or gns) after the scale factor, and the duration in seconds before the arrival. Commands, folders and the mode
are dropped: a job is known by its job type, and batch sizes stay constant.
"""

from gavelx.files.csvs import Row
from gavelx.files.importers.recorded import NO_GPUS, SHORTEST_S, Outcome, Recorded, seconds
from gavelx.files.limits import SCALE_FACTOR_MAX
from gavelx.jobs import WEIGHT_MAX, WEIGHT_MIN

_COMMAND = ("job_type", "command")
_STEPS = ("num_steps_arg", "needs_data_dir", "total_steps")
_END = ("scale_factor", "priority_weight", "slo", "arrival_s")
FIELDS = (*_COMMAND, "working_directory", *_STEPS, *_END)
NINE_FIELDS = (*_COMMAND, *_STEPS, *_END)
SEVEN_FIELDS = (*_COMMAND, *_STEPS, "arrival_s", "scale_factor")
SHOCKWAVE_FIELDS = (
    *(*_COMMAND, "working_directory", *_STEPS),
    *("scale_factor", "mode", "priority_weight", "slo", "duration_s", "arrival_s"),
)
MODES = ("static", "accordion", "gns")


def gavel_job(row: Row) -> Outcome:
    """A job of a published Gavel trace. With seven fields, a scale factor of 0 means that it needs no GPU."""
    has_priority = "priority_weight" in row.cells
    slo = row.number("slo") if has_priority else -1.0
    gpus = row.whole("scale_factor", low=int(has_priority), high=SCALE_FACTOR_MAX)
    recorded = Recorded(
        job_type=row.text("job_type"),
        total_steps=row.number("total_steps", above=0),
        gpus=gpus,
        weight=row.number("priority_weight", low=WEIGHT_MIN, high=WEIGHT_MAX) if has_priority else 1.0,
        arrival_s=seconds(row, "arrival_s"),
        slo=slo if slo > 0 else None,
        duration_s=row.number("duration_s", low=SHORTEST_S) if row.has("duration_s") else None,
    )
    return recorded if gpus else NO_GPUS


def shockwave_job(row: Row) -> Outcome:
    """A job of a published Shockwave trace."""
    row.text("mode", known=MODES)
    row.number("duration_s", low=SHORTEST_S)
    return gavel_job(row)
