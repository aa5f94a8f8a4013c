"""A gang's fastest type is one that has room for it."""

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.simulator import simulate
from gavelx.throughputs import Setting, Throughputs


def test_a_new_gang_may_run_at_once_where_it_is_fastest_of_where_it_fits() -> None:
    speeds = Throughputs(
        {Setting("net", name, n): speed * n for name, speed in (("v100", 10.0), ("k80", 1.0)) for n in (1, 2)}
    )
    old = [Job(n, "net", 72_000.0, arrival_s=10.0) for n in range(25)]
    new = Job(99, "net", 1000.0, scale_factor=2, arrival_s=700.0)
    result = simulate(load_policy("max_min_fairness"), [*old, new], Cluster.parse("v100=1,k80=30"), speeds)
    assert result.jct_s_J[-1] == 500.0
