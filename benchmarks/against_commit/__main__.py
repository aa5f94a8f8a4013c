"""How much processor time work takes now, against a commit of the past: both sides in one run, in turns.

    python -m benchmarks.against_commit [COMMIT] [--only TEXT] [--pairs 5] [--json OUT] [--below 0.8]
    python -m benchmarks.against_commit HEAD~1 --quick --pairs 3 --below 0.8         # what CI watches

The commit is checked out below ``build/against``, once, and installed there with its own Makefile and constraints,
if these are not those of here. Each run is a process of its own, which counts its processor time from when its
inputs are made. Answers that differ are marked. Of simulations it says as well what the ratio would be at most, if
everything but the policy's answers took no time at all.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.against_commit.cases import CASES
from gavelx.files.atomic import write_atomically

HERE = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("cases.py")
START = "f7602c3"
"""The commit against which the project's own targets of speed are stated."""
QUICK = (
    "rounds of 40, max_min_fairness, default",
    "rounds of 40, fifo, default",
    "60 rounds of 1,000 live, max_min_fairness",
    "one job joins 10,000 x 8, max_min_fairness",
)
"""Cases of a second or two that have little of their work in common."""
INSTALLED_FROM = ("pyproject.toml", "constraints.txt")
Side = tuple[Path, Path]
"""A folder with a commit, and the Python that runs it."""


def checked_out(commit: str) -> Side:
    """This commit and its environment; made if they are not there yet."""
    named = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"],
        cwd=HERE,
        check=False,
        capture_output=True,
        text=True,
    )
    if named.returncode:
        raise SystemExit(f"{commit}: no such commit in this clone; a shallow clone has few: git fetch --unshallow")
    full = named.stdout.strip()
    folder = HERE / "build" / "against" / full[:12]
    if not folder.exists():
        unpacked = folder.with_suffix(".part")
        unpacked.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", full], cwd=HERE, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", str(unpacked)], input=archive, check=True)
        unpacked.rename(folder)
    if all(_read(folder / name) == _read(HERE / name) for name in INSTALLED_FROM):
        return folder, Path(sys.executable)
    if not (folder / ".venv" / ".core").exists():
        print(f"installing {full[:12]}", file=sys.stderr)
        make = ["make", "--no-print-directory", ".venv/.core", "CONSTRAINTS=constraints.txt"]
        subprocess.run(make, cwd=folder, check=True, stdout=sys.stderr)
    return folder, folder / ".venv" / "bin" / "python"


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def measure(side: Side, case: str) -> dict[str, Any]:
    """One run of one side."""
    folder, python = side
    done = subprocess.run(
        [str(python), str(SCRIPT), case],
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:] or ["no word"]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _environment(folder: Path) -> dict[str, str]:
    """Ours is asked from its folder; and modules stay compiled from run to run, as where it is installed."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPATH": str(folder)}


def compare(case: str, before: Side, pairs: int) -> dict[str, Any]:
    """Both sides in turns; medians, and the median of the pairs' ratios."""
    sides: dict[str, list[dict[str, Any]]] = {"before": [], "now": []}
    for _ in range(pairs):
        sides["before"].append(measure(before, case))
        sides["now"].append(measure((HERE, Path(sys.executable)), case))
    failed = [run["failed"] for runs in sides.values() for run in runs if "failed" in run]
    if failed:
        return {"case": case, "failed": failed[0]}
    seconds = {name: [run["seconds"] for run in runs] for name, runs in sides.items()}
    ratios = [a / b for a, b in zip(seconds["before"], seconds["now"], strict=True)]
    answering_s = statistics.median(run["answering_s"] for run in sides["now"])
    return {
        "case": case,
        "before_s": statistics.median(seconds["before"]),
        "now_s": statistics.median(seconds["now"]),
        "ratio": statistics.median(ratios),
        "ratio_min": min(ratios),
        "ratio_max": max(ratios),
        "ratio_of_answers": statistics.median(seconds["before"]) / answering_s if answering_s else None,
        "same_answer": sides["before"][0]["answer"] == sides["now"][0]["answer"],
    }


def line(row: dict[str, Any]) -> str:
    if "failed" in row:
        return f"{row['case']:<45} failed: {' '.join(row['failed'])}"
    spread = f"{row['ratio']:.2f} ({row['ratio_min']:.2f}..{row['ratio_max']:.2f})"
    most = f", at most {row['ratio_of_answers']:.1f}" if row["ratio_of_answers"] else ""
    answer = "" if row["same_answer"] else "  another answer"
    return f"{row['case']:<45} {row['before_s']:8.3f} s {row['now_s']:8.3f} s  {spread}{most}{answer}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.against_commit", description=__doc__.split("\n")[0]
    )
    parser.add_argument("commit", nargs="?", default=START, help=f"as git names it (default {START})")
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    parser.add_argument("--quick", action="store_true", help=f"{len(QUICK)} cases of a second or two")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--below", type=float, help="warn of cases whose ratio is below this")
    parser.add_argument("--json", type=Path, help="write every row to this file")
    options = parser.parse_args(arguments)
    chosen = [case for case in (QUICK if options.quick else CASES) if options.only in case]
    if not chosen:
        parser.error(f"--only {options.only}: no case has that in its name. Cases: {'; '.join(CASES)}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
    before, rows = checked_out(options.commit), []
    print(f"{'case':<45} {options.commit:>10} {'now':>10}  ratio, median (least..largest)")
    for case in chosen:
        rows.append(compare(case, before, options.pairs))
        print(line(rows[-1]), flush=True)
    if options.json:
        about = {"machine": report.machine(), "commit": options.commit, "rows": rows}
        write_atomically(options.json, json.dumps(about, indent=1) + "\n")
    for row in rows:
        if options.below is not None and row.get("ratio", 0.0) < options.below:
            print(f"warning: {row['case']}: {row.get('ratio', 'failed')}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
