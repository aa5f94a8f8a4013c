"""Servers of an inference service that lend devices to training when it needs few: figure 16 of EasyScale.

    python -m experiments.serving [--seeds 5] [--loopback 3] [--out experiments/results]

Writes ``serving.md`` and ``serving.png``. ``--loopback 0`` leaves out the measurement on real processes, for which
torch is needed.
"""

import argparse
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from matplotlib import rc_context
from matplotlib.figure import Figure

from experiments.experiment import markdown_table
from experiments.serving.loopback import seconds_until_back
from experiments.serving.simulated import DAYS, PER_SERVER, ROUND_S, SERVERS, Figures, run
from gavelx.files.atomic import write_atomically
from gavelx.report.plots import COLORS, STYLE

WAYS: Mapping[str, tuple[str, bool]] = {
    "no lending, `elastic(easyscale)`": ("elastic(easyscale)", False),
    "lending, `backfill`": ("backfill", True),
    "lending, `elastic(easyscale)`": ("elastic(easyscale)", True),
}
ABOUT = f"""Made by `python -m experiments.serving`. {SERVERS * PER_SERVER} devices in servers of {PER_SERVER},
{DAYS} days. Inference needs 0 to 75 % of them, by a cosine over the day with noise, and lends the rest by the
half hour; 40 elastic jobs (1 to 16 devices) take hours to days. Without lending, jobs have what inference never
needs, and what it does not use idles. A notice is 30 s, a round {ROUND_S:g} s, a checkpoint 10 s, a restart 30 s,
a resize 2 s. *Allocation* is the part of all devices in use, by inference or by jobs. *Preemptions* are leases
that shrink or stop because devices are taken back, *stopped* those that restart. *Refilled*: from the time at
which devices are lent again until 95 % of what is lent is in use. Means over {{seeds}} seeds; the longest refill
is of all seeds.

EasyScale (SC'23, figure 16) reports an allocation 17.1 % higher on 459 GPUs of a production cluster, with 362
preemptions and no failed job. Its load is not published; this one is ours."""


def table(records: Mapping[str, Sequence[Figures]]) -> str:
    """A row for each way to run."""
    titles = ["way", "allocation", "device-hours of jobs", "jobs done", "failed", "preemptions", "stopped"]
    titles += ["lost device-hours", "refilled, median s", "longest s"]
    lines = []
    for name, found in records.items():
        mean = {key: fmean(one[key] for one in found) for key in found[0] if key != "series"}
        longest = max(one["refill_longest_s"] for one in found)
        cells = [f"{mean['allocation']:.1%}", f"{mean['device_hours']:,.0f}", f"{mean['jobs_done']:.1f}"]
        cells += [f"{mean['failed']:.0f}", f"{mean['preemptions']:.0f}", f"{mean['stopped']:.0f}"]
        refills = [f"{mean['refill_median_s']:.0f}", f"{longest:.0f}"] if mean["refills"] else ["", ""]
        lines.append([name, *cells, f"{mean['lost_device_hours']:.1f}", *refills])
    return markdown_table(titles, lines)


def loopback(times: int) -> str:
    """Real processes: how long the devices take to come back."""
    if not times:
        return ""
    rows = []
    for layers in (1, 22):
        seconds, failures = seconds_until_back(times, layers)
        rows.append([f"{layers * 4.2:.0f} MB", ", ".join(f"{one:.1f}" for one in seconds), str(failures)])
    return f"""## On loopback

A job on two devices of one agent (torch, gloo, CPU) shrinks to one, {times} times: from `gavelx offer one 1` until
no job holds the other device. {os.cpu_count()} processor cores, which other work shared at the time (load average
{os.getloadavg()[0]:.0f}).

{markdown_table(["parameters", "seconds", "failures"], rows)}"""


def plot(found: Figures) -> bytes:
    """Devices that are lent and devices that jobs have, over time."""
    time_s, busy, lends = found["series"]
    with rc_context(STYLE):
        figure = Figure(figsize=(9.0, 3.2), layout="constrained")
        axes = figure.subplots()
        total = SERVERS * PER_SERVER
        axes.fill_between(time_s / 3600.0, lends, total, step="post", color="#dddddd", label="inference")
        axes.fill_between(time_s / 3600.0, busy, step="post", color=COLORS[0], label="jobs")
        axes.step(time_s / 3600.0, lends, where="post", color=COLORS[1], linewidth=1.2, label="lent to jobs")
        axes.set(xlim=(0, time_s[-1] / 3600.0), ylim=(0, total), xlabel="time, h", ylabel="devices")
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
        return buffer.getvalue()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.serving", description=str(__doc__).split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--loopback", type=int, default=3, help="how often a real job gives a device back")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results", help="a folder")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    records = {
        name: [run(seed, policy, lends=lends) for seed in range(options.seeds)]
        for name, (policy, lends) in WAYS.items()
    }
    parts = ["# Devices lent by an inference service", ABOUT.format(seeds=options.seeds), table(records)]
    parts += ["![Devices over time](serving.png)", loopback(options.loopback)]
    write_atomically(options.out / "serving.md", "\n\n".join(part for part in parts if part).rstrip() + "\n")
    write_atomically(options.out / "serving.png", plot(records["lending, `elastic(easyscale)`"][0]))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
