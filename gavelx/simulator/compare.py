"""Simulate several policies on the same jobs."""

from collections.abc import Iterable, Sequence
from typing import Any

from gavelx.asking import Allocator
from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.prices import Prices
from gavelx.result import Result
from gavelx.simulator.simulate import simulate
from gavelx.throughputs import Throughputs


def compare(
    policies: Iterable[Allocator],
    jobs: Sequence[Job],
    cluster: Cluster,
    throughputs: Throughputs,
    prices: Prices | None = None,
    **options: Any,
) -> list[Result]:
    """Run the same jobs under each policy: a result each, in the order of the policies.

    ``options`` are those of :func:`simulate`, and so is what is raised. ``gavelx compare`` does the same with a
    process for each policy, and goes on when one fails.
    """
    return [simulate(policy, jobs, cluster, throughputs, prices, **options) for policy in policies]
