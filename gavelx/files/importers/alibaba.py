"""The two GPU traces of Alibaba.

*2020* (``pai_task_table``, cluster-trace-gpu-v2020; ten columns without a header): one row per task of a job,
with ``inst_num`` instances of ``plan_gpu`` per cent of a GPU each (50: half a device; 800: eight). Tasks of one
job that are kept become one job, with their devices together and their device-time in total; tasks without GPUs
(parameter servers) do not count. The table says when a task started, not when it was submitted: it arrives then.

*2023* (``openb_pod_list_*.csv``, cluster-trace-gpu-v2023): one row per pod, with ``num_gpu`` devices, or
``gpu_milli`` thousandths of one. It arrives at its creation and takes from being scheduled to its deletion. The
trace says Running of most pods that it saw end, so these are kept. It started when it was scheduled.

``gpu_type`` (2020: the type that it got) and ``gpu_spec`` (2023: the types that it may get, with bars between
them) are kept as the requested type.

Sources: Q. Weng et al., MLaaS in the Wild (NSDI 2022); Beware of Fragmentation (ATC 2023).
"""

from gavelx.files.csvs import Row
from gavelx.files.importers.recorded import (
    NEVER_STARTED,
    NO_END,
    NO_GPUS,
    STILL_RUNNING,
    Ending,
    Outcome,
    Recorded,
    devices,
    later,
    ran,
    seconds,
)

TASK_COLUMNS = (
    *("job_name", "task_name", "inst_num", "status", "start_time"),
    *("end_time", "plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
TASK_STATUSES: dict[str, Ending | str] = {
    "Terminated": Ending.COMPLETED,
    "Failed": Ending.FAILED,
    "Running": STILL_RUNNING,
    "Waiting": NEVER_STARTED,
}
POD_COLUMNS = ("name", "num_gpu", "gpu_milli", "pod_phase", "creation_time", "deletion_time", "scheduled_time")
POD_PHASES: dict[str, Ending | str] = {
    "Running": Ending.COMPLETED,
    "Succeeded": Ending.COMPLETED,
    "Failed": Ending.FAILED,
    "Pending": NEVER_STARTED,
}
PER_CENT_MAX = 1e8


def pai_task(row: Row) -> Outcome:
    """A task of the trace of 2020."""
    name = row.text("job_name")
    ended = TASK_STATUSES[row.text("status", known=TASK_STATUSES)]
    if not isinstance(ended, Ending):
        return ended
    per_cent = row.number("plan_gpu", low=0, high=PER_CENT_MAX, default=0.0)
    gpus = devices(row, "inst_num") * per_cent / 100
    if gpus == 0:
        return NO_GPUS
    if ended == Ending.FAILED and not (row.has("start_time") and row.has("end_time")):
        return NO_END
    start_s = seconds(row, "start_time")
    duration_s = later(row, start_s, "end_time", seconds(row, "end_time"))
    return ran(gpus, duration_s) or Recorded(
        arrival_s=start_s,
        gpus=gpus,
        ended=ended,
        duration_s=duration_s,
        accelerator=row.text("gpu_type", ""),
        part_of=name,
        name=f"{name} {row.text('task_name', '')}",
    )


def openb_pod(row: Row) -> Outcome:
    """A pod of the trace of 2023."""
    ended = POD_PHASES[row.text("pod_phase", known=POD_PHASES)]
    arrival_s, gpus = seconds(row, "creation_time"), float(devices(row, "num_gpu"))
    milli = row.number("gpu_milli", low=0, high=1000)
    if gpus == 1:
        gpus = milli / 1000
    if not isinstance(ended, Ending):
        return ended
    if not row.has("scheduled_time"):
        return NEVER_STARTED
    if ended == Ending.FAILED and not row.has("deletion_time"):
        return NO_END
    start_s, end_s = seconds(row, "scheduled_time"), seconds(row, "deletion_time")
    duration_s = later(row, start_s, "deletion_time", end_s)
    return ran(gpus, duration_s) or Recorded(
        arrival_s=arrival_s,
        gpus=gpus,
        ended=ended,
        start_s=start_s,
        duration_s=duration_s,
        accelerator=row.text("gpu_spec", ""),
        name=row.text("name"),
    )
