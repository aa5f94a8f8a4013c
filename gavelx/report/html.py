"""A report of a comparison: one self-contained HTML file, light or dark, wide or narrow.

The report holds no wall-clock time (the JSON has the solve times of policies), so the same run gives the same
report, byte for byte.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import jinja2
import numpy as np
from markupsafe import Markup, escape

from gavelx.report.about import About
from gavelx.report.plots import policy_style, svg_plots, type_colors
from gavelx.report.series import device_hours
from gavelx.report.speeds import factor
from gavelx.report.words import dollars, hours, number, percent, printable
from gavelx.result import Result

LONGEST_JOBS = 5


class Column(NamedTuple):
    """A figure in the table of policies: its key in a summary, its format, and whether less or more is better."""

    heading: str
    unit: str
    key: str
    text: Callable[[Any], str]
    best: Callable[[list[float]], float] | None


COLUMNS = (
    Column("JCT mean", "h", "jct_mean_s", hours, min),
    Column("JCT p50", "h", "jct_p50_s", hours, min),
    Column("JCT p99", "h", "jct_p99_s", hours, min),
    Column("makespan", "h", "makespan_s", hours, min),
    Column("cost", "US$", "cost_usd", dollars, min),
    Column("whole bill", "US$", "total_usd", dollars, min),
    Column("rho mean", "", "rho_mean", number, min),
    Column("rho max", "", "rho_max", number, min),
    Column("mu mean", "", "mu_mean", number, min),
    Column("mu max", "", "mu_max", number, min),
    Column("worse off", "than alone", "unfair_fraction", percent, min),
    Column("utilization", "", "utilization", percent, None),  # neither end is better: slow devices are busy longer
    Column("restarts", "", "restarts", "{:,.0f}".format, None),
    Column("resizes", "", "resizes", "{:,.0f}".format, None),  # of runs with elastic jobs
)


def html_report(results: Sequence[Result], about: About, failed: Sequence[tuple[str, str]] = ()) -> str:
    """The whole page. ``results``, at least one, are of the same jobs on the same cluster, one for each policy.

    ``failed`` are the policies that failed, with the reasons.
    """
    source = files("gavelx.report").joinpath("report.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["printable"] = lambda text: printable(str(text))
    environment.filters["breakable"] = _breakable
    summaries = [result.summary() for result in results]
    return environment.from_string(source).render(
        about=about,
        facts=_facts(results[0], about),
        columns=_columns(summaries),
        intervals=results[0].intervals,
        factor=factor,
        rows=[_row(position, summaries) for position in order(summaries)],
        failed=failed,
        plots={name: Markup(svg) for name, svg in svg_plots(results).items()},  # plots escape names
        policies=[_policy(position, results[position], summaries[position]) for position in order(summaries)],
    )


def _breakable(name: str) -> Markup:
    """A name with possible line breaks after brackets and underscores, so that it does not widen a table."""
    return Markup(re.sub(r"([(_])", r"\1<wbr/>", str(escape(printable(name)))))


def order(summaries: Sequence[Mapping[str, Any]]) -> list[int]:
    """Positions, best first: by jobs completed, then by mean JCT, then as given."""

    def rank(position: int) -> tuple[int, float]:
        summary = summaries[position]
        jct_mean_s = summary["jct_mean_s"]
        return -summary["jobs_completed"], math.inf if jct_mean_s is None else jct_mean_s

    return sorted(range(len(summaries)), key=rank)


def _columns(summaries: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Those that the runs have."""
    return [column for column in COLUMNS if column.key in summaries[0]]


def best_value(column: Column, summaries: Sequence[Mapping[str, Any]]) -> float | None:
    """The best value of a column, or None if all policies are equal.

    Only policies that completed the most jobs are compared, so that dropping jobs is no advantage.
    """
    most = max(summary["jobs_completed"] for summary in summaries)
    taking_part = [summary[column.key] for summary in summaries if summary["jobs_completed"] == most]
    values = [value for value in taking_part if value is not None]
    if column.best is None or most == 0 or len(summaries) < 2 or not values:
        return None
    seen = [summary[column.key] for summary in summaries]
    best = column.best(values)
    return None if all(value is not None and math.isclose(value, best) for value in seen) else best


def _row(position: int, summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    summary = summaries[position]
    most = max(each["jobs_completed"] for each in summaries)
    cells = []
    for column in _columns(summaries):
        value, best = summary[column.key], best_value(column, summaries)
        is_best = (
            best is not None
            and value is not None
            and summary["jobs_completed"] == most
            and math.isclose(value, best)
        )
        cells.append({"text": column.text(value), "best": is_best, "interval": _interval(column, summary)})
    return {
        "policy": summary["policy"],
        "swatch": _swatch(position),
        "done": f"{summary['jobs_completed']:,} / {summary['jobs_total']:,}",
        "all_done": summary["jobs_completed"] == summary["jobs_total"],
        "cells": cells,
        "anchor": f"policy-{position}",
    }


def _interval(column: Column, summary: Mapping[str, Any]) -> str:
    """The interval of a figure; empty if it has none, or is the same at both ends."""
    bounds = summary.get("intervals", {}).get(column.key)
    if bounds is None:
        return ""
    low, high = map(column.text, bounds)
    return f"{low} - {high}" if low != high else ""


def _swatch(position: int) -> dict[str, str]:
    color, dashes = policy_style(position)
    pattern = "" if isinstance(dashes, str) else " ".join(f"{2 * length:g}" for length in dashes[1])
    return {"color": color, "dashes": pattern}


def _facts(first: Result, about: About) -> list[tuple[str, str]]:
    """The facts of the run, one on a line."""
    facts = [("Jobs", about.jobs)]
    if first.measured:
        last = first.measured.stop - 1
        facts.append(("Measured", f"jobs {first.measured.start} to {last}; the run ends with them"))
    servers = len(first.cluster.servers)
    facts.append(("Cluster", f"{first.cluster} on {servers:,} server{'s' * (servers != 1)}"))
    facts.append(("Rules", f"{first.rules}, rounds of {about.round_s:g} s"))
    facts.append(("Throughput table", about.throughputs))
    prices = ", ".join(f"{name} ${usd:g}" for name, usd in about.prices_usd_per_hour.items())
    facts.append(("Prices", f"{about.prices} ({prices} per device-hour)" if prices else about.prices))
    return facts


def _policy(position: int, result: Result, summary: Mapping[str, Any]) -> dict[str, Any]:
    """The section of one policy: the use of device-hours, and the jobs that took longest."""
    return {
        "anchor": f"policy-{position}",
        "name": result.policy,
        "swatch": _swatch(position),
        "summary": summary,
        "types": _types(result),
        "jobs": _longest(result),
        "unfinished": summary["jobs_total"] - summary["jobs_completed"],
    }


def _types(result: Result) -> list[dict[str, Any]]:
    names, devices_A = result.cluster.accelerators, result.cluster.devices_A
    hours_A, cost_A, colors = device_hours(result), result.cost_usd_A, type_colors(len(names))
    available_A = devices_A * result.end_s / 3600.0
    return [
        {
            "name": name,
            "color": colors[a],
            "devices": f"{devices_A[a]:,}",
            "hours": number(float(hours_A[a])),
            "busy": percent(float(hours_A[a] / available_A[a]) if available_A[a] > 0 else None),
            "cost": dollars(float(cost_A[a])),
        }
        for a, name in enumerate(names)
    ]


def _longest(result: Result) -> list[dict[str, str]]:
    """The measured jobs that took longest, longest first; those that never completed are counted elsewhere."""
    measured = range(len(result.jobs))[result.measured or slice(None)]
    done = [j for j in measured if not np.isnan(result.jct_s_J[j])]
    longest = sorted(done, key=lambda j: -result.jct_s_J[j])[:LONGEST_JOBS]
    return [
        {
            "id": str(result.jobs[j].id),
            "type": result.jobs[j].job_type,
            "devices": str(result.jobs[j].scale_factor),
            "arrival": hours(result.jobs[j].arrival_s),
            "jct": hours(float(result.jct_s_J[j])),
            "rho": number(float(result.rho_J[j])),
            "cost": dollars(float(result.cost_usd_J[j])),
            "restarts": str(int(result.restarts_J[j])),
            "resizes": str(int(result.resizes_J[j])),
        }
        for j in longest
    ]
