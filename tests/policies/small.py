"""Two kinds of jobs on a fast and a slow device: small enough to work out optima by hand."""

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.prices import Prices
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Throughputs

SPEEDS = Throughputs(
    {Setting("a", "fast"): 4.0, Setting("a", "slow"): 1.0, Setting("b", "fast"): 3.0, Setting("b", "slow"): 3.0}
)
PRICES = Prices({"fast": 3.0, "slow": 1.0})


def snapshot(*job_types: str, cluster: str = "fast=1,slow=1", prices: Prices = PRICES) -> Snapshot:
    """Fresh jobs of these types, 1,000 steps each."""
    jobs = [Job(i, job_type, 1000.0) for i, job_type in enumerate(job_types)]
    return Snapshot.of(jobs, Cluster.parse(cluster), SPEEDS, prices)
