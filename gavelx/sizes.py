"""Sizes: the numbers of devices and batch sizes in which an elastic job may run, and its speed in each.

The size of a job as submitted is its *own*: ``scale_factor`` devices and a batch of 0, which stands for its own
batch. A job is judged by that one, in whatever size it runs.
"""

from math import ceil
from typing import NamedTuple

from gavelx.jobs import Job
from gavelx.throughputs import Setting, Size, Throughputs

OWN_BATCH = 0
"""In place of a batch size: the samples in an update are those of the job as submitted."""


class Sized(NamedTuple):
    """A number of devices, the samples of an update on all of them together (0: its own), and steps/s."""

    devices: int
    batch: int
    steps_per_s: float


def worth(batch: float, own_batch: float, noise_scale: float | None) -> float:
    """What a sample of an update is worth against one of an update at the job's own batch size.

    It is (phi + M_0) / (phi + M) with the gradient noise scale phi; 1 where that is not known. Source: Pollux
    (OSDI'21), section 3.1; McCandlish et al., "An empirical model of large-batch training" (2018).
    """
    return 1.0 if noise_scale is None else (noise_scale + own_batch) / (noise_scale + batch)


def permits(job: Job, devices: int, batch: int = OWN_BATCH, *, mixed: bool = False) -> bool:
    """Whether the job may run in this size; ``mixed``: on devices of several types."""
    if devices == job.scale_factor and batch == OWN_BATCH and not mixed:
        return True
    if (elastic := job.elastic) is None or not elastic.least <= devices <= elastic.most:
        return False
    if mixed and not elastic.mixed:
        return False
    if elastic.what == "workers":
        return batch == OWN_BATCH
    return batch == OWN_BATCH or elastic.batch_least <= batch <= elastic.batch_most


def speed(
    job: Job,
    accelerator: str,
    devices: int,
    batch: int,
    throughputs: Throughputs,
    *,
    consolidated: bool = True,
) -> float | None:
    """Steps/s of a job in a size that it permits; 0.0 if it cannot run, None if unknown.

    An update at batch M counts as M / M_0 steps, each worth what :func:`worth` says. Under ``workers`` a device
    runs whole parts, one after the other, and the others wait for the one that has most of them. A speed of
    ``sizes`` is taken first. Else, the devices work as they would in a gang of so many, each with its own batch.
    """
    setting = Setting(job.job_type, accelerator, devices, consolidated)
    elastic = job.elastic
    if elastic is None or (devices == job.scale_factor and batch == OWN_BATCH):
        return throughputs.isolated.get(setting)
    if elastic.what == "workers":
        parts, known = elastic.parts_of(job.scale_factor), throughputs.isolated.get(setting)
        return None if known is None else known * (parts / devices) / ceil(parts / devices)
    batch = batch or elastic.batch
    value = worth(batch, elastic.batch, throughputs.noise_scale.get(job.job_type))
    updates = throughputs.sizes.get(Size(job.job_type, accelerator, devices, batch, consolidated))
    if updates is not None:
        return updates * batch / elastic.batch * value
    if batch * job.scale_factor == elastic.batch * devices and (known := throughputs.isolated.get(setting)):
        return known * value
    return None


def sizes(job: Job, accelerator: str, throughputs: Throughputs, *, consolidated: bool = True) -> tuple[Sized, ...]:
    """The sizes besides its own in which a job may run on a type, with known speeds, by number of devices.

    Of each number of devices the fastest batch. Those that are no faster than another on no more devices are left
    out; so are all of them on a type where the speed of its own size is not known, or it cannot run.
    """
    elastic = job.elastic
    own = throughputs.get(job.job_type, accelerator, job.scale_factor, consolidated)
    if elastic is None or not own:
        return ()
    found, best = list[Sized](), 0.0
    for devices in range(elastic.least, elastic.most + 1):
        if devices == job.scale_factor:
            best = max(best, own)
        tried = [
            Sized(devices, batch, steps_per_s)
            for batch in _batches(job, accelerator, devices, throughputs, consolidated)
            if (steps_per_s := speed(job, accelerator, devices, batch, throughputs, consolidated=consolidated))
        ]
        fastest = max(tried, key=lambda size: size.steps_per_s, default=None)
        if fastest is not None and fastest.steps_per_s > best:
            found.append(fastest)
            best = fastest.steps_per_s
    return tuple(found)


def _batches(job: Job, accelerator: str, devices: int, throughputs: Throughputs, consolidated: bool) -> list[int]:
    """The batch sizes to look at, on so many devices, without that of the job's own size."""
    elastic = job.elastic
    assert elastic is not None
    if elastic.what == "workers":
        return [OWN_BATCH] if devices != job.scale_factor else []
    known = list(throughputs.batches.get((job.job_type, accelerator, devices, consolidated), ()))
    each, rest = divmod(elastic.batch * devices, job.scale_factor)
    if not rest and each not in known:
        known.append(each)
    at_own = elastic.batch if devices == job.scale_factor else None
    return [batch for batch in known if elastic.batch_least <= batch <= elastic.batch_most and batch != at_own]
