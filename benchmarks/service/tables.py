"""The figures as a page: what the agents saw, what users saw, what the service says of itself."""

from collections.abc import Sequence
from typing import Any

from benchmarks import report

Row = dict[str, Any]
COLUMNS = (
    "case",
    "meanwhile",
    "heartbeats/s",
    "p50 ms",
    "p99 ms",
    "max ms",
    "rounds",
    "CPU of the service",
    "and",
)
BEATS = ("heartbeats_per_s", "heartbeat_p50_s", "heartbeat_p99_s", "heartbeat_p100_s")
SHOWN = {*BEATS, "case", "what", "rounds", "service_cpu", "heartbeat_p99.9_s", "seconds", "jobs_live"}


def markdown(about: dict[str, Any], size: dict[str, Any], rows: Sequence[Row]) -> str:
    """A page for one run."""
    said = ", ".join(f"{name} {value:g}" for name, value in size.items())
    parts = [
        "# The service under load",
        "",
        "Made by `python -m benchmarks.service`; README.md says how to read it.",
    ]
    parts += ["", report.describe(about), f"Size: {said}.", ""]
    beats = [row for row in rows if BEATS[0] in row]
    parts += [_line(COLUMNS), _line(("---",) * len(COLUMNS)), *(_line(_cells(row)) for row in beats), ""]
    parts += [f"* {row['case']}, {row['what']}: {_rest(row)}" for row in rows if BEATS[0] not in row]
    return "\n".join(parts) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    rate, *latencies = (row[name] for name in BEATS)
    figures = f"{rate:.0f}", *(f"{1000 * latency:.1f}" for latency in latencies)
    return (row["case"], row["what"], *figures, str(row["rounds"]), f"{row['service_cpu']:.0%}", _rest(row))


def _rest(row: Row) -> str:
    return ", ".join(f"{name} {short(value)}" for name, value in row.items() if name not in SHOWN)


def short(value: object) -> str:
    """A figure with three digits or so."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"
