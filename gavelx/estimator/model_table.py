"""From the model of an elastic job to rows of a throughput table: its own size, others at their best batch.

Then programs, mechanism and simulator see plain rows, and know nothing of the model.
"""

import math
from collections.abc import Iterable, Mapping

from gavelx.estimator.goodput import BatchChoice, JobModel
from gavelx.estimator.step_time import Placement
from gavelx.throughputs import Setting, Size, Throughputs


def model_table(
    models: Mapping[str, JobModel],
    own_devices: Mapping[str, int],
    batch_most: Mapping[str, int],
    devices_per_server: Mapping[str, int],
    widths: Iterable[int],
) -> Throughputs:
    """The throughput table of these job types (the keys of ``models``), by their models.

    A job of a type is submitted for ``own_devices`` at the batch size M_0 of its model, and may have up to
    ``batch_most`` samples in an update. Speeds are of gangs on the fewest servers of so many devices of each type
    (``devices_per_server``), at each of these ``widths``, at the batch with most goodput. Steps are updates
    at M_0, so ``Throughputs.sizes`` is in updates/s, and ``noise_scale`` says what they are worth. Of a type on
    which not even the own size fits in memory with one sample a device, no speed is known.
    """
    isolated, sizes, noise_scale = dict[Setting, float](), dict[Size, float](), dict[str, float]()
    widths = sorted(set(widths))
    for job_type, model in models.items():
        if math.isfinite(model.efficiency.noise_scale):
            noise_scale[job_type] = model.efficiency.noise_scale
        for accelerator in model.steps:
            per_server, own = devices_per_server[accelerator], own_devices[job_type]
            as_submitted = model.best_batch(accelerator, placed(own, per_server), int(model.efficiency.batch))
            if as_submitted is None:
                continue
            speed = _updates_per_s(model, accelerator, placed(own, per_server), as_submitted)
            isolated[Setting(job_type, accelerator, own)] = speed
            for devices in widths:
                placement = placed(devices, per_server)
                choice = model.best_batch(accelerator, placement, batch_most[job_type])
                if choice is not None:
                    size = Size(job_type, accelerator, devices, choice.total(placement))
                    sizes[size] = _updates_per_s(model, accelerator, placement, choice)
    return Throughputs(isolated, sizes=sizes, noise_scale=noise_scale)


def placed(devices: int, per_server: int) -> Placement:
    """So many devices on the fewest servers.

    >>> placed(3, 4), placed(10, 4)
    ((3,), (4, 4, 2))
    """
    full, rest = divmod(devices, per_server)
    return (per_server,) * full + ((rest,) if rest else ())


def _updates_per_s(model: JobModel, accelerator: str, placement: Placement, choice: BatchChoice) -> float:
    return 1.0 / float(model.step_seconds(accelerator, placement, choice.local_batch, choice.accumulated))
