"""What DL2's figures 10 to 19 ask, in its world: other arrivals, clusters, speeds, lengths, models and learners.

    python -m experiments.dl2.varied [--traces 24] [--out experiments/results]

Writes ``dl2_varied.md`` and ``dl2_varied.png``; what is found is in ``dl2_varied.json`` as soon as it is found, so
a run that was interrupted goes on where it stopped.
"""

import argparse
import io
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from experiments.dl2.__main__ import LEARNED_AT, LESSONS, NOISE, TEST, ahead, compared, jct, student, taught
from experiments.dl2.parts import Parts
from experiments.dl2.published import TRACES_OF_A_COPY, mean_slots, training
from experiments.dl2.world import ARRIVALS, EPOCH, SLOT_S, optimus, pairs, sizes, traces, window
from experiments.experiment import markdown_table
from gavelx.files.atomic import write_atomically
from gavelx.learning.actor_critic import greedy
from gavelx.learning.supervised import cloned, demonstrated
from gavelx.policies.network import Network
from gavelx.report.plots import STYLE
from gavelx.slots.baselines import drf
from gavelx.slots.model import Ints, Schedule, chosen

SEED, STEPS_OF_A_COPY = 0, 400
DAY, SWING = 12.0, 0.8
"""Waves of arrivals: slots from one peak to the next, and how much more or less than the mean they bring."""
HALVES = (range(0, len(EPOCH), 2), range(1, len(EPOCH), 2))
Row = dict[str, float]
"""The mean completion of each schedule, in slots."""
SCHEDULES = ("DRF", "Optimus", "all sizes", "lookahead", "network")
ABOUT = """Made by `python -m experiments.dl2.varied --traces {traces}`. Mean completion in slots over {traces}
test traces of 60 jobs, on {nodes} nodes unless said otherwise. The network imitates looking ahead; it learned on
{nodes} nodes from Poisson arrivals at exact speeds (`dl2.md`, seed 0), and has seen none of these changes,
but for what rows say that it learned from."""
ELSEWHERE = """## What is elsewhere, and what is not reproduced

* The comparison of schedulers (figure 9), imitation of other teachers, and the curves of reinforcement are in
  `dl2_published.md`; what resizing costs a real job, beside a restart from a checkpoint, in `live_resize.md`.
* Not reproduced: absolute seconds on the paper's 13 servers with GPUs; its trace of production jobs, which was not
  published; and 500 servers, where nothing is contended (as with 48 nodes).
* Learners of several clusters that send each other gradients (A3C): here a learner has the moves of all clusters,
  and the last table of completion says what they are worth: no more than seeds differ, as those of one are
  enough. Gradients would be of the same moves, only later."""


@cache
def network(count: int, half: int | None) -> Network:
    """The network of seed 0, from so many traces a round, of all models or of one half of them alone."""
    options: dict[str, Any] = {} if half is None else {"models": HALVES[half]}
    return taught(SEED, count, **options)[0]


def usual() -> Network:
    """The one of `dl2.md`."""
    return network(LESSONS, None)


def row(nodes: int, traces_of: int, noise: float = 0.0, learned: Network | None = None, **options: Any) -> Row:
    """All schedules on the same traces."""
    found = {name: float(one.mean()) for name, one in compared(nodes, noise, traces_of, **options).items()}
    slots = traces(range(TEST, TEST + traces_of), nodes, noise=noise, **options)
    found["network"] = float(jct(slots, student(learned or usual(), nodes)).mean())
    return found


def uniform(random: np.random.Generator, slots: int) -> Ints:
    """One to three jobs a slot."""
    return random.integers(1, 4, slots)


def waves(random: np.random.Generator, slots: int) -> Ints:
    """A rate that rises and falls."""
    rate = ARRIVALS * (1.0 + SWING * np.sin(2.0 * np.pi * np.arange(slots) / DAY))
    return random.poisson(rate)


def fewer(random: np.random.Generator, slots: int, part: float) -> Ints:
    """Poisson arrivals at a part of the rate."""
    return random.poisson(part * ARRIVALS, slots)


def lengths_off(nodes: int, traces_of: int, part: float) -> Row:
    """Numbers of epochs that are believed to be up to so much more or less than they are.

    A job that has e times the believed steps left, is for a schedule one that is e times slower than believed.
    """
    slots = traces(range(TEST, TEST + traces_of), nodes)
    random = np.random.default_rng([25, 3])
    off = replace(slots, pace_KJ=1.0 / random.uniform(1.0 - part, 1.0 + part, slots.pace_KJ.shape))
    return {name: float(jct(off, schedule).mean()) for name, schedule in schedules_of(nodes).items()}


def schedules_of(nodes: int) -> Mapping[str, Schedule]:
    return {
        "DRF": drf(pairs(nodes, sizes())),
        "Optimus": optimus(nodes, sizes()),
        "lookahead": ahead(nodes, sizes()),
        "network": student(usual(), nodes),
    }


def in_use(nodes: int, traces_of: int) -> dict[str, list[float]]:
    """The mean parts of CPUs and GPUs that are held, and of jobs that wait, until the last job has arrived."""
    found = {}
    for name, schedule in schedules_of(nodes).items():
        slots, parts = traces(range(TEST, TEST + traces_of), nodes), []
        last_s = slots.arrival_s_KJ.max()
        while slots.time_s <= last_s:
            size_KJ = chosen(slots, schedule)
            waits = (slots.live_KJ & (size_KJ < 0)).sum() / max(1, slots.live_KJ.sum())
            parts.append([*(slots.use_KR(size_KJ) / slots.room_KR).mean(axis=0), waits])
            slots = slots.advance(size_KJ, SLOT_S)
        found[name] = np.mean(parts, axis=0).tolist()
    return found


def copy_with_window(jobs: int, traces_of: int) -> Row:
    """DL2's own network, which sees so many jobs, and imitates DRF."""
    slots, teacher = training(SEED, 0, TRACES_OF_A_COPY), drf(pairs(LEARNED_AT, sizes()))
    seen_by = window(LEARNED_AT, sizes(), jobs=jobs)
    copy = cloned(seen_by, demonstrated(seen_by, slots, teacher), seed=SEED, steps=STEPS_OF_A_COPY)
    unseen = traces(range(TEST, TEST + traces_of), LEARNED_AT)
    return {
        "DRF": float(mean_slots(unseen, teacher).mean()),
        "copy": float(mean_slots(unseen, greedy(seen_by, copy)).mean()),
    }


def unseen(traces_of: int, half: int | None) -> Row:
    """Jobs of the other half of the models alone, for a network that learned from one half, or from all."""
    tested = HALVES[1 if half is None else 1 - half]
    return row(LEARNED_AT, traces_of, learned=network(LESSONS, half), models=tested)


def questions(count: int) -> dict[str, dict[str, Any]]:
    """Each table, and of each of its rows, how to find it."""
    at = partial(row, LEARNED_AT, count)
    return {
        "Arrivals": {
            "Poisson, 2.4 a slot, 3 at most": at,
            "uniform, 1 to 3 a slot": partial(at, arrivals=uniform),
            "waves of 12 slots, 0.5 to 4.3 a slot": partial(at, arrivals=waves),
            "half the rate": partial(at, arrivals=partial(fewer, part=0.5)),
            "twice the rate": partial(at, arrivals=partial(fewer, part=2.0)),
        },
        "Nodes": {f"{nodes}": partial(row, nodes, count) for nodes in (6, 8, 12, 16, 24, 48)},
        "Speeds that are off": {f"{noise:.1%}": partial(at, noise) for noise in (0.0, 0.1, NOISE, 0.5)},
        "Numbers of epochs that are off": {
            f"up to {part:.0%}": partial(lengths_off, LEARNED_AT, count, part) for part in (0.0, 0.1, 0.2, 0.4)
        },
        "Models that the network has not seen": {
            "learned from all 8 models": partial(unseen, count, None),
            "learned from the other 4 alone": partial(unseen, count, 0),
        },
        "Clusters whose experience it has": {
            f"{clusters}, {2 * clusters} traces a round": partial(_from_clusters, clusters, count)
            for clusters in (1, 2, 4, 8)
        },
    }  # fmt: skip


def _from_clusters(clusters: int, count: int) -> Row:
    return row(LEARNED_AT, count, learned=network(2 * clusters, None))


def table(rows: Mapping[str, Row]) -> str:
    """A row for each change: means, and how far below DRF and Optimus."""
    cells = []
    for name, found in rows.items():
        means = [f"{found[one]:.3f}" if one in found else "" for one in SCHEDULES]
        to = [f"{found[one] / found[other] - 1:+.1%}" for one in SCHEDULES[3:] for other in SCHEDULES[:2]]
        cells.append([name, *means, *to])
    titles = ["", *SCHEDULES, *(f"{one} to {other}" for one in SCHEDULES[3:] for other in SCHEDULES[:2])]
    return markdown_table(titles, cells)


def plot(tables: Mapping[str, Mapping[str, Row]]) -> bytes:
    """A panel for each table: completion over that of DRF."""
    with rc_context(STYLE):
        figure = Figure(figsize=(11.0, 6.4), layout="constrained")
        for axes, (title, rows) in zip(figure.subplots(2, 3).flat, tables.items(), strict=True):
            for name in SCHEDULES[1:]:
                ratios = [found[name] / found["DRF"] if name in found else np.nan for found in rows.values()]
                axes.plot(range(len(rows)), ratios, marker="o", label=name)
            labels = [label.split(",")[0].removeprefix("learned from ") for label in rows]
            axes.set_xticks(range(len(rows)), labels, rotation=20, ha="right")
            axes.set_title(title)
            axes.set_ylim(0.3, 1.05)
        figure.supylabel("mean completion, over that of DRF")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
    return buffer.getvalue()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.dl2.varied", description=str(__doc__).split("\n")[0]
    )
    parser.add_argument("--traces", type=int, default=24)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results", help="a folder")
    options = parser.parse_args(arguments)
    count: int = options.traces
    parts = Parts(options.out / "dl2_varied.json", {"traces": count})
    tables: dict[str, dict[str, Row]] = {}
    for title, rows in questions(count).items():
        tables[title] = {}
        for name, find in rows.items():
            tables[title][name] = parts.of(f"{title}: {name}", find)
            print(f"{title}: {name}; {time.process_time():.0f} s", file=sys.stderr, flush=True)
    used = parts.of("in use", partial(in_use, LEARNED_AT, count))
    copies = {
        jobs: parts.of(f"window of {jobs}", partial(copy_with_window, jobs, count)) for jobs in (5, 10, 20, 40)
    }
    text = ["# DL2's world, varied", ABOUT.format(traces=count, nodes=LEARNED_AT), "![](dl2_varied.png)"]
    for title, found in tables.items():
        text += [f"## {title}", table(found)]
    text += ["## What is in use until the last job has arrived"]
    text += [
        markdown_table(
            ["", "CPUs", "GPUs", "jobs that wait"], [[n, *(f"{x:.1%}" for x in u)] for n, u in used.items()]
        )
    ]
    text += ["## Jobs that DL2's network sees (J)"]
    shown = [
        [f"{jobs}", f"{one['copy']:.3f}", f"{one['copy'] / one['DRF'] - 1:+.1%}"] for jobs, one in copies.items()
    ]
    text += [markdown_table(["J", "imitation of DRF", "to DRF"], shown), ELSEWHERE]
    write_atomically(options.out / "dl2_varied.md", "\n\n".join(text) + "\n")
    write_atomically(options.out / "dl2_varied.png", plot(tables))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
