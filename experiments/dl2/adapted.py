"""Reinforcement of the network that imitated looking ahead: from 16 nodes to 6, and from exact speeds to noise.

    python -m experiments.dl2.adapted [--seeds 3] [--rounds 12] [--traces 24] [--out experiments/results]

Writes ``dl2_adapted.md``.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.stats import wilcoxon

from experiments.dl2.__main__ import GAP, NOISE, TEST, TRAINING, VALIDATION, ahead, jct, student, taught
from experiments.dl2.world import SLOT_S, optimus, pairs, room, sizes, traces
from experiments.experiment import markdown_table
from gavelx.files.atomic import write_atomically
from gavelx.learning.adapt import PLAYS, adapted
from gavelx.policies.network import Network
from gavelx.slots.baselines import drf
from gavelx.slots.greedy import Steps
from gavelx.slots.moves import Moves

CURRICULUM = ((16, 0.0), (12, 0.0), (8, NOISE / 2.0), (6, NOISE))
"""Nodes, and how much speeds differ from the believed ones: each for a part of the rounds."""
WHERE = ((12, 0.0), (8, 0.0), (6, 0.0), (6, NOISE))
TRACES_OF_A_ROUND, BEYOND = 4, 500
ABOUT = """Made by `python -m experiments.dl2.adapted --seeds {seeds} --rounds {rounds} --traces {traces}`. The
network that learned from looking ahead on 12 nodes (`dl2.md`) goes on by reinforcement: {rounds} rounds of {each}
traces, each played {plays} times, on 16, 12, 8 and 6 nodes with speeds that are ever more off (to 27.3 %). The
round is kept that is best on validation traces of 6 nodes, with noise. Mean completion in slots over {traces} test
traces, by seed; p is Wilcoxon's, two-sided, trace by trace, of the mean over seeds, against the network before."""


def one_round(network: Network, seed: int, number: int, rounds: int) -> Network:
    """On the cluster whose turn it is."""
    nodes, noise = CURRICULUM[number * len(CURRICULUM) // rounds]
    first = TRAINING + GAP * seed + BEYOND + TRACES_OF_A_ROUND * number
    slots = traces(range(first, first + TRACES_OF_A_ROUND), nodes, noise=noise)
    moves = Moves.along(Steps.hull(slots.sizes, room(nodes)))
    return adapted(network, (slots, moves, SLOT_S), seed=1000 * seed + number)


def reinforced(network: Network, seed: int, rounds: int) -> Network:
    """The best of all rounds, and of none."""
    validation = traces(range(VALIDATION, VALIDATION + 8), CURRICULUM[-1][0], noise=NOISE)
    found = [network]
    worth = []
    for number in range(rounds + 1):
        worth.append(float(jct(validation, student(found[-1], CURRICULUM[-1][0])).mean()))
        print(
            f"seed {seed}, round {number}: {worth[-1]:.3f}, {time.process_time():.0f} s",
            file=sys.stderr,
            flush=True,
        )
        if number < rounds:
            found.append(one_round(found[-1], seed, number, rounds))
    return found[int(np.argmin(worth))]


def report(seeds: int, rounds: int, count: int) -> str:
    networks = []
    for seed in range(seeds):
        before = taught(seed)[0]
        networks.append((before, reinforced(before, seed, rounds)))
    rows = []
    for nodes, noise in WHERE:
        slots = traces(range(TEST, TEST + count), nodes, noise=noise)
        before_SK, after_SK = (
            np.array([jct(slots, student(pair[n], nodes)) for pair in networks]) for n in range(2)
        )
        others = [jct(slots, one).mean() for one in (drf(pairs(nodes, sizes())), optimus(nodes, sizes()))]
        teacher = jct(slots, ahead(nodes, sizes())).mean()
        change_K = after_SK.mean(axis=0) - before_SK.mean(axis=0)
        p = wilcoxon(change_K).pvalue if change_K.any() else 1.0
        rows.append(
            [
                f"{nodes} nodes" + (", noise" if noise else ""),
                *(f"{one:.3f}" for one in (*others, teacher)),
                " ".join(f"{one.mean():.3f}" for one in before_SK),
                " ".join(f"{one.mean():.3f}" for one in after_SK),
                f"{after_SK.mean() / before_SK.mean() - 1:+.1%}",
                f"{p:.1g}",
                f"{after_SK.mean() / teacher - 1:+.1%}",
            ]
        )
    titles = ["", "DRF", "Optimus", "lookahead", "imitated", "reinforced", "change", "p", "to lookahead"]
    return markdown_table(titles, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.dl2.adapted", description=str(__doc__).split("\n")[0]
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--traces", type=int, default=24)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results", help="a folder")
    options = parser.parse_args(arguments)
    about = ABOUT.format(**vars(options), each=TRACES_OF_A_ROUND, plays=PLAYS)
    table = report(options.seeds, options.rounds, options.traces)
    write_atomically(options.out / "dl2_adapted.md", f"# Reinforcement after imitation\n\n{about}\n\n{table}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
