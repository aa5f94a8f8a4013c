"""Lists of the simulators of Tiresias and of ElasticFlow, which grew out of it: one row per job.

=============  ====================================================================================================
Tiresias       ``job_id, num_gpu, submit_time, iterations, model_name, duration, interval``
ElasticFlow    ``job_id, submit_time, iteration, model_name, ddl, batch_size, num_gpu, duration`` and perhaps
               ``best_effort``, in pkusys/ElasticFlow; with ``submission_time, num_iteration, deadline`` in
               microsoft/elasticflow-traces, whose raw traces are ``job_id, submission_time, duration, num_gpu``
=============  ====================================================================================================

Times are seconds on the clock of the collection, which some jobs precede; ``duration`` is that on the GPUs
asked for, and ``batch_size`` that of all GPUs. Our own lists say ``arrival_s, model, global_batch_size,
num_gpus, duration_s, deadline_s``. A deadline may come before arrival + duration, because ElasticFlow adds
GPUs; a best-effort job (1) has none. Iterations are not read: they count steps of models that are in no table
of ours.

Sources: J. Gu et al., Tiresias (NSDI 2019), and SymbioticLab/Tiresias ``simulator/README.md``; D. Gu et al.,
ElasticFlow (ASPLOS 2023), and the READMEs of both repositories.
"""

from dataclasses import replace

from gavelx.elastic import Elastic
from gavelx.files.csvs import Row
from gavelx.files.importers.recorded import (
    Outcome,
    Recorded,
    clock,
    deadline,
    devices,
    either,
    ran,
    seconds,
)
from gavelx.files.limits import WHOLE_MAX

WIDEST = 64
"""A job of ElasticFlow has at most so many devices here; how many pay is the business of its scheduler."""


def elastic_job(row: Row) -> Outcome:
    """A job of a list of ElasticFlow, which may run on other numbers of devices; its batch stays."""
    found = listed_job(row)
    return found if isinstance(found, str) else replace(found, elastic=Elastic("workers", 1, WIDEST))


def listed_job(row: Row) -> Outcome:
    """A job of a list of Tiresias or ElasticFlow."""
    arrival_s = clock(row, either(row, "submit_time", "submission_time", "arrival_s"))
    gpus = devices(row, either(row, "num_gpu", "num_gpus"))
    duration_s = seconds(row, either(row, "duration", "duration_s"))
    due = either(row, "ddl", "deadline", "deadline_s", default="deadline_s")
    deadline_s = deadline(row, due, arrival_s)
    batch = either(row, "batch_size", "global_batch_size", default="batch_size")
    batch_size = row.whole(batch, low=1, high=WHOLE_MAX) if row.has(batch) else None
    best_effort = row.whole("best_effort", low=0, high=1, default=0)
    return ran(gpus, duration_s) or Recorded(
        arrival_s=arrival_s,
        gpus=gpus,
        duration_s=duration_s,
        deadline_s=None if best_effort else deadline_s,
        model=row.text(either(row, "model_name", "model", default="model"), ""),
        batch_size=batch_size / gpus if batch_size and gpus else None,
        name=row.text("job_id", ""),
    )
