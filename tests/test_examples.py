"""The examples: short, fit for the command line, and through the kit."""

import ast
from pathlib import Path

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.files.snapshots import write_snapshot
from gavelx.jobs import Job
from gavelx.policies import View, load_policy
from gavelx.prices import Prices
from gavelx.snapshot import Snapshot
from gavelx.testing import PolicyConformance
from gavelx.throughputs import Pairing, Setting, Throughputs
from tests.cli.conftest import shell as shell  # noqa: PLC0414  (a fixture)
from tests.cli.running import Shell

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
TEAM_BUDGET = f"{Path(__file__).parents[1] / 'examples' / 'team_budget.py'}:policy"
SPEEDS = Throughputs(
    {Setting("net", "fast"): 10.0, Setting("net", "slow"): 1.0},
    {Pairing("net", "net", "fast"): 6.0, Pairing("net", "net", "slow"): 0.7},
)
PRICES = Prices({"fast": 10.0, "slow": 1.0})


class TestTeamBudget(PolicyConformance):
    policy = load_policy(TEAM_BUDGET)
    test_the_names_of_owners_do_not_matter = None  # it names teams
    unique = True
    amounts = ("usd",)
    examples = 9


def test_every_example_goes_through_the_kit() -> None:
    tried = [
        name for name, value in globals().items() if name.startswith("Test") and value is not PolicyConformance
    ]
    assert tried == ["Test" + path.stem.title().replace("_", "") for path in EXAMPLES]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_at_most_ten_lines_of_code(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            del node.body[0]
    code = [line for line in ast.unparse(tree).splitlines() if line]
    assert len(code) <= 10, code


def teams(*owners: str, **known: bool) -> Snapshot:
    jobs = [Job(j, "net", 1000.0, owner=owner) for j, owner in enumerate(owners)]
    return Snapshot.of(jobs, Cluster.parse("fast=4,slow=4"), SPEEDS, PRICES, **known)


def test_a_team_stays_within_its_budget_and_the_others_have_the_rest() -> None:
    """Three jobs of a share 12 dollars an hour; b has 20 for one job, which is more than it can use."""
    allocation = load_policy(TEAM_BUDGET).allocate(teams("a/ann", "a/bob", "a", "b", ""))
    cost_J = allocation.share_JA @ [10.0, 1.0]
    assert cost_J[:3].sum() == pytest.approx(12.0)
    assert allocation.share_JA[3:] == pytest.approx(np.array([[1.0, 0.0], [1.0, 0.0]]))
    # a dollar buys one step/s per hour on either type
    assert allocation.throughput_J[:3] == pytest.approx([4.0] * 3)


def test_the_costs_of_jobs_add_up_to_the_bill_in_pairs_too() -> None:
    snapshot = teams("a", "a/ann", "b", pairs=True).open("pairs")
    view, share_C = View(snapshot), np.linspace(0.1, 1.0, len(snapshot.configurations))
    of_job = view.usd_per_hour_of_job
    assert of_job(share_C).sum() == pytest.approx(view.usd_per_hour(share_C)[0])
    of_a = of_job.where(view.team_J == "a").total()
    assert of_a(share_C)[0] == pytest.approx(of_job(share_C)[:2].sum())


def test_the_command_line_takes_the_file(shell: Shell, tmp_path: Path) -> None:
    write_snapshot(tmp_path / "snapshot.json", teams("a", "b"))
    ran = shell("allocate", "--policy", TEAM_BUDGET, "--snapshot", tmp_path / "snapshot.json")
    assert (ran.code, "TeamCost(team='a') <= 12" in " ".join(ran.out.split())) == (0, True), ran.out + ran.err
