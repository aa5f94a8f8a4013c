"""``gavelx simulate`` and ``gavelx compare``: check, run, show, write."""

import shlex
from collections.abc import Sequence
from typing import Any

from gavelx.cli.budgeting import budgets_of, check_budgets, print_effect, within_budget
from gavelx.cli.failures import Failed, print_traceback
from gavelx.cli.output import Outputs, prints_aside, stderr, stdout, write_json
from gavelx.cli.parallel import Ended, Outcome, raise_failure, run_policies
from gavelx.cli.prices import DEFAULT_PRICES, tell_of_age
from gavelx.cli.progress import progress_bars
from gavelx.cli.run_options import RunOptions
from gavelx.cli.scenario import Scenario, load_scenario
from gavelx.cli.tables import print_comparison, print_result, print_speeds
from gavelx.files.atomic import write_atomically
from gavelx.policies import load_policy, split_policies
from gavelx.policies.modifiers import ignored_mixes
from gavelx.pricing.owners import budget_effect
from gavelx.report.about import About
from gavelx.report.speeds import speeds_to_json, speeds_used
from gavelx.report.words import hours, printable
from gavelx.result import Result


def run_simulate(policy: str, typed: RunOptions, outputs: Outputs) -> int:
    """Run one policy; print its figures, or write them. Returns the exit status."""
    policies = [within_budget(policy, typed.budget), *[policy] * (typed.budget is not None)]
    failed: list[Failed] = []

    def ended(position: int, outcome: Outcome) -> None:
        if position == 0:
            raise_failure(position, outcome)
        elif isinstance(outcome, Failed):  # the run without budgets
            failed.append(outcome)

    (result, *without), scenario = _run(policies, typed, 1, outputs, ended)
    budgets = budgets_of(load_policy(policies[0]))
    effect = {"budgets": budget_effect(without[0], result, budgets)} if without else {}
    command = typed.command(f"gavelx simulate --policy {shlex.quote(policy)}")
    about = _about(scenario, typed, command)
    _write([result, *without], result.to_json() | effect | speeds_to_json(about.speeds), outputs, about)
    if outputs.table_wanted:
        print_result(result, stdout())
        print_speeds(about.speeds, stdout())
        if effect:
            print_effect(effect["budgets"], stdout())
    return max((failure.exit_code for failure in failed), default=0)


def run_compare(policies: str, typed: RunOptions, workers: int | None, outputs: Outputs) -> int:
    """Run several policies on the same jobs; print a table, and write figures, report and plot.

    If a policy fails, its row says why. Returns the exit status: 2 for a mistake of the user, 1 for one of ours.
    """
    texts = [within_budget(policy, typed.budget) for policy in split_policies(policies)]
    comparison = Comparison(texts, outputs)
    results, scenario = _run(texts, typed, workers, outputs, comparison.ended)
    command = typed.command(f"gavelx compare --policies {shlex.quote(policies)}")
    about, failed = _about(scenario, typed, command), comparison.failed
    document = {"runs": [result.to_json() for result in results], "failed": comparison.document()["failed"]}
    _write(results, document | speeds_to_json(about.speeds), outputs, about, failed)
    if outputs.table_wanted:
        print_comparison(results, stdout(), failed)
        print_speeds(about.speeds, stdout())
    return min((failure.exit_code for failure in failed), default=0)


class Comparison:
    """The outcomes so far, written to the file after each policy, so that they survive a later failure."""

    def __init__(self, policies: Sequence[str], outputs: Outputs) -> None:
        self.policies, self.outputs = policies, outputs
        self._run: dict[int, dict[str, Any]] = {}
        self._failed: dict[int, Failed] = {}

    def ended(self, position: int, outcome: Outcome) -> None:
        """Add an outcome."""
        if isinstance(outcome, Failed):
            print_traceback(outcome.error)
            self._failed[position] = outcome
        else:
            self._run[position] = outcome.to_json()
        if self.outputs.json is not None and self.outputs.table_wanted and self._waiting:
            write_json(self.document() | {"waiting": self._waiting}, self.outputs.json)

    @property
    def failed(self) -> list[Failed]:
        return [failure for _, failure in sorted(self._failed.items())]

    @property
    def _waiting(self) -> list[str]:
        known = {*self._run, *self._failed}
        return [text for position, text in enumerate(self.policies) if position not in known]

    def document(self) -> dict[str, Any]:
        """The runs and the failures, each in the order of the policies."""
        runs = [run for _, run in sorted(self._run.items())]
        return {"runs": runs, "failed": [failure.to_json() for failure in self.failed]}


@prints_aside()
def _run(
    policies: Sequence[str], typed: RunOptions, workers: int | None, outputs: Outputs, ended: Ended
) -> tuple[list[Result], Scenario]:
    """Check the options, the cheapest checks first; then run. ``ended`` is called with each policy's outcome."""
    loaded = [load_policy(text) for text in policies]
    outputs.check(*vars(typed).values())
    scenario = load_scenario(typed, frozenset().union(*(policy.opens for policy in loaded)))
    for policy in loaded:
        check_budgets(policy, scenario.rules, scenario.jobs)
    if scenario.jobs_left_out:
        stderr().print(f"left out {scenario.jobs_left_out:,} jobs that can run nowhere in {scenario.cluster}")
    for told in filter(None, (ignored_mixes(policy, scenario.jobs) for policy in loaded)):
        stderr().print(told, markup=False, soft_wrap=True)
    if typed.spot_history is not None:
        stderr().print(f"prices: {scenario.prices.name}", markup=False, soft_wrap=True)
    jobs_total = len(scenario.jobs[scenario.window or slice(None)])
    with progress_bars(policies, jobs_total, scenario.speed_samples * len(policies)) as (watch, say):

        def tell(position: int, outcome: Outcome) -> None:
            ended(position, outcome)
            if len(policies) > 1:
                say(_in_a_line(outcome))

        results = run_policies(policies, scenario, watch, workers, tell)
    tell_of_age(scenario.prices.as_of, typed.prices or DEFAULT_PRICES)
    for result in results:
        _warn(result)
    return results, scenario


def _in_a_line(outcome: Outcome) -> str:
    """An outcome on one line, printed while other policies still run."""
    if isinstance(outcome, Failed):
        return f"{printable(outcome.policy)} failed: {printable(outcome.message)}"
    summary = outcome.summary()
    jobs = f"{summary['jobs_completed']:,} of {summary['jobs_total']:,} jobs"
    return f"{printable(outcome.policy)} is done: {jobs}, JCT mean {hours(summary['jct_mean_s'])} h"


def _warn(result: Result) -> None:
    """Warn about carried-over allocations, with the first reason, and about jobs that were never complete."""
    if failures := result.solver_failures:
        times = "once" if len(failures) == 1 else f"{len(failures):,} times"
        text = f"{result.policy}: the solvers failed {times}, and the previous allocation was carried over"
        stderr().print(f"{text} ({failures[0]})", markup=False, soft_wrap=True)
    if given_up := len(result.given_up):
        jobs = "1 job was" if given_up == 1 else f"{given_up:,} jobs were"
        stderr().print(f"{result.policy}: {jobs} given up after too many failures", markup=False, soft_wrap=True)
    if left := len(result.unfinished):
        jobs = "1 job is" if left == 1 else f"{left:,} jobs are"
        text = f"{result.policy}: {jobs} not done, and the run ended because no job made progress"
        stderr().print(text, markup=False, soft_wrap=True)


def _write(
    results: Sequence[Result],
    document: dict[str, Any],
    outputs: Outputs,
    about: About,
    failed: Sequence[Failed] = (),
) -> None:
    """Write the requested files. matplotlib is loaded only for a plot or a report."""
    if outputs.json is not None:
        write_json(document, outputs.json)
    if not results and (outputs.html or outputs.plot):
        stderr().print("every policy failed: there is no report and no plot")
        return
    if outputs.html is not None:
        from gavelx.report.html import html_report  # noqa: PLC0415

        failures = [(failure.policy, failure.message) for failure in failed]
        write_atomically(outputs.html, html_report(results, about, failures))
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
        speeds=speeds_used(scenario.jobs, scenario.cluster.accelerators, scenario.throughputs),
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
