"""Check before a run that every job can run on the cluster.

Three things may be missing: a row of the throughput table for the job type, an accelerator type on which it runs,
or enough devices of such a type. Each has its own message.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.errors import WorkloadError, one_of
from gavelx.jobs import Job
from gavelx.mixes import mixes
from gavelx.sizes import sizes
from gavelx.snapshot import Kind
from gavelx.spelling import nearest
from gavelx.throughputs import Setting, Throughputs

YEARS_MAX = 1_000
"""The longest that a job may take alone: more is a mistake, whose simulation would not end."""


def check_workload(
    jobs: Iterable[Job],
    cluster: Cluster,
    throughputs: Throughputs,
    where: str = "",
    opens: frozenset[Kind] = frozenset(),
) -> None:
    """Check that every job can run somewhere in this cluster.

    A job can run on a type with a throughput above 0 at its scale factor, and with at least that many devices; an
    elastic one also in another size or on a mix of types, if the policy ``opens`` these.
    Raises :class:`WorkloadError` that names the first job that cannot, and why; also if two jobs have the same id,
    or one would take more than ``YEARS_MAX`` years.
    ``where`` names the source of the jobs, such as the trace's file.
    """
    for _ in checked(jobs, cluster, throughputs, where, opens):
        pass


def checked(
    jobs: Iterable[Job],
    cluster: Cluster,
    throughputs: Throughputs,
    where: str = "",
    opens: frozenset[Kind] = frozenset(),
) -> Iterator[Job]:
    """The same jobs, each checked as in :func:`check_workload` when it is taken; the jobs may be endless."""
    check_accelerators(cluster.accelerators, throughputs)
    steps_max: dict[tuple[str, int, Elastic | None], float] = {}
    ids: set[int] = set()
    for job in jobs:
        if not job.has_length:
            problem = f"nothing says how long job {job.id} is"
            raise WorkloadError(problem, where=where, expected="total_steps, which a simulation needs")
        if job.id in ids:
            raise WorkloadError(f"two jobs have the id {job.id}", where=where, expected="an id for each job")
        ids.add(job.id)
        of_job = f"{where}, job {job.id}" if where else f"job {job.id}"
        if (kind := (job.job_type, job.scale_factor, job.elastic)) not in steps_max:
            _check_job(job, cluster, throughputs, of_job, opens)
            steps_max[kind] = _steps_max(job, cluster, throughputs)
        if job.total_steps > steps_max[kind]:
            problem = f"{job.total_steps:g} steps take more than {YEARS_MAX:,} years in this cluster"
            raise WorkloadError(problem, where=of_job, expected=f"{steps_max[kind]:.3g} steps at most")
        yield job


def runnable(
    jobs: Sequence[Job], cluster: Cluster, throughputs: Throughputs, opens: frozenset[Kind] = frozenset()
) -> tuple[Job, ...]:
    """The jobs that pass :func:`check_workload`."""
    fine: dict[tuple[str, int, Elastic | None], bool] = {}
    for job in jobs:
        if (kind := (job.job_type, job.scale_factor, job.elastic)) not in fine:
            try:
                _check_job(job, cluster, throughputs, "", opens)
                fine[kind] = True
            except WorkloadError:
                fine[kind] = False
    return tuple(job for job in jobs if fine[job.job_type, job.scale_factor, job.elastic])


def check_accelerators(accelerators: Sequence[str], throughputs: Throughputs) -> None:
    """Check that the table has these accelerator types. Raises :class:`WorkloadError` that names one it lacks."""
    for name in accelerators:
        if name not in throughputs.accelerators:
            raise WorkloadError(
                f"no throughput is known for accelerator type {name!r}",
                where=f"throughput table {throughputs.name}".rstrip(),
                expected="a type of this table, " + one_of(throughputs.accelerators, word=name),
                hint=f"--table FILE, with rows for {name}, or another type",
            )


def kind_that_fits(job: Job, devices: Mapping[str, int], throughputs: Throughputs) -> Kind | None:
    """How an elastic job whose own size fits nowhere can run on so many devices of each type, if it can."""
    if any(size.devices <= count for name, count in devices.items() for size in sizes(job, name, throughputs)):
        return "sizes"
    return "mixes" if mixes(job, tuple(devices), throughputs, tuple(devices.values())) else None


def _check_job(job: Job, cluster: Cluster, throughputs: Throughputs, where: str, opens: frozenset[Kind]) -> None:
    if job.job_type not in throughputs.job_types:
        raise WorkloadError(
            f"unknown job type {job.job_type!r}",
            where=where,
            expected=f"a job type of throughput table {throughputs.name}".rstrip(),
            hint=nearest(job.job_type, throughputs.job_types),
        )
    speeds = {name: throughputs.get(job.job_type, name, job.scale_factor) for name in cluster.accelerators}
    devices = dict(zip(cluster.accelerators, cluster.devices_A.tolist(), strict=True))
    runs_on = [name for name, speed in speeds.items() if speed]
    if any(devices[name] >= job.scale_factor for name in runs_on):
        return
    if (kind := kind_that_fits(job, devices, throughputs)) in opens:
        return
    what = f"{job.job_type!r} with scale factor {job.scale_factor}"
    if kind is not None:
        raise WorkloadError(
            f"{what} fits nowhere as submitted: the cluster has {cluster}",
            where=where,
            expected=f"a policy that knows {'other sizes' if kind == 'sizes' else 'mixes'} of elastic jobs",
            hint="elastic(max_min_fairness), or --skip-unrunnable",
        )
    if runs_on:
        raise WorkloadError(
            f"{what} fits nowhere: it runs on {', '.join(runs_on)} and the cluster has {cluster}",
            where=where,
            expected=f"at least {job.scale_factor} devices of one of these types",
            hint=f"--cluster {runs_on[0]}={job.scale_factor}, or --skip-unrunnable",
        )
    known = _where_it_runs(job, throughputs)
    absent = all(speed is None for speed in speeds.values())
    why = next((throughputs.reasons.get(Setting(job.job_type, name, job.scale_factor)) for name in speeds), None)
    cannot = f"cannot run on {', '.join(cluster.accelerators)}" + (
        f" ({why.removeprefix('cannot run: ')})" if why else ""
    )
    raise WorkloadError(
        f"{what} has no known throughput on {', '.join(cluster.accelerators)}" if absent else f"{what} {cannot}",
        where=where,
        expected="a cluster with a type on which it runs",
        hint=f"known to run on: {known}" if known else "another scale factor or table, or --skip-unrunnable",
    )


def _steps_max(job: Job, cluster: Cluster, throughputs: Throughputs) -> float:
    """The steps that such a job does in the longest time that is simulated, on the type where it is fastest."""
    speeds = [throughputs.get(job.job_type, name, job.scale_factor) or 0.0 for name in cluster.accelerators]
    return max(speeds) * YEARS_MAX * 365 * 86_400 or math.inf  # an elastic job may run in other sizes only


def _where_it_runs(job: Job, throughputs: Throughputs) -> str:
    """The accelerator types with a throughput above 0 for such a job, anywhere in the table."""
    names = (name for name in throughputs.accelerators if throughputs.get(job.job_type, name, job.scale_factor))
    return ", ".join(names)
