"""Policy instances published with reference results, read as snapshots.

====================  ==============================================================================
``cluster``           ``{"v100": 4, "p100": 2}``: devices by accelerator type
``jobs``              ``id, job_type, scale_factor, priority, steps_remaining, time_since_start`` and
                      ``throughputs``: steps/s by accelerator type (0: cannot run; missing: unknown)
``pairs``             optional: ``{a, b, throughputs: {type: [steps/s of a, of b]}}``, two jobs of one
                      scale factor that share their devices
``slos``              optional: ``{"3": 3600.0}``: seconds that a job has from now until its deadline
``prices_usd_per_hour``  optional: dollars per device-hour by accelerator type
====================  ==============================================================================

Other keys are ignored. An instance lacks the total steps of its jobs, so these are set to the remaining steps. Its
jobs queue in the order of their ids and not by the time since their start (as in the published results of first
come, first served), so all arrive at 0.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gavelx.cluster import Cluster
from gavelx.files.configuration_rows import ConfigurationRow, configurations_of
from gavelx.files.jsons import Node
from gavelx.files.limits import SCALE_FACTOR_MAX
from gavelx.files.snapshot_fields import device_counts, job_indices, member_index, usd_per_hour
from gavelx.job_table import column
from gavelx.jobs import Job
from gavelx.snapshot import Snapshot


def is_instance(node: Node) -> bool:
    """Whether this is an instance, and not a snapshot in our own form: it has the speeds inside the jobs."""
    if "prices_usd_per_hour" in node:
        return True
    jobs = node.value.get("jobs") if isinstance(node.value, dict) else None
    return isinstance(jobs, list) and any(isinstance(job, dict) and "throughputs" in job for job in jobs)


def snapshot_of_instance(node: Node) -> Snapshot:
    """The snapshot that an instance describes: jobs alone first, then the pairs.

    Raises :class:`InputFileError` naming file and key path.
    """
    cluster = Cluster.of(device_counts(node["cluster"]))
    nodes = node["jobs"].elements()
    elapsed_s = [job["time_since_start"].number(low=0) for job in nodes]
    jobs = [_job(job, node["slos"] if "slos" in node else Node({}, node.file)) for job in nodes]
    index_of = job_indices(jobs, node["jobs"])
    rows = [row for j, job in enumerate(nodes) for row in _alone(job, j, jobs[j], cluster.accelerators)]
    for pair in node["pairs"].elements() if "pairs" in node else ():
        rows += _pair(pair, index_of, jobs, cluster.accelerators)
    prices = node["prices_usd_per_hour"] if "prices_usd_per_hour" in node else Node({}, node.file)
    return Snapshot(
        cluster=cluster,
        jobs=tuple(jobs),
        known=configurations_of(rows, (len(jobs), len(cluster.accelerators))),
        steps_left_J=column(jobs, "total_steps"),
        elapsed_s_J=np.array(elapsed_s, dtype=float),
        usd_per_hour_A=usd_per_hour(prices, cluster.accelerators),
    )


def _job(node: Node, slos: Node) -> Job:
    name = str(node["id"].whole(low=0))
    left_s = slos[name].number(above=0) if name in slos else None
    return Job(
        id=node["id"].whole(low=0),
        job_type=node["job_type"].text(),
        total_steps=node["steps_remaining"].number(above=0),
        scale_factor=node["scale_factor"].whole(low=1, high=SCALE_FACTOR_MAX),
        weight=node["priority"].number(above=0),
        slo=None if left_s is None else 1.0,  # the job is due one duration after its arrival, which is now
        duration_s=left_s,
    )


def _alone(node: Node, j: int, job: Job, accelerators: Sequence[str]) -> Iterator[ConfigurationRow]:
    for a, speed in _by_type(node["throughputs"], accelerators):
        yield ConfigurationRow((j,), a, job.scale_factor, (speed.number(low=0),))


def _pair(
    node: Node, index_of: Mapping[int, int], jobs: Sequence[Job], accelerators: Sequence[str]
) -> Iterator[ConfigurationRow]:
    members = tuple(member_index(node[key], index_of) for key in ("a", "b"))
    first, second = (jobs[j] for j in members)
    if first is second:
        raise node.mistake(f"job {first.id} is paired with itself", expected="two jobs")
    if first.scale_factor != second.scale_factor:
        scale_factors = f"{first.scale_factor} and {second.scale_factor}"
        problem = f"jobs {first.id} and {second.id} have the scale factors {scale_factors}"
        raise node.mistake(problem, expected="the same number of devices")
    for a, speeds in _by_type(node["throughputs"], accelerators):
        values = tuple(speed.number(low=0) for speed in speeds.elements())
        if len(values) != 2:
            raise speeds.mistake(f"a list of {len(values)}", expected="the speeds of both jobs")
        yield ConfigurationRow(members, a, first.scale_factor, values)


def _by_type(node: Node, accelerators: Sequence[str]) -> Iterator[tuple[int, Node]]:
    """Index of the accelerator type and value, in the order of the cluster.

    Null is unknown; a type that the cluster does not have is ignored, as in a throughput table.
    """
    values = {name: value for name, value in node.by_type().items() if value.value is not None}
    return ((a, values[name]) for a, name in enumerate(accelerators) if name in values)
