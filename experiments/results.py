"""RESULTS.md: what was run, where and at what cost; then a section for each experiment."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import describe
from experiments.compare import Row
from experiments.curves import Sweep
from experiments.experiment import markdown_table
from experiments.points import why_not
from experiments.store import Store
from gavelx.files.atomic import write_atomically

SESSIONS = "sessions.jsonl"
SATURATED = 2.0
"""A load counts as saturated where a published mean is so many times that at the lowest load."""


def write_results(folder: Path, sections: Sequence[str], store: Store, module: str = "experiments") -> None:
    """Write RESULTS.md into the folder, beside the plots; ``module`` is what was run to make it."""
    write_atomically(folder / "RESULTS.md", "\n".join([_head(_sessions(folder), store, module), *sections]))


def add_session(folder: Path, session: dict[str, Any]) -> None:
    """Note that a command was run, and what it did."""
    with (folder / SESSIONS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(session) + "\n")


def _sessions(folder: Path) -> list[dict[str, Any]]:
    path = folder / SESSIONS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def _head(sessions: Sequence[dict[str, Any]], store: Store, module: str) -> str:
    core_s = sum(record["cpu_seconds"] for _, record in store)
    stopped = sum(bool(record["stopped"]) for _, record in store)
    lines = [
        "# Results",
        "",
        f"Made by `python -m {module}`; README.md says what the columns mean. The points are in `points.jsonl`.",
        "",
        f"{len(store)} points, {core_s / 3600:.2f} core-hours ({core_s:,.0f} s of processor time); "
        f"{stopped} of them were stopped at a limit.",
        "",
    ]
    for session in sessions:
        what = f"{session['points']} points in {session['wall_seconds']:,.0f} s, code {session['code']}"
        lines.append(f"* `{session['command']}`: {what}. {describe(session['machine'])}")
        lines += [f"  * failed: {failure}" for failure in session["failed"]]
    return "\n".join(lines) + "\n"


def section(sweep: Sweep, rows: Sequence[Row], done: str) -> str:
    """Plot, summary by curve, every load, and what could not be simulated."""
    parts = [f"## {sweep.title}", f"![{sweep.title}]({sweep.name}.png)", done]
    if rows:
        parts += [_summary(rows), _loads(sweep, rows)]
    missing = {curve.label: why_not(curve.policy) for curve in sweep.curves}
    parts += [f"* {label} is not here: {reason}" for label, reason in missing.items() if reason]
    return "\n\n".join(parts) + "\n"


def _summary(rows: Sequence[Row]) -> str:
    """Median differences by curve and rules, below saturation and beyond."""
    titles = ["policy", "ours", "rules", "loads"]
    titles += [f"to {source}, {where}" for source in ("stored", "replication") for where in ("below", "saturated")]
    lines = []
    for curve, rules in dict.fromkeys((row.curve, row.rules) for row in rows):
        mine = [row for row in rows if (row.curve, row.rules) == (curve, rules)]
        line = [curve.label, f"`{curve.policy}`", rules, str(len(mine))]
        for source in ("stored_h", "replication_h"):
            published = {row.load: getattr(row, source) for row in mine if getattr(row, source)}
            least = published[min(published)] if published else 0.0
            for saturated in (False, True):
                changes = [
                    row.change(published[row.load])
                    for row in mine
                    if row.load in published and (published[row.load] > SATURATED * least) == saturated
                ]
                known = [change for change in changes if change is not None]
                line.append(f"{median(known):+.1%} ({len(known)})" if known else "")
        lines.append(line)
    return markdown_table(titles, lines)


def _loads(sweep: Sweep, rows: Sequence[Row]) -> str:
    """A line for each load of each curve."""
    fairness = any(sweep.fairness(curve) for curve in sweep.curves)
    titles = ["policy", sweep.load_name, "rules", "ours, h", "completed", "stored, h", "", "replication, h", ""]
    titles += ["ratio to isolated", "stored", "rho"] if fairness else []
    lines = []
    for row in rows:
        line = [row.curve.label, f"{row.load:g}", row.rules, _ours(row), f"{row.completed:.1%}"]
        for other_h in (row.stored_h, row.replication_h):
            line += [_number(other_h), _percent(row.change(other_h))]
        line += [_number(row.ratio), _number(row.ratio_stored), _number(row.rho)] if fairness else []
        lines.append(line)
    return markdown_table(titles, lines)


def _ours(row: Row) -> str:
    if row.mean_h is None:
        return f"stopped at {row.stopped}" if row.stopped else "jobs starved"
    return f"{row.mean_h:.2f} ± {row.deviation_h:.2f} ({len(row.value_h)})"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.1%}"
