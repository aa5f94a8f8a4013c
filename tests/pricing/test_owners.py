"""What owners got out of a run, worked by hand."""

import pytest

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.pricing.owners import NO_OWNER, budget_effect, owner_figures
from gavelx.result import Result
from gavelx.simulator import simulate
from tests.policies.small import PRICES, SPEEDS

HOUR_S = 3600.0


def run(policy: str) -> Result:
    """b runs at 3 steps/s on the slow device, which is $1 an hour; the second job comes after a quiet hour."""
    jobs = [
        Job(0, "b", 3.0 * HOUR_S, owner="ml/ann"),
        Job(1, "b", 3.0 * HOUR_S, owner="ml/bob", arrival_s=2 * HOUR_S),
        Job(2, "b", 3.0 * HOUR_S, arrival_s=5 * HOUR_S),
    ]
    return simulate(load_policy(policy), jobs, Cluster.parse("slow=1"), SPEEDS, PRICES)


def test_dollars_are_counted_over_the_hours_in_which_somebody_is_there() -> None:
    figures = owner_figures(run("fifo"), "ml")
    assert (figures.jobs, figures.completed) == (2, 2)
    assert figures.jct_mean_s == pytest.approx(HOUR_S)
    assert figures.usd == pytest.approx(2.0)
    assert figures.usd_per_hour == pytest.approx(1.0)  # two hours, not three


def test_owners_users_nobody_and_everybody() -> None:
    result = run("fifo")
    paths = ("ml", "ml/ann", "m", NO_OWNER, "total")
    assert [owner_figures(result, path).jobs for path in paths] == [2, 1, 0, 1, 3]
    nothing = owner_figures(result, "m")
    assert (nothing.jct_mean_s, nothing.rho_mean, nothing.usd, nothing.usd_per_hour) == (None, None, 0.0, 0.0)


def test_the_parts_add_up() -> None:
    result = run("max_min_fairness")
    parts = [owner_figures(result, path).usd for path in ("ml/ann", "ml/bob", NO_OWNER)]
    assert sum(parts) == pytest.approx(owner_figures(result, "total").usd)


def test_a_budget_makes_its_owner_wait_and_nobody_else() -> None:
    effect = budget_effect(run("max_min_fairness"), run("budgeted(max_min_fairness, ml=0.5)"), {"ml": 0.5})
    assert list(effect) == ["ml", NO_OWNER, "total"]
    assert effect["ml"]["within"]["jct_mean_s"] == pytest.approx(2 * HOUR_S, rel=0.1)
    assert effect["ml"]["within"]["usd_per_hour"] <= 0.5 * 1.1
    assert effect[NO_OWNER]["within"]["jct_mean_s"] == effect[NO_OWNER]["without"]["jct_mean_s"]
