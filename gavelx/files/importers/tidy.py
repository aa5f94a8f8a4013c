"""Plain CSV lists: our own traces, with the further columns that some carry, and the jobs of ONES.

The jobs of ONES run until they reach an accuracy. Their work is the samples of an epoch times the epochs that such
jobs took in the run that the artifact records (``traces/job_history.csv``): about the median of each kind of task,
out of five to eight jobs that differ up to sixfold.

Source: Z. Bian et al., Online Evolutionary Batch Size Orchestration for Scheduling Deep Learning Workloads in GPU
Clusters (SC 2021), and kurisusnowdeng/ones_sc21.
"""

from gavelx.files.csvs import Row
from gavelx.files.importers.recorded import NO_GPUS, Outcome, Recorded, devices, either, seconds
from gavelx.files.traces import job_of

ONES_EPOCHS = {"cifar": 25, "imagenet": 47, "cola": 5, "mrpc": 5, "sst2": 5}


def own_job(row: Row) -> Recorded:
    """A job of a trace of ours."""
    job = job_of(row)
    return Recorded(
        id=job.id,
        job_type=job.job_type,
        total_steps=job.total_steps,
        gpus=job.scale_factor,
        weight=job.weight,
        arrival_s=job.arrival_s,
        slo=job.slo,
        duration_s=job.duration_s,
        owner=job.owner,
        preemptible=job.preemptible,
        checkpoints=job.checkpoints,
        start_s=job.recorded_start_s,
        accelerator=job.requested_accelerator,
    )


def ones_job(row: Row) -> Outcome:
    """A job of the ONES trace."""
    epochs = ONES_EPOCHS[row.text("task", known=ONES_EPOCHS)]
    gpus = devices(row, "num_gpus")
    arrival_s = seconds(row, either(row, "arrival_s", "time"))
    recorded = Recorded(
        arrival_s=arrival_s,
        gpus=gpus,
        samples=float(epochs * row.whole("epoch_size", low=1)),
        model=row.text("model"),
        batch_size=row.whole("batch_size", low=1),
        name=row.text("job_id", ""),
    )
    return recorded if gpus else NO_GPUS
