"""The scheduler daemon under load: submissions, heartbeats, rounds, floods, restarts.

    python -m benchmarks.service                        # 200 agents of 8 devices, 10,000 live jobs
    python -m benchmarks.service load flood --agents 50 --jobs 2000 --json out.json

The service, all agents and all users are three processes on one machine.
"""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report
from benchmarks.service.cases import CASES, Size
from benchmarks.service.daemon import PROFILED
from benchmarks.service.tables import markdown, short
from gavelx.files.atomic import write_atomically


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.service",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("case", nargs="*", help=f"some of {', '.join(CASES)}; all if none is named")
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--devices", type=int, default=8, help="of each agent")
    parser.add_argument("--jobs", type=int, default=10_000, help="live ones")
    parser.add_argument("--round", type=float, default=30.0, help="seconds")
    parser.add_argument("--heartbeat", type=float, default=5.0, help="seconds")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long the load is looked at")
    parser.add_argument("--json", type=Path, help="write all figures to this file, and a page beside it")
    parser.add_argument("--profile", type=Path, help="write a profile of the service (the last one) to this file")
    typed = parser.parse_args(arguments)
    if typed.profile:
        PROFILED.extend(["-m", "cProfile", "-o", str(typed.profile)])
    size = Size(typed.agents, typed.devices, typed.jobs, typed.round, typed.heartbeat, typed.seconds)
    about, rows = report.machine(), []
    for name in typed.case or CASES:
        for row in CASES[name](size):
            rows.append({"case": name} | row)
            print("  ".join(f"{key} {short(value)}" for key, value in rows[-1].items()), flush=True)
    if typed.json:
        about["load_after"] = os.getloadavg()
        document = {"machine": about, "size": vars(size), "rows": rows}
        write_atomically(typed.json, json.dumps(document, indent=1) + "\n")
        write_atomically(typed.json.with_suffix(".md"), markdown(about, vars(size), rows))


if __name__ == "__main__":
    main()
