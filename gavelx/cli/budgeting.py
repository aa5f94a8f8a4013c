"""``--budget``: the same policies within budgets, and what the budgets cost everybody."""

from typing import Any

from rich.console import Console

from gavelx.cli.tables import plain_table, policy_cell
from gavelx.errors import OptionError, PolicyError
from gavelx.mechanism import Rules
from gavelx.policies import Modifier, Policy, budgeted, load_policy
from gavelx.report.words import NOTHING, dollars, hours, number


def within_budget(policy: str, budget: str | None) -> str:
    """The policy's text with these budgets around it. Raises :class:`OptionError` for a bad one."""
    if budget is None:
        return policy
    load_policy(policy)  # what is wrong with it is not the budget's fault
    text = f"budgeted({policy}, {budget})"
    try:
        if not isinstance(load_policy(text), budgeted):
            raise PolicyError(f"cannot read {budget!r:.80}")
    except PolicyError as error:
        expected = "OWNER=DOLLARS_PER_HOUR between commas"
        raise OptionError(
            error.problem, where="--budget", expected=expected, hint="--budget ml=5,total=40"
        ) from None
    return text


def budgets_of(policy: Policy) -> dict[str, float]:
    """The budgets that a policy keeps; none of one without."""
    while isinstance(policy, Modifier):
        if isinstance(policy, budgeted):
            return policy.budgets
        policy = policy.policy
    return {}


def check_rules(policy: Policy, rules: Rules) -> None:
    """Budgets can be kept under these rules. Raises :class:`OptionError`."""
    if budgets_of(policy) and rules.whole_steps:
        problem = f"the rules {rules.name!r} let jobs run ahead of their shares, so no budget holds"
        raise OptionError(problem, where="--rules", expected="default, with a budget")


def print_effect(effect: dict[str, Any], console: Console) -> None:
    """One row an owner: his budget, and his figures without budgets and within them."""
    table = plain_table(title="what the budgets change", title_justify="left", title_style="bold")
    table.add_column("owner", overflow="fold")
    for heading in ("budget\n($/hour)", "$/hour", "within", "JCT mean\n(h)", "within", "rho\nmean", "within"):
        table.add_column(heading, justify="right")
    for path, row in effect.items():
        budget = row["budget_usd_per_hour"]
        cells = [NOTHING if budget is None else dollars(budget)]
        for key, cell in (("usd_per_hour", dollars), ("jct_mean_s", hours), ("rho_mean", number)):
            cells += [cell(row["without"][key]), cell(row["within"][key])]
        table.add_row(policy_cell(path), *cells)
    console.print()
    console.print(table)
    console.print("$/hour: over the hours in which any of the owner's jobs was there.", style="dim")
