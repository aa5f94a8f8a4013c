"""``--budget``: the same policies within budgets, and the effect of the budgets on each owner."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console

from gavelx.allocation import Allocation
from gavelx.asking import ask
from gavelx.cli.tables import plain_table, policy_cell
from gavelx.errors import OptionError, PolicyError, did_you_mean
from gavelx.explain.spending import Spending, spending
from gavelx.jobs import Job
from gavelx.mechanism import Rules
from gavelx.policies import Modifier, Policy, budgeted, load_policy
from gavelx.policies.budgets import TOTAL
from gavelx.policies.modifiers import within
from gavelx.published import AnyRules
from gavelx.report.words import NOTHING, dollars, hours, number, percent
from gavelx.snapshot import Snapshot

NEAR = 1e-6
A_LITTLE = 0.01
"""Part by which a budget is widened to find its marginal value: small enough to keep the same basis."""


def within_budget(policy: str, budget: str | None) -> str:
    """The policy's text wrapped in these budgets. Raises :class:`OptionError` for a bad budget."""
    if budget is None:
        return policy
    load_policy(policy)  # first, so that an error of the policy is not reported as one of --budget
    text = f"budgeted({policy}, {', '.join(part.strip() for part in budget.split(','))})"
    try:
        if not isinstance(load_policy(text), budgeted):
            raise PolicyError(f"cannot read {budget!r:.80}")
    except PolicyError as error:
        expected = "OWNER=DOLLARS_PER_HOUR between commas"
        raise OptionError(
            error.problem, where="--budget", expected=expected, hint="--budget ml=5,total=40"
        ) from None
    return text


def with_budgets(policy: Policy, budgets: Mapping[str, float] | None) -> Policy:
    """The same policy with these budgets in place of its own; None: without budgets."""
    assert isinstance(policy, Modifier)
    if isinstance(policy, budgeted):
        return policy.policy if budgets is None else budgeted(policy.policy, budgets)
    return within(policy, with_budgets(policy.policy, budgets))


def spending_of(policy: Policy, allocation: Allocation, snapshot: Snapshot) -> tuple[Spending, ...]:
    """The effect of this policy's budgets on this snapshot, one entry for each owner; empty without budgets."""
    if not (budgets := budgets_of(policy)):
        return ()
    wider = {}
    for owner, usd in budgets.items():
        more = max(usd, 1.0) * A_LITTLE
        wider[owner] = more, ask(with_budgets(policy, {**budgets, owner: usd + more}), snapshot)
    return spending(allocation, ask(with_budgets(policy, None), snapshot), budgets, wider)


def print_spending(rows: Sequence[Spending], console: Console) -> None:
    """Print one row for each owner: budget, dollars, speed, and the value of one more dollar."""
    if not rows:
        return
    table = plain_table()
    table.add_column("owner", overflow="fold")
    for heading in ("budget\n($/hour)", "spends", "without\nbudgets", "speed against\nwithout", "one more dollar"):
        table.add_column(heading, justify="right")
    for row in rows:
        gain = row.per_dollar if row.is_spent else row.per_dollar and 0.0
        worth = NOTHING if gain is None else "nothing" if abs(gain) < NEAR else f"{gain:+.2%}"
        cells = (dollars(row.usd_per_hour), dollars(row.without_usd_per_hour), percent(row.speed), worth)
        table.add_row(policy_cell(row.owner), NOTHING if row.budget is None else dollars(row.budget), *cells)
    console.print()
    console.print(table)
    legend = (
        "one more dollar: the change of the objective (of a sum of logarithms: of the geometric mean of its terms)"
    )
    console.print(f"{legend} with one more dollar an hour.", style="dim")


def budgets_of(policy: Policy) -> dict[str, float]:
    """The budgets of a policy; empty for a policy without budgets."""
    while isinstance(policy, Modifier):
        if isinstance(policy, budgeted):
            return policy.budgets
        policy = policy.policy
    return {}


def check_budgets(policy: Policy, rules: AnyRules, jobs: Iterable[Job]) -> None:
    """Raise :class:`OptionError` if the rules cannot keep budgets, or if an owner with a budget has no job."""
    if not (budgets := budgets_of(policy)):
        return
    if not isinstance(rules, Rules):
        problem = f"the rules {rules.name!r} let jobs run ahead of their shares, so no budget holds"
        raise OptionError(problem, where="--rules", expected="default, with a budget")
    owners = {job.owner.rsplit("/", up)[0] for job in jobs for up in range(job.owner.count("/") + 1)}
    for owner in budgets:
        if owner not in {*owners, TOTAL}:
            hint = did_you_mean(owner, sorted({*owners, TOTAL} - {""}))
            raise OptionError(
                f"no job belongs to {owner!r:.80}", where="--budget", expected="an owner of jobs", hint=hint
            )


def print_effect(effect: dict[str, Any], console: Console) -> None:
    """Print one row for each owner: budget, and figures without budgets and within them."""
    table = plain_table(title="what the budgets change", title_justify="left", title_style="bold")
    table.add_column("owner", overflow="fold")
    for heading in ("budget\n($/hour)", "$/hour", "within", "JCT mean\n(h)", "within", "rho\nmean", "within"):
        table.add_column(heading, justify="right")
    unfinished = any(run["completed"] < run["jobs"] for row in effect.values() for run in _runs(row))
    if unfinished:
        table.add_column("jobs done,\nwithin", justify="right")
    for path, row in effect.items():
        budget = row["budget_usd_per_hour"]
        cells = [NOTHING if budget is None else dollars(budget)]
        for key, cell in (("usd_per_hour", dollars), ("jct_mean_s", hours), ("rho_mean", number)):
            cells += [cell(run[key]) for run in _runs(row)]
        if unfinished:
            cells.append(", ".join(f"{run['completed']:,}/{run['jobs']:,}" for run in _runs(row)))
        table.add_row(policy_cell(path), *cells)
    console.print()
    console.print(table)
    console.print("$/hour: over the hours in which the owner had any job.", style="dim")


def _runs(row: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """An owner's figures without budgets, and within them."""
    return row["without"], row["within"]
