"""The log of a Helios cluster (``cluster_log.csv``, S-Lab-System-Group/HeliosData): one row per job.

``gpu_num`` is for the whole job. The states are Slurm's. Times are those of the clocks of the cluster, without a
zone; ``duration`` is in seconds. The owner is ``vc/user``; in the file of all clusters, ``cluster/vc/user``.

Source: Q. Hu et al., Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters
(SC 2021).
"""

from gavelx.files.csvs import Row
from gavelx.files.importers.recorded import (
    NEVER_STARTED,
    NO_GPUS,
    Ending,
    Outcome,
    Recorded,
    devices,
    lasted,
    later,
    moment,
    ran,
    seconds,
    started,
)
from gavelx.files.importers.slurm import ending


def helios_job(row: Row) -> Outcome:
    """A job of the log of a cluster."""
    ended, gpus = ending(row, "state"), devices(row, "gpu_num")
    if gpus == 0:
        return NO_GPUS
    if not isinstance(ended, Ending):
        return ended
    arrival_s, start_s = moment(row, "submit_time"), started(row, "start_time")
    if start_s is None:
        return NEVER_STARTED
    if row.has("duration"):
        duration_s = lasted(row, "duration", seconds(row, "duration"), start_s, end="end_time")
    else:
        duration_s = later(row, start_s, "end_time", moment(row, "end_time"))
    owner = [row.text(column) for column in ("cluster", "vc", "user") if row.has(column)]
    return ran(gpus, duration_s) or Recorded(
        arrival_s=arrival_s,
        gpus=gpus,
        ended=ended,
        start_s=start_s,
        duration_s=duration_s,
        owner="/".join(owner),
        name=f"{row.text('cluster', '')} {row.text('job_id')}",
    )
