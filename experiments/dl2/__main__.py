"""DL2's world: DRF, Optimus, looking ahead, and a network that learned from that; on traces that none has seen.

    python -m experiments.dl2 [--traces 24] [--seeds 3] [--only ahead|learn] [--out experiments/results]

Writes ``dl2.md`` and, of each trace, the figures in ``dl2.json``.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from experiments.dl2.world import SLOT_S, mean_jct, optimus, over_all_sizes, pairs, room, sizes, traces
from experiments.experiment import markdown_table
from gavelx.files.atomic import write_atomically
from gavelx.learning.imitate import imitation
from gavelx.learning.lessons import Lesson
from gavelx.policies.network import Network
from gavelx.slots.ahead import Ahead
from gavelx.slots.baselines import drf
from gavelx.slots.greedy import Steps
from gavelx.slots.model import Floats, Schedule, Sizes, Slots, play
from gavelx.slots.moves import Moves
from gavelx.slots.turns import handed_out

NODES = (48, 16, 12, 8, 6)
NOISE = 0.273
"""How much speeds of production jobs varied, as DL2 (figure 4) reports."""
TEST, VALIDATION, TRAINING = 5000, 7000, 20_000
"""The first seeds of traces for each purpose."""
LESSONS, ROUNDS, STEPS = 8, 3, 400
LEARNED_AT = 12
GAP = 1000
Figures = dict[str, Floats]
ABOUT = """Made by `python -m experiments.dl2`. Mean completion in slots of 20 minutes over {traces} traces of 60
jobs, none of which was learned from; nodes have 8 CPUs and 8 GPUs. Speeds are of a five-parameter model of ours,
fitted to those that DL2's authors measured, with drawn roughness as large as its error
(`experiments/dl2/world.py`), so absolute figures are not the paper's. *Optimus* adds one worker or server at a
time, as published; *all sizes* is the same greedy over every larger size. p is Wilcoxon's, one-sided, trace by
trace, against Optimus. With noise, true speeds differ from the believed ones by 27.3 % from job to job."""


def ahead(nodes: int, table: Sizes) -> Ahead:
    """The schedule that looks ahead."""
    return Ahead(Steps.hull(table, room(nodes)), SLOT_S)


def jct(slots: Slots, schedule: Schedule) -> Floats:
    return mean_jct(play(slots, schedule, SLOT_S))


def compared(nodes: int, noise: float, count: int, **options: Any) -> Figures:
    """Every schedule on the same traces; ``options``: of :func:`traces`."""
    slots = traces(range(TEST, TEST + count), nodes, noise=noise, **options)
    schedules: Mapping[str, Schedule] = {
        "DRF": drf(pairs(nodes, slots.sizes)),
        "Optimus": optimus(nodes, slots.sizes),
        "all sizes": over_all_sizes(nodes, slots.sizes),
        "lookahead": ahead(nodes, slots.sizes),
    }
    return {name: jct(slots, schedule) for name, schedule in schedules.items()}


def against(ours_K: Floats, others_K: Floats) -> list[str]:
    """The difference of the means, the part of the traces that is better, and p."""
    p = wilcoxon(ours_K, others_K, alternative="less").pvalue if (ours_K != others_K).any() else 1.0
    return [f"{ours_K.mean() / others_K.mean() - 1:+.1%}", f"{(ours_K < others_K).mean():.0%}", f"{p:.1g}"]


def row(name: str, figures: Figures, schedule: str) -> list[str]:
    """A row of a table."""
    means = [f"{figures[one].mean():.3f}" for one in ("DRF", "Optimus", "all sizes", schedule)]
    ours_K = figures[schedule]
    others = [f"{ours_K.mean() / figures[one].mean() - 1:+.1%}" for one in ("DRF", "all sizes")]
    return [name, *means, *against(ours_K, figures["Optimus"]), *others]


def titles(schedule: str) -> list[str]:
    return [
        *("", "DRF", "Optimus", "all sizes", schedule, "to Optimus", "better on", "p", "to DRF", "to all sizes"),
    ]


def decision_s(jobs: int = 40, nodes: int = 12, repetitions: int = 5) -> float:
    """Processor time of looking ahead once, with so many jobs there; the least of some."""
    slots = traces([TEST], nodes, jobs=jobs)
    slots = Slots.of(slots.sizes, room(nodes), slots.kind_KJ, slots.left_KJ)
    schedule, seconds = ahead(nodes, slots.sizes), []
    schedule(slots)
    for _ in range(repetitions):
        begin_s = time.process_time()
        schedule(slots)
        seconds.append(time.process_time() - begin_s)
    return min(seconds)


def lesson(nodes: int, seed: int, number: int, count: int, **options: Any) -> Lesson:
    """Traces of a round, which no other round and no test has; ``options``: of :func:`traces`."""
    first = TRAINING + GAP * seed + LESSONS * number
    slots = traces(range(first, first + count), nodes, **options)
    steps = Steps.hull(slots.sizes, room(nodes))
    return Lesson(slots, Moves.along(steps), Ahead(steps, SLOT_S), SLOT_S)


def student(network: Network, nodes: int) -> Schedule:
    """What the network decides, without looking ahead."""
    moves = Moves.along(Steps.hull(sizes(), room(nodes)))
    return lambda slots: handed_out(slots, moves, network, SLOT_S)


def taught(seed: int, count: int = LESSONS, **options: Any) -> tuple[Network, list[str]]:
    """A network; of its rounds the one is kept that is best on validation traces. With the curve of its rounds.

    It learns from so many traces a round; ``options``: of :func:`traces`, also for validation.
    """
    validation = traces(range(VALIDATION, VALIDATION + 8), LEARNED_AT, **options)
    kept: list[tuple[float, Network]] = []
    curve, begin_s = [], time.process_time()
    for one in imitation(
        lambda number: lesson(LEARNED_AT, seed, number, count, **options), seed=seed, rounds=ROUNDS, steps=STEPS
    ):
        kept.append((float(jct(validation, student(one.network, LEARNED_AT)).mean()), one.network))
        curve.append(f"{kept[-1][0]:.3f} ({one.moves:,} moves, {time.process_time() - begin_s:.0f} s)")
        print(f"seed {seed}, round {one.number}: {curve[-1]}", file=sys.stderr, flush=True)
    return min(kept, key=lambda one: one[0])[1], curve


def looked_ahead(count: int, nodes: Sequence[int], figures: dict[str, dict[str, list[float]]]) -> str:
    """The tables on looking ahead."""
    parts = []
    for rough, title in (
        (True, "## Looking ahead"),
        (False, "## The same where speeds are as smooth as the model"),
    ):
        rows = []
        for one in nodes:
            for noise in (0.0, NOISE) if rough else (0.0,):
                name = f"{one} nodes" + (", noise" if noise else "")
                found = compared(one, noise, count, rough=rough)
                figures[name + ("" if rough else ", smooth")] = {
                    key: value.tolist() for key, value in found.items()
                }
                rows.append(row(name, found, "lookahead"))
        parts += [title, markdown_table(titles("lookahead"), rows)]
    parts.append(f"A decision for 40 jobs on 12 nodes takes {1e3 * decision_s():.0f} ms of processor time.")
    return "\n\n".join(parts)


def learned(count: int, seeds: int, figures: dict[str, dict[str, list[float]]]) -> str:
    """The tables on learning."""
    rows, curves, ratios = [], [], []
    for seed in range(seeds):
        network, curve = taught(seed)
        curves.append(f"* seed {seed}: {'; '.join(curve)}")
        for nodes, noise in ((LEARNED_AT, 0.0), (LEARNED_AT, NOISE), (16, 0.0), (8, 0.0)):
            found = compared(nodes, noise, count)
            slots = traces(range(TEST, TEST + count), nodes, noise=noise)
            found["learned"] = jct(slots, student(network, nodes))
            name = f"seed {seed}, {nodes} nodes" + (", noise" if noise else "")
            figures[name] = {key: value.tolist() for key, value in found.items()}
            ratio = float(found["learned"].mean() / found["lookahead"].mean() - 1)
            ratios += [ratio] if (nodes, noise) == (LEARNED_AT, 0.0) else []
            rows.append([*row(name, found, "learned"), f"{ratio:+.1%}"])
    spread = f", standard deviation {stdev(ratios):.1%}" if len(ratios) > 1 else ""
    return "\n\n".join(
        [
            "## A network that learned from looking ahead",
            f"It learned on {LEARNED_AT} nodes at exact speeds, from {LESSONS} traces a round, and decides "
            f"without looking ahead. At {LEARNED_AT} nodes it is {fmean(ratios):+.1%} from its teacher "
            f"over {seeds} seeds{spread}.",
            markdown_table([*titles("learned"), "to lookahead"], rows),
            "Mean completion on 8 validation traces after each round, with processor time, evaluation included:",
            "\n".join(curves),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.dl2", description=str(__doc__).split("\n")[0])
    parser.add_argument("--traces", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=3, help="networks")
    parser.add_argument("--nodes", type=int, nargs="*", default=list(NODES))
    parser.add_argument("--only", choices=["ahead", "learn"], help="one part; the page has that alone")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results", help="a folder")
    options = parser.parse_args(arguments)
    figures: dict[str, dict[str, list[float]]] = {}
    parts = ["# DL2's world", ABOUT.format(traces=options.traces)]
    if options.only != "learn":
        parts.append(looked_ahead(options.traces, options.nodes, figures))
    if options.only != "ahead":
        parts.append(learned(options.traces, options.seeds, figures))
    rounded = {
        name: {key: np.round(value, 5).tolist() for key, value in one.items()} for name, one in figures.items()
    }
    write_atomically(options.out / "dl2.json", json.dumps(rounded) + "\n")
    write_atomically(options.out / "dl2.md", "\n\n".join(parts) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
