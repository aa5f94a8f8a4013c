"""The least that anybody could pay with nobody worse off than with an equal share: a bound under every policy.

Every job has exactly as long as an equal share of the cluster would take for it (rho 1), among as many others as
live if they all do. Within that time work is a fluid, all arrivals are known in advance, and nothing is lost by
rounds or restarts; what is minimised are the dollars for devices in use. A scheduler does not know the future, and
pays more.

Legend: J jobs, A accelerator types (the pools of `gavelx.solvers.planning.fluid`), E entries.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from experiments.points import Point, jobs_of, speeds
from gavelx.cluster import Cluster
from gavelx.files.price_tables import load_prices
from gavelx.jobs import Job
from gavelx.metrics import equal_share_throughput, mean_live_jobs
from gavelx.solvers.lp.highs import LinearProgram
from gavelx.solvers.planning.fluid import Demand, Fluid

Floats = NDArray[np.float64]
ITERATIONS, NEAR = 1000, 1e-9


def floor_usd(point: Point) -> float:
    """Dollars for the jobs of a point, whatever its policy. Raises `UnsolvedError` where none can be in time."""
    cluster = Cluster.parse(point.cluster, devices_per_server=1)
    jobs = tuple(jobs_of(point))
    prices = load_prices(point.prices, cluster.accelerators)
    return least_usd(jobs, cluster, prices.array(cluster.accelerators), equal_share_due_s(jobs, cluster))


def equal_share_due_s(jobs: Sequence[Job], cluster: Cluster) -> Floats:
    """When each job would be complete at rho 1, if all are: n is the mean number of live jobs in its own life."""
    speed_JA = speeds().matrix(jobs, cluster.accelerators, consolidated=True)
    arrival_s_J, steps_J, scale_J = _columns(jobs)
    due_s_J = np.full(len(jobs), np.inf)
    n_J = np.full(len(jobs), float(len(jobs)))
    for _ in range(ITERATIONS):
        before_s_J, due_s_J = (
            due_s_J,
            arrival_s_J + steps_J / equal_share_throughput(speed_JA, scale_J, cluster.devices_A, n_J),
        )
        if np.allclose(before_s_J, due_s_J, rtol=NEAR, atol=0.0):
            return due_s_J
        n_J = mean_live_jobs(arrival_s_J, due_s_J)
    raise AssertionError("the lives of equal shares did not settle")


def least_usd(jobs: Sequence[Job], cluster: Cluster, usd_per_hour_A: Floats, due_s_J: Floats) -> float:
    """The cheapest that all jobs can be complete by then; all prices must be known."""
    arrival_s_J, steps_J, scale_J = _columns(jobs)
    speed_JA = np.nan_to_num(speeds().matrix(jobs, cluster.accelerators, consolidated=True))
    demand = Demand(arrival_s_J, due_s_J, steps_J, scale_J, speed_JA)
    fluid = Fluid(demand, demand.edges(most=2 * len(jobs)))
    usd_E = usd_per_hour_A[fluid.pool_E] * scale_J[fluid.job_E] * fluid.length_s_K[fluid.interval_E] / 3600.0
    matrix = sparse.vstack([fluid.time_RE, fluid.devices_QE, fluid.done_JE], format="csr")
    lower = np.full(matrix.shape[0], -np.inf)
    lower[-fluid.J :] = 1.0 - NEAR
    upper = [fluid.window_R, np.repeat(cluster.devices_A.astype(float), fluid.K), np.full(fluid.J, np.inf)]
    program = LinearProgram(
        objective_V=-usd_E,
        lower_V=np.zeros(fluid.E),
        upper_V=np.ones(fluid.E),
        matrix_KV=matrix,
        lower_K=lower,
        upper_K=np.concatenate(upper),
    )
    return float(usd_E @ program.solve()[0])


def _columns(jobs: Sequence[Job]) -> tuple[Floats, Floats, Floats]:
    columns = zip(*((job.arrival_s, job.total_steps, job.scale_factor) for job in jobs), strict=True)
    arrival_s_J, steps_J, scale_J = (np.array(column, dtype=float) for column in columns)
    return arrival_s_J, steps_J, scale_J
