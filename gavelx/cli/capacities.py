"""Servers that come and go: ``--spot-availability`` becomes the capacity of a run over time."""

from collections.abc import Sequence

from gavelx.cli.conditions import within
from gavelx.cli.run_options import RunOptions
from gavelx.cluster import Cluster
from gavelx.errors import OptionError, WorkloadError
from gavelx.files.spot_availability import load_availability
from gavelx.jobs import Job
from gavelx.mechanism import Rules
from gavelx.published import AnyRules
from gavelx.simulator.capacity import NOTICE_S, Capacity, at_best
from gavelx.throughputs import Throughputs
from gavelx.workload import runnable

NOTICE = (0.0, 86400.0)
"""Least and greatest seconds between the notice and the loss of a server."""


def capacities_of(typed: RunOptions, cluster: Cluster, rules: AnyRules) -> tuple[Capacity, ...]:
    """When servers of each type are taken away and come back.

    Raises :class:`OptionError` or :class:`InputFileError`.
    """
    if typed.spot_availability is None:
        if typed.spot_notice != NOTICE_S:
            problem = "no server is taken away"
            raise OptionError(problem, where="--spot-notice", expected="--spot-availability with it")
        return ()
    within(typed.spot_notice, NOTICE, "--spot-notice", "a notice of {:g} s", "seconds")
    if not isinstance(rules, Rules):
        problem = f"the rules {rules.name!r} have no servers that come and go"
        raise OptionError(problem, where="--spot-availability", expected="the rules 'default'")
    if typed.failures is not None and "servers" in typed.failures:
        raise OptionError("both say when servers go", where="--spot-availability and --failures", expected="one")
    found = load_availability(typed.spot_availability, cluster.accelerators, place=typed.spot_place)
    return tuple(Capacity(name, shares, typed.spot_notice) for name, shares in found.items())


def check_capacities(
    jobs: Sequence[Job], cluster: Cluster, capacities: Sequence[Capacity], throughputs: Throughputs
) -> None:
    """Check that each job can run at some time. Raises :class:`WorkloadError` about the first that never can."""
    there = at_best(cluster, capacities)
    able = {job.id for job in runnable(jobs, there, throughputs)}
    if (never := next((job for job in jobs if job.id not in able), None)) is not None:
        raise WorkloadError(
            f"job {never.id} needs {never.scale_factor} devices of a type that it runs on, and of {cluster} there "
            f"are never more than {there} together for longer than the notice",
            where="--spot-availability",
            hint="a larger --cluster, a shorter --spot-notice, or --skip-unrunnable",
        )
