"""python -m experiments.workloads.profile [--device cuda] [--again] [--write]: a throughput table of these.

Each is run by gavelx's own profiler on this machine's device, several times. Rounds go through all of them, so
that the repetitions of one are apart in time, and its interval knows how the machine varies. ``--again`` does all
of it twice and says whether the two agree; ``--write`` puts the outcome into README.md. What it makes is a table
for ``--table``.
"""

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.workloads.measure import WORKLOADS, machine
from gavelx.estimator.steady import interval
from gavelx.files.profiles import Profile, write_profiles
from gavelx.profiler.profile import Refused, conclude
from gavelx.profiler.running import How, Job, Ran, run
from gavelx.worker.devices import find_devices

HERE = Path(__file__).parent
BEGIN, END = "<!-- profiled -->\n", "<!-- profiled end -->\n"
SOURCE = "experiments.workloads.profile"


def profiled(jobs: Sequence[Job], how: How, repeat: int) -> dict[Job, Profile]:
    """What each job is like; those that could not be measured are said and left out."""
    times: dict[Job, list[list[Ran]]] = {job: [] for job in jobs}
    for n in range(repeat):
        for job in jobs:
            print(f"{job.job_type}, {n + 1} of {repeat} ...", file=sys.stderr, flush=True)
            times[job].append(run([job], how))
    found = {}
    for job in jobs:
        (known,) = conclude([job], times[job], how, SOURCE)
        if isinstance(known, Refused):
            print(f"{job.job_type}: {known.reason}", file=sys.stderr)
        else:
            found[job] = known
    return found


def agree(one: Profile, other: Profile) -> bool:
    """Whether two measurements differ by no more than their errors let expect in 9 of 10 cases."""
    a, b = one.measurement, other.measurement
    error = math.hypot(a.relative_error, b.relative_error)
    low, high = interval(a.steps_per_second, error)
    return low <= b.steps_per_second <= high


def table(first: dict[Job, Profile], again: dict[Job, Profile]) -> str:
    """In Markdown."""
    titles = ["job type", "steps/s", "memory, MiB", "use of the device"]
    lines = [[*titles, "again", "agree"] if again else titles]
    lines.append([":---", *["---:"] * (len(lines[0]) - 1)])
    for job, profile in first.items():
        cells = [
            f"`{job.job_type}`",
            _speed(profile),
            f"{profile.memory_mib or 0:,.0f}",
            f"{profile.utilization or 0:.0%}",
        ]
        if again:
            other = again.get(job)
            cells += ["", "no"] if other is None else [_speed(other), "yes" if agree(profile, other) else "no"]
        lines.append(cells)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _speed(profile: Profile) -> str:
    m = profile.measurement
    return f"{m.steps_per_second:.3g} ± {interval(1.0, m.relative_error)[1] - 1.0:.1%}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=[one.module for one in WORKLOADS], help="some of them")
    parser.add_argument("--full", action="store_true", help="the full size instead of --quick")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--seconds", type=float, default=10.0, help="to count steps, each time")
    parser.add_argument("--repeat", type=int, default=3, help="so often")
    parser.add_argument("--out", default=str(HERE / "profiles.csv"), help="the table to begin or to add to")
    parser.add_argument("--again", action="store_true", help="twice, to see whether it agrees")
    parser.add_argument("--write", action="store_true", help="put the outcome into README.md")
    args = parser.parse_args(argv)
    root = str(HERE.parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    size = [] if args.full else ["--quick"]
    jobs = [
        Job(
            one.module + ("" if args.full else "-quick"),
            (sys.executable, "-m", f"experiments.workloads.{one.module}", "--device", args.device, *size),
        )
        for one in WORKLOADS
        if args.only is None or one.module in args.only
    ]
    how = How(find_devices("cpu=1" if args.device == "cpu" else None), seconds=args.seconds)
    first = profiled(jobs, how, args.repeat)
    write_profiles(args.out, list(first.values()))
    again = profiled(jobs, how, args.repeat) if args.again else {}
    text = table(first, again) + machine(size)
    print(text)
    if args.write:
        page = HERE / "README.md"
        head, _, rest = page.read_text().partition(BEGIN)
        page.write_text(head + BEGIN + text + END + rest.partition(END)[2])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
