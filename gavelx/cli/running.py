"""``gavelx simulate`` and ``gavelx compare``: check, run, show, write."""

import shlex
from collections.abc import Sequence
from typing import Any

from gavelx.cli.budgeting import budgets_of, check_budgets, print_effect, within_budget
from gavelx.cli.output import Outputs, stderr, stdout, write_json
from gavelx.cli.parallel import run_policies
from gavelx.cli.progress import progress_bars
from gavelx.cli.run_options import RunOptions
from gavelx.cli.scenario import Scenario, load_scenario
from gavelx.cli.tables import print_comparison, print_result
from gavelx.files.atomic import write_atomically
from gavelx.policies import load_policy, split_policies
from gavelx.pricing.owners import budget_effect
from gavelx.report.about import About
from gavelx.result import Result


def run_simulate(policy: str, typed: RunOptions, outputs: Outputs) -> None:
    """Run one policy; print its figures, or write them."""
    policies = [within_budget(policy, typed.budget), *[policy] * (typed.budget is not None)]
    (result, *without), scenario = _run(policies, typed, 1, outputs)
    budgets = budgets_of(load_policy(policies[0]))
    effect = {"budgets": budget_effect(without[0], result, budgets)} if without else {}
    command = typed.command(f"gavelx simulate --policy {shlex.quote(policy)}")
    _write([result, *without], result.to_json() | effect, outputs, _about(scenario, typed, command))
    if outputs.table_wanted:
        print_result(result, stdout())
        if effect:
            print_effect(effect["budgets"], stdout())


def run_compare(policies: str, typed: RunOptions, workers: int | None, outputs: Outputs) -> None:
    """Run several policies on the same jobs; print a table, and write figures, report and plot."""
    texts = [within_budget(policy, typed.budget) for policy in split_policies(policies)]
    results, scenario = _run(texts, typed, workers, outputs)
    command = typed.command(f"gavelx compare --policies {shlex.quote(policies)}")
    document = {"runs": [result.to_json() for result in results]}
    _write(results, document, outputs, _about(scenario, typed, command))
    if outputs.table_wanted:
        print_comparison(results, stdout())


def _run(
    policies: Sequence[str], typed: RunOptions, workers: int | None, outputs: Outputs
) -> tuple[list[Result], Scenario]:
    """Find the user's mistakes first, cheapest first; then run."""
    loaded = [load_policy(text) for text in policies]
    outputs.check(*vars(typed).values())
    scenario = load_scenario(typed)
    for policy in loaded:
        check_budgets(policy, scenario.rules, scenario.jobs)
    if scenario.jobs_left_out:
        stderr().print(f"left out {scenario.jobs_left_out:,} jobs that can run nowhere in {scenario.cluster}")
    if typed.spot_history is not None:
        stderr().print(f"prices: {scenario.prices.name}", markup=False, soft_wrap=True)
    jobs_total = len(scenario.jobs[scenario.window or slice(None)])
    with progress_bars(policies, jobs_total) as watch:
        results = run_policies(policies, scenario, watch, workers)
    for result in results:
        _warn(result)
    return results, scenario


def _warn(result: Result) -> None:
    """Say that allocations were carried over, and why the first one was; and which jobs were never done."""
    if failures := result.solver_failures:
        times = "once" if len(failures) == 1 else f"{len(failures):,} times"
        text = f"{result.policy}: the solvers failed {times}, and the allocation before was carried over"
        stderr().print(f"{text} ({failures[0]})", markup=False, soft_wrap=True)
    if given_up := len(result.given_up):
        jobs = "1 job was" if given_up == 1 else f"{given_up:,} jobs were"
        stderr().print(f"{result.policy}: {jobs} given up after too many failures", markup=False, soft_wrap=True)
    if left := len(result.unfinished):
        jobs = "1 job is" if left == 1 else f"{left:,} jobs are"
        text = f"{result.policy}: {jobs} not done, and the run ended where nobody got any further"
        stderr().print(text, markup=False, soft_wrap=True)


def _write(results: Sequence[Result], document: dict[str, Any], outputs: Outputs, about: About) -> None:
    """Write what was asked for. matplotlib is loaded for a plot or a report only."""
    if outputs.json is not None:
        write_json(document, outputs.json)
    if outputs.html is not None:
        from gavelx.report.html import html_report  # noqa: PLC0415

        write_atomically(outputs.html, html_report(results, about))
    if outputs.plot is not None:
        from gavelx.report.plots import png_plot  # noqa: PLC0415

        write_atomically(outputs.plot, png_plot(results))


def _about(scenario: Scenario, typed: RunOptions, command: str) -> About:
    return About(
        jobs=_jobs_in_words(typed, scenario),
        throughputs=typed.table,
        prices=scenario.prices.name or typed.prices or "none",
        round_s=scenario.rules.round_s,
        prices_usd_per_hour=dict(scenario.prices.usd_per_hour),
        command=command,
    )


def _jobs_in_words(typed: RunOptions, scenario: Scenario) -> str:
    jobs_total, left_out = len(scenario.jobs), scenario.jobs_left_out
    without = f" ({left_out:,} that can run nowhere are left out)" if left_out else ""
    if typed.trace is not None:
        return f"trace {typed.trace}, {jobs_total:,} jobs{without}"
    words = [f"{jobs_total:,} random jobs{without}, seed {typed.seed}"]
    words.append(f"{typed.arrival_rate:g} arriving per hour" if typed.arrival_rate else "all at the start")
    words += ["some on several devices"] * typed.multi_gpu + ["some with weight 5"] * typed.multi_priority
    return ", ".join(words)
