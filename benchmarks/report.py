"""What came of a run: a table for the terminal and for RESULTS.md, and the machine it ran on."""

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

LIBRARIES = ("cvxpy", "ecos", "numpy", "scipy", "highspy", "clarabel")
COLUMNS = (
    "benchmark",
    "size",
    "published s",
    "ours s",
    "ratio median (min..max)",
    "pairs",
    "target",
    "agreement",
)
FOLDER = Path(__file__).parent


def machine() -> dict[str, Any]:
    """What the figures depend on, apart from the code."""
    return {
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in LIBRARIES},
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_before": os.getloadavg(),
    }


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """One line of the table, from the row as it stands in the JSON file."""
    size = row["size"] if row["size"] == row["against"] else f"{row['size']} (published: {row['against']})"
    if not row["pairs"]:
        return (row["name"], size, "", "", "", "0", _target(row), row["failed"])
    spread = f"{row['ratio_median']:.1f} ({row['ratio_min']:.1f}..{row['ratio_max']:.1f})"
    seconds = f"{row['published_s_median']:.3g}", f"{row['ours_s_median']:.3g}"
    return (row["name"], size, *seconds, spread, str(len(row["pairs"])), _target(row), _agreement(row))


def _target(row: dict[str, Any]) -> str:
    if row["target"] is None:
        return "-"
    if not row["pairs"]:
        return f"{row['target']:g}"
    met = row["ratio_median"] >= row["target"] and not row["wrong"] and not row["failed"]
    return f"{row['target']:g} {'met' if met else 'missed'}"


def _agreement(row: dict[str, Any]) -> str:
    """The largest difference of objectives, how surely capacity binds, and what is wrong."""
    pairs = row["pairs"]
    parts = [f"objectives {max((pair['difference'] for pair in pairs), key=abs):+.0e}"]
    if not row["exact"]:
        parts = [f"ours {max((pair['difference'] for pair in pairs), key=abs):+.1%}"]
    gaps = [pair["gap"] for pair in pairs if pair["gap"] is not None]
    if gaps:
        parts.append(f"gap {max(gaps):.0e}")
    if pairs[0]["freedom"] is not None:
        parts.append(f"capacity binds (unlimited: {min(pair['freedom'] for pair in pairs):.0%} better)")
    if pairs[0]["peak_mb"] is not None:
        parts.append(f"{max(pair['peak_mb'] for pair in pairs):.0f} MB")
    warned = sum(any("inaccurate" in text for text in pair["warnings"]) for pair in pairs)
    if warned:
        parts.append(f"published inaccurate in {warned}")
    parts += [f"WRONG: {text}" for text in row["wrong"]] + [row["failed"]] * bool(row["failed"])
    return ", ".join(parts)


def terminal(rows: Sequence[dict[str, Any]]) -> str:
    """The table in columns."""
    lines = [COLUMNS, *(cells(row) for row in rows)]
    width = [max(len(line[k]) for line in lines) for k in range(len(COLUMNS))]
    return "\n".join("  ".join(cell.ljust(width[k]) for k, cell in enumerate(line)).rstrip() for line in lines)


def markdown(files: Sequence[Path]) -> str:
    """RESULTS.md: a table for each file of results, with the machine it was made on."""
    parts = ["# Results", "", "Made by `make bench` from the files in `results/`; README.md says how to read it."]
    for path in files:
        run = json.loads(path.read_text(encoding="utf-8"))
        parts += ["", f"## {path.stem}", "", describe(run["machine"]), ""]
        parts += [_line(COLUMNS), _line(("---",) * len(COLUMNS)), *(_line(cells(row)) for row in run["rows"])]
        parts += ["", *dict.fromkeys(f"* `{row['name']}`: {_sides(row)}" for row in run["rows"])]
    return "\n".join(parts) + "\n"


def _sides(row: dict[str, Any]) -> str:
    return f"{row['says']}; {row['published']} against `{row['ours']}`"


def describe(about: dict[str, Any]) -> str:
    """The machine, in a sentence."""
    libraries = ", ".join(f"{name} {number}" for name, number in about["libraries"].items())
    before, after = (" ".join(f"{load:.2f}" for load in about[key]) for key in ("load_before", "load_after"))
    return (
        f"{about['cpu']}, {about['cores']} cores; Python {about['python']}, {libraries}; "
        f"load average {before} before, {after} after."
    )


def save(path: Path, about: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """Write the run so far; whatever was complete is kept if a later benchmark is ended."""
    about = {**about, "load_after": os.getloadavg()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n", encoding="utf-8")


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(texts) + " |"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    names = [line for line in info.read_text().splitlines() if "model name" in line] if info.exists() else []
    return names[0].partition(":")[2].strip() if names else platform.processor() or platform.machine()
