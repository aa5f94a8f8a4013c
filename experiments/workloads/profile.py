"""python -m experiments.workloads.profile [--device cuda] [--again] [--write]: a throughput table of these.

Each is run by gavelx's own profiler on this machine's device, several times. Rounds go through all of them, so
that the repetitions of one are apart in time, and its interval knows how the machine varies. ``--again`` does all
of it twice, in turns, and says whether the two agree; ``--write`` puts the outcome into README.md. It makes
a table for ``--table``.
"""

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.workloads.measure import WORKLOADS, machine, put_into_page
from gavelx.estimator.steady_speed import interval
from gavelx.files.profiles import Profile, write_profiles
from gavelx.profiler.profile import conclude
from gavelx.profiler.running import How, Job, Ran, run
from gavelx.worker.devices import find_devices

HERE = Path(__file__).parent
BEGIN, END = "<!-- profiled -->\n", "<!-- profiled end -->\n"
SOURCE = "experiments.workloads.profile"


def profiled(jobs: Sequence[Job], how: How, repeat: int, passes: int) -> list[dict[Job, Profile]]:
    """What each job is like, so many times over; those that could not be measured are said and left out."""
    times: list[dict[Job, list[list[Ran]]]] = [{job: [] for job in jobs} for _ in range(passes)]
    for n in range(repeat):
        for each in times:
            for job in jobs:
                print(f"{job.job_type}, {n + 1} of {repeat} ...", file=sys.stderr, flush=True)
                each[job].append(run([job], how))
    return [{job: known for job in jobs if (known := _known(job, each[job], how)) is not None} for each in times]


def _known(job: Job, times: Sequence[Sequence[Ran]], how: How) -> Profile | None:
    (known,) = conclude([job], times, how, SOURCE)
    if isinstance(known, Profile):
        return known
    print(f"{job.job_type}: {known.reason}", file=sys.stderr)
    return None


def agree(one: Profile, other: Profile) -> bool:
    """Whether two measurements differ by no more than their errors let expect in 9 of 10 cases."""
    a, b = one.measurement, other.measurement
    error = math.hypot(a.relative_error, b.relative_error)
    low, high = interval(a.steps_per_second, error)
    return low <= b.steps_per_second <= high


def table(first: dict[Job, Profile], again: dict[Job, Profile] | None) -> str:
    """In Markdown. What could not be measured ``again`` does not agree; None: it was not tried."""
    titles = ["job type", "steps/s", "memory, MiB", "use of the device"]
    lines = [[*titles, "again", "agree"] if again is not None else titles]
    lines.append([":---", *["---:"] * (len(lines[0]) - 1)])
    for job, profile in first.items():
        cells = [
            f"`{job.job_type}`",
            _speed(profile),
            f"{profile.memory_mib or 0:,.0f}",
            f"{profile.utilization or 0:.0%}",
        ]
        if again is not None:
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
    parser.add_argument("--seconds", type=float, default=8.0, help="to count steps, each time")
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
    first, *more = profiled(jobs, how, args.repeat, 2 if args.again else 1)
    again = more[0] if more else None
    write_profiles(args.out, list(first.values()))
    text = table(first, again) + f"\n{args.repeat} starts, {args.seconds:g} s of steps in each." + machine(size)
    print(text)
    if args.write:
        put_into_page(text, BEGIN, END)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
