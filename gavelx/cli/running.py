"""``gavelx simulate`` and ``gavelx compare``: check, run, show, write."""

import shlex
from collections.abc import Sequence
from typing import Any

from gavelx.cli.output import STDOUT, check_outputs, plot_path, stdout, write_json
from gavelx.cli.parallel import run_policies
from gavelx.cli.progress import progress_bars
from gavelx.cli.scenario import RunOptions, Scenario, load_scenario
from gavelx.cli.tables import print_comparison, print_result
from gavelx.files.atomic import write_atomically
from gavelx.policies import load_policy, split_policies
from gavelx.result import Result


def run_simulate(policy: str, typed: RunOptions, json_out: str | None, html_out: str | None) -> None:
    """Run one policy; print its figures, or write them."""
    (result,), scenario = _run([policy], typed, 1, json_out, html_out)
    _write(result.to_json(), json_out)
    if html_out is not None:
        _write_report([result], scenario, typed, f"gavelx simulate --policy {shlex.quote(policy)}", html_out)
    if json_out != STDOUT:
        print_result(result, stdout())


def run_compare(
    policies: str, typed: RunOptions, workers: int | None, json_out: str | None, html_out: str | None
) -> None:
    """Run several policies on the same jobs; print a table, and write figures and report."""
    results, scenario = _run(split_policies(policies), typed, workers, json_out, html_out)
    _write({"runs": [result.to_json() for result in results]}, json_out)
    if html_out is not None:
        _write_report(results, scenario, typed, f"gavelx compare --policies {shlex.quote(policies)}", html_out)
    if json_out != STDOUT:
        print_comparison(results, stdout())


def _run(
    policies: Sequence[str], typed: RunOptions, workers: int | None, json_out: str | None, html_out: str | None
) -> tuple[list[Result], Scenario]:
    """Find the user's mistakes first, cheapest first; then run."""
    for text in policies:
        load_policy(text)
    check_outputs(json_out, html_out)
    scenario = load_scenario(typed)
    jobs_total = len(scenario.jobs[scenario.window or slice(None)])
    with progress_bars(policies, jobs_total) as watch:
        return run_policies(policies, scenario, watch, workers), scenario


def _write(document: dict[str, Any], json_out: str | None) -> None:
    if json_out is not None:
        write_json(document, json_out)


def _write_report(
    results: Sequence[Result], scenario: Scenario, typed: RunOptions, command: str, html_out: str
) -> None:
    from gavelx.report.html import About, html_report  # noqa: PLC0415  (matplotlib: only for a report)
    from gavelx.report.plots import png_plot  # noqa: PLC0415

    about = About(
        jobs=_jobs_in_words(typed, len(scenario.jobs)),
        throughputs=typed.table,
        prices=scenario.prices.name or typed.prices or "none",
        prices_usd_per_hour=dict(scenario.prices.usd_per_hour),
        round_s=scenario.rules.round_s,
        command=typed.command(command),
    )
    write_atomically(html_out, html_report(results, about))
    write_atomically(plot_path(html_out), png_plot(results))


def _jobs_in_words(typed: RunOptions, jobs_total: int) -> str:
    if typed.trace is not None:
        return f"trace {typed.trace}, {jobs_total:,} jobs"
    words = [f"{jobs_total:,} random jobs, seed {typed.seed}"]
    words.append(f"{typed.arrival_rate:g} arriving per hour" if typed.arrival_rate else "all at the start")
    words += ["some on several devices"] * typed.multi_gpu + ["some with weight 5"] * typed.multi_priority
    return ", ".join(words)
