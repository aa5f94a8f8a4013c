"""The table of what budgets change hides nobody who was never done, and measures who is measured."""

from io import StringIO

from rich.console import Console

from gavelx.cli.budgeting import print_effect
from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.pricing.owners import budget_effect, owner_figures
from gavelx.simulator import simulate
from gavelx.throughputs import Setting, Throughputs

SPEEDS = Throughputs({Setting("long", "v100"): 1.0, Setting("short", "k80"): 1.0})
CLUSTER, PRICES = Cluster.parse("v100=1,k80=1"), Prices({"v100": 2.0, "k80": 0.4})


def test_a_mean_of_fewer_jobs_says_so() -> None:
    """Within the budget the long job never runs; the mean of the others falls from 5.5 h to 1 h."""
    jobs = [Job(0, "short", 3600.0, owner="x"), Job(1, "long", 36_000.0, owner="x")]
    without, within = (
        simulate(load_policy(policy), jobs, CLUSTER, SPEEDS, PRICES)
        for policy in ("fifo", "budgeted(fifo, x=0.5)")
    )
    console = Console(width=120, file=StringIO())
    print_effect(budget_effect(without, within, {"x": 0.5}), console)
    (row,) = (line for line in console.file.getvalue().splitlines() if line.startswith("x "))
    assert "2/2, 1/2" in row


def test_owners_figures_are_of_the_jobs_that_are_measured() -> None:
    jobs = [Job(n, "short", 3600.0, arrival_s=100.0 * n, owner="x") for n in range(10)]
    run = simulate(load_policy("fifo"), jobs, CLUSTER, SPEEDS, PRICES, window=slice(3, 5))
    figures, summary = owner_figures(run, "total"), run.summary()
    assert (figures.jobs, figures.completed) == (summary["jobs_total"], summary["jobs_completed"]) == (2, 2)
    assert (figures.jct_mean_s, figures.rho_mean) == (summary["jct_mean_s"], summary["rho_mean"])
    assert figures.usd == summary["cost_usd"]  # which is of the whole run
