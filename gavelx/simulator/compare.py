"""Simulate several policies on the same jobs."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gavelx import frames
from gavelx.asking import Allocator
from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.prices import Prices
from gavelx.result import Result
from gavelx.simulator.simulate import simulate
from gavelx.throughputs import Throughputs

if TYPE_CHECKING:
    import pandas

SHOWN = (
    "policy",
    "jct_mean_s",
    "jct_p50_s",
    "jct_p99_s",
    "makespan_s",
    "utilization",
    "cost_usd",
    "rho_max",
    "mu_max",
)
"""Figures in the table of a notebook; :meth:`Comparison.to_frame` has them all."""


class Comparison(list[Result]):
    """The results of several policies, which show themselves as a table."""

    def to_frame(self) -> "pandas.DataFrame":
        """A row a policy, with the columns of :meth:`~gavelx.result.Result.summary`."""
        return frames.frame(result.summary() for result in self)

    def __repr__(self) -> str:
        return f"<Comparison of {len(self)} policies>\n" + "\n".join(map(repr, self))

    def _repr_html_(self) -> str:
        return frames.html(self.to_frame()[list(SHOWN)])


def compare(
    policies: Iterable[Allocator],
    jobs: Sequence[Job],
    cluster: Cluster,
    throughputs: Throughputs,
    prices: Prices | None = None,
    **options: Any,
) -> Comparison:
    """Run the same jobs under each policy: a result each, in the order of the policies.

    ``options`` are those of :func:`simulate`, and so is what is raised. ``gavelx compare`` does the same with a
    process for each policy, and goes on when one fails.
    """
    return Comparison(simulate(policy, jobs, cluster, throughputs, prices, **options) for policy in policies)
