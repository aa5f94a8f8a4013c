"""Results as tables in a terminal, wide or narrow."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gavelx.cli.failures import Failed
from gavelx.report.speeds import SpeedsOfType, factor
from gavelx.report.words import dollars, hours, number, percent, printable, seconds
from gavelx.result import Result


class Column(NamedTuple):
    """A heading and the function from a run's summary to its cell; shown only if ``needs`` is known and not 0."""

    heading: str
    cell: Callable[[dict[str, Any]], str]
    needs: str = "jobs_total"


TIMES = (
    Column("JCT mean\n(h)", lambda s: hours(s["jct_mean_s"])),
    Column("JCT p50\n(h)", lambda s: hours(s["jct_p50_s"])),
    Column("JCT p99\n(h)", lambda s: hours(s["jct_p99_s"])),
    Column("makespan\n(h)", lambda s: hours(s["makespan_s"])),
    Column("jobs\ndone", lambda s: f"{s['jobs_completed']}/{s['jobs_total']}"),
)
COSTS = (
    Column("utilization", lambda s: percent(s["utilization"])),
    Column("cost", lambda s: dollars(s["cost_usd"])),
    Column("whole bill", lambda s: dollars(s["total_usd"])),
    Column("restarts", lambda s: f"{s['restarts']:,}", "resizes"),
    Column("resizes", lambda s: f"{s.get('resizes', 0):,}", "resizes"),
    Column("deadlines\nmissed", lambda s: f"{s['deadlines_missed']}/{s['deadlines']}", "deadlines"),
)
FAIRNESS = (
    Column("rho\nmean", lambda s: number(s["rho_mean"])),
    Column("rho\nmax", lambda s: number(s["rho_max"])),
    Column("mu\nmean", lambda s: number(s["mu_mean"]), "mu_mean"),
    Column("mu\nmax", lambda s: number(s["mu_max"]), "mu_mean"),
)
MORE = (
    Column("worse off than alone", lambda s: percent(s["unfair_fraction"])),
    Column("policy (s)", lambda s: seconds(s["policy_seconds"])),
    Column("rounds", lambda s: f"{s['rounds']:,}"),
    Column("restarts", lambda s: f"{s['restarts']:,}"),
    Column("work lost (device-h)", lambda s: hours(s["lost_device_s"]), "lost_device_s"),
    Column("whole run (s)", lambda s: seconds(s["wall_seconds"])),
)
LEGEND = (
    "JCT: job completion time, from arrival to completion. rho: that time over the time with an equal share of "
    "the cluster; above 1, a job took longer than with its share."
)
LEGEND_MU = " mu: the same in dollars."
LEGEND_BILL = " cost: device time that jobs held. whole bill: cost, and idle device time until the run ends."

LEGEND_SPEEDS = (
    "Speeds are counted by job type and number of devices. x/÷ 1.5: 9 in 10 such speeds are within a factor of "
    "1.5 of the estimate. --strict-speeds refuses estimates; gavelx throughputs measure replaces them."
)
REASONS_MAX = 5
LONG = 500
"""Rows of a table that is laid out; a longer one is for a file or another program."""


def plain_table(**options: Any) -> Table:
    """The look of all our tables: no frame, one rule below the headings."""
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, **options)


def print_rows(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    """Print a table whose last column is text and whose other columns are numbers.

    One of more than ``LONG`` rows is printed as it is, without colours: laying it out by terminal width would take
    longer than most answers.
    """
    if len(rows) > LONG:
        rows = [[*row[:-1], printable(row[-1])] for row in rows]
        widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
        console.out(printable(title), highlight=False)
        for row in (headings, ["─" * width for width in widths], *rows):
            numbers = [cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=False)]
            console.out("  ".join([*numbers, row[-1]]).rstrip(), highlight=False)
        return
    table = plain_table(title=policy_cell(title), title_justify="left", title_style="bold")
    for heading in headings[:-1]:
        table.add_column(policy_cell(heading), justify="right", no_wrap=True)
    table.add_column(headings[-1], overflow="fold")
    for row in rows:
        table.add_row(*row[:-1], policy_cell(row[-1]))
    console.print(table)


def print_comparison(results: Sequence[Result], console: Console, failed: Sequence[Failed] = ()) -> None:
    """Print one row for each policy, in several tables if the terminal is narrow, and why policies failed."""
    summaries = [result.summary() for result in results]
    names = [failure.policy for failure in failed]
    groups = _fitting(TIMES, COSTS, FAIRNESS, width=console.width, table_of=partial(_comparison, summaries))
    tables = [_comparison(summaries, columns, names * (n == 0)) for n, columns in enumerate(groups)]
    for table in tables if results else ():
        console.print(table)
        console.print()
    if failed:
        console.print(_failures(failed))
        console.print()
    if line := _best(summaries):
        console.print(line, markup=False)
    if results:
        console.print(_legend(summaries), style="dim")


def _best(summaries: Sequence[dict[str, Any]]) -> str:
    """In which part of the repetitions with sampled speeds each policy had the lowest mean JCT."""
    shares = {summary["policy"]: summary.get("best_jct_mean_share") for summary in summaries}
    won = [f"{printable(policy)} in {share:.0%}" for policy, share in shares.items() if share]
    return f"Lowest mean JCT: {', '.join(won)} of the repetitions (ties count for each)." if won else ""


def _fitting(
    *groups: Sequence[Column], width: int, table_of: Callable[[Sequence[Column]], Table]
) -> list[Sequence[Column]]:
    """All columns in one table if it fits; else a table a group, and more for a group that is too wide."""
    console = Console(width=1000)

    def fits(columns: Sequence[Column]) -> bool:
        return console.measure(table_of(columns)).maximum <= width

    if fits(together := [column for group in groups for column in group]):
        return [together]
    split: list[list[Column]] = []
    for group in groups:
        split.append([])
        for column in group:
            if split[-1] and not fits([*split[-1], column]):
                split.append([])
            split[-1].append(column)
    return list(split)


def _comparison(
    summaries: Sequence[dict[str, Any]], columns: Sequence[Column], failed: Sequence[str] = ()
) -> Table:
    table = plain_table()
    longest = max(map(len, (*(summary["policy"] for summary in summaries), *failed)), default=0)
    table.add_column("policy", overflow="fold", min_width=min(longest, 32))
    columns = [column for column in columns if _needed(column, summaries)]
    for column in columns:
        table.add_column(column.heading, justify="right")
    for summary in summaries:
        table.add_row(
            policy_cell(summary["policy"]), *(_with_interval(column, summary, "\n") for column in columns)
        )
    for name in failed:
        table.add_row(policy_cell(name), "failed", *[""] * (len(columns) - 1))
    return table


def _failures(failed: Sequence[Failed]) -> Table:
    """A table of the policies that failed, with the reasons."""
    table = plain_table()
    table.add_column("policy", overflow="fold", min_width=min(max(len(each.policy) for each in failed), 32))
    table.add_column("why it failed", overflow="fold")
    for each in failed:
        table.add_row(policy_cell(each.policy), policy_cell(each.message))
    return table


def print_result(result: Result, console: Console) -> None:
    """Print the figures of one run, one on a line."""
    summary = result.summary()
    table = plain_table(show_header=False)
    table.add_row("policy", policy_cell(summary["policy"]))
    for column in (*TIMES, *COSTS, *FAIRNESS, *MORE):
        if _needed(column, [summary]):
            table.add_row(column.heading.replace("\n", " "), _with_interval(column, summary, "   "))
    console.print(table)
    console.print(_legend([summary]), style="dim")


def _with_interval(column: Column, summary: dict[str, Any], between: str) -> str:
    """A cell, with the interval of its figure if it has one."""
    intervals = summary.get("intervals", {})
    ends = [column.cell(summary | {name: bounds[side] for name, bounds in intervals.items()}) for side in (0, 1)]
    return column.cell(summary) + (f"{between}[dim]{ends[0]} - {ends[1]}[/dim]" if ends[0] != ends[1] else "")


def print_speeds(rows: Sequence[SpeedsOfType], console: Console) -> None:
    """Print which speeds are measured and which estimated, by accelerator type; nothing if all are measured."""
    if not rows:
        return
    counts = {
        "measured": [f"{row.measured:,}" for row in rows],
        "estimated": [f"{row.estimated:,}" for row in rows],
        "cannot\nrun": [f"{row.cannot_run:,}" if row.cannot_run else "" for row in rows],
        "unknown": [f"{row.unknown:,}" if row.unknown else "" for row in rows],
    }
    counts = {heading: cells for heading, cells in counts.items() if any(cells)}
    widths = {
        "typical\nrange": [factor(row.times_wider) for row in rows],
        "widest\nrange": [factor(row.widest) for row in rows],
    }
    together = _by_type(rows, counts | widths)
    fits = Console(width=1000).measure(together).maximum <= console.width
    for table in [together] if fits else [_by_type(rows, counts), _by_type(rows, widths)]:
        console.print()
        console.print(table)
    for row in rows:
        for reason in row.reasons[:REASONS_MAX]:
            console.print(f"{row.accelerator}: {reason}", markup=False, soft_wrap=True)
        if (more := len(row.reasons) - REASONS_MAX) > 0:
            console.print(f"{row.accelerator}: {more} more job types cannot run", markup=False, soft_wrap=True)
    if any(row.estimated for row in rows):
        console.print(LEGEND_SPEEDS, style="dim")


def _by_type(rows: Sequence[SpeedsOfType], columns: Mapping[str, Sequence[str]]) -> Table:
    table = plain_table()
    table.add_column("speeds on", overflow="fold")
    for heading in columns:
        table.add_column(heading, justify="right")
    for row, *cells in zip(rows, *columns.values(), strict=True):
        table.add_row(policy_cell(row.accelerator), *cells)
    return table


def _needed(column: Column, summaries: Sequence[dict[str, Any]]) -> bool:
    return not summaries or any(summary.get(column.needs) for summary in summaries)


def _legend(summaries: Sequence[dict[str, Any]]) -> str:
    text = LEGEND + LEGEND_MU * any(summary["mu_mean"] is not None for summary in summaries) + LEGEND_BILL
    if samples := max((summary.get("speed_samples", 0) for summary in summaries), default=0):
        text += f" {interval_legend(samples, summaries[0].get('interval_level', 0.9))}"
    return text


def interval_legend(samples: int, level: float) -> str:
    """What stands below a figure where speeds are estimated."""
    return (
        f"a - b: {level:.0%} interval of {samples} repetitions: more runs, with speeds drawn from the ranges of "
        "the estimated ones (--speed-samples). A figure is that of the likeliest speeds, and may lie outside."
    )


def policy_cell(name: str) -> str:
    """A policy's name as rich text, never read as markup."""
    return escape(printable(name))
