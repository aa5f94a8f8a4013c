"""DL2 as published, in its world: imitation of a scheduler, then reinforcement; its baselines, and its ablations.

    python -m experiments.dl2.published [--seeds 3] [--rounds 6] [--traces 24] [--out experiments/results]

Writes ``dl2_published.md``; each part of it is in ``dl2_published.json`` as soon as it is found, so a run that was
interrupted goes on where it stopped.
"""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np

from experiments.dl2.__main__ import GAP, LEARNED_AT, NOISE, TEST, TRAINING, VALIDATION
from experiments.dl2.parts import Parts
from experiments.dl2.world import SLOT_S, optimus, pairs, sizes, traces, window
from experiments.experiment import markdown_table
from gavelx.files.atomic import write_atomically
from gavelx.learning.actor_critic import ActorCritic, Options, greedy
from gavelx.learning.reinforce import TOLERANCE
from gavelx.learning.supervised import agreement, cloned, demonstrated
from gavelx.policies.network import Network
from gavelx.slots.baselines import drf, srtf, tetris
from gavelx.slots.model import Floats, Schedule, Slots, play

TRACES_OF_A_COPY, TRACES_OF_A_ROUND, TRACES_OF_A_VALIDATION = 16, 4, 8
STEPS_OF_A_COPY = 400
PATIENCE_SLOTS = 400
"""A schedule that has not completed all jobs by then is stopped; what it leaves counts as complete then."""
WINDOW = 20
TABLE_2: Mapping[str, tuple[Options, bool]] = {
    "as published": (Options(), True),
    "no critic": (Options(critic=False), True),
    "no job-aware exploration": (Options(explore=0.0), True),
    "no replay": (Options(replay=0), True),
    "no bundle": (Options(), False),
}
"""What DL2's Table 2 leaves out, and whether a worker and a server may be added together."""
PAPER = {"no critic": 0.211, "no job-aware exploration": 0.288, "no replay": 0.396, "no bundle": 0.351}
ABOUT = """Made by `python -m experiments.dl2.published --seeds {seeds} --rounds {rounds} --traces {traces}`:
{nodes} nodes, {traces} test traces of 60 jobs that no network has seen; validation traces are others. A network of
DL2's size (two layers of 256, {window} jobs, 3 J + 1 actions) imitates a scheduler on {copy} traces, and then
learns by reinforcement with DL2's own options (Adam 1e-4, discount 0.9, entropy 0.1, exploration 0.4, replay 8192,
batches of 256), on {each} traces a round. Differences are of mean completion."""


class Course(NamedTuple):
    """Mean completion to DRF: on validation traces after each round, on test traces of the best and the last.

    ``best_slots`` is the mean completion of the best in slots, at exact speeds and with noise.
    """

    curve: list[float]
    best: float
    last: float
    best_slots: list[float]


def mean_slots(slots: Slots, schedule: Schedule) -> Floats:
    """Of each trace, the mean completion in slots."""
    played = play(slots, schedule, SLOT_S, PATIENCE_SLOTS)
    done_s_KJ = np.where(np.isnan(played.done_s_KJ), PATIENCE_SLOTS * SLOT_S, played.done_s_KJ)
    return np.asarray((done_s_KJ - slots.arrival_s_KJ).mean(axis=1) / SLOT_S)


def over(slots: Slots, ours: Schedule, others: Schedule) -> float:
    return float(mean_slots(slots, ours).mean() / mean_slots(slots, others).mean() - 1.0)


def tests(count: int, noise: float = 0.0) -> Slots:
    return traces(range(TEST, TEST + count), LEARNED_AT, noise=noise)


def validation() -> Slots:
    return traces(range(VALIDATION, VALIDATION + TRACES_OF_A_VALIDATION), LEARNED_AT)


def training(seed: int, number: int, count: int, *, rough: bool = True) -> Slots:
    first = TRAINING + GAP * seed + TRACES_OF_A_COPY * number
    return traces(range(first, first + count), LEARNED_AT, rough=rough)


def copy_of(teacher: Schedule, seed: int, *, bundle: bool = True, rough: bool = True) -> Network:
    """A network that does as a teacher."""
    slots = training(seed, 0, TRACES_OF_A_COPY, rough=rough)
    seen_by = window(LEARNED_AT, slots.sizes, jobs=WINDOW, bundle=bundle)
    return cloned(seen_by, demonstrated(seen_by, slots, teacher), seed=seed, steps=STEPS_OF_A_COPY)


@cache
def copy_of_drf(seed: int, bundle: bool) -> Network:
    """Where reinforcement begins."""
    return copy_of(drf(pairs(LEARNED_AT, sizes())), seed, bundle=bundle)


def copied(teacher: Schedule, seed: int, count: int) -> tuple[float, float]:
    """How often a copy acts as its teacher on unseen traces, and its mean completion to the teacher's."""
    seen_by, network = window(LEARNED_AT, sizes(), jobs=WINDOW), copy_of(teacher, seed)
    unseen = demonstrated(seen_by, validation(), teacher)
    return agreement(seen_by, network, unseen), over(tests(count), greedy(seen_by, network), teacher)


def copies(count: int, seeds: int, parts: Parts) -> str:
    """The first stage, from each teacher."""
    table = sizes()
    both, rows = pairs(LEARNED_AT, table), []
    for name, teacher in (("DRF", drf(both)), ("Optimus", optimus(LEARNED_AT, table)), ("SRTF", srtf(both))):
        found = []
        for seed in range(seeds):
            found.append(parts.of(f"copy of {name}, seed {seed}", partial(copied, teacher, seed, count)))
            print(f"copy of {name}, seed {seed}: {found[-1]}", file=sys.stderr, flush=True)
        least, mean = min(one for one, _ in found), fmean(one for one, _ in found)
        rows.append([name, f"{mean:.1%}", f"{least:.1%}", " ".join(f"{gap:+.1%}" for _, gap in found)])
    return markdown_table(["teacher", "same action, mean", "least", "to the teacher, by seed"], rows)


def reinforced(seed: int, rounds: int, count: int, *, options: Options, bundle: bool, tolerance: float) -> Course:
    """The second stage; a round that is worse than the best by more than ``tolerance`` is undone."""
    seen_by, best = window(LEARNED_AT, sizes(), jobs=WINDOW, bundle=bundle), copy_of_drf(seed, bundle)
    learner, teacher = ActorCritic(seen_by, best, options, seed), drf(pairs(LEARNED_AT, sizes()))
    drf_s, curve = mean_slots(validation(), teacher).mean(), list[float]()
    for number in range(rounds + 1):
        if number:
            learner.play(training(seed, number, TRACES_OF_A_ROUND), most=PATIENCE_SLOTS)
        network = learner.network
        curve.append(float(mean_slots(validation(), greedy(seen_by, network)).mean() / drf_s - 1.0))
        best = network if curve[-1] <= min(curve) else best
        learner.judged(1.0 + curve[-1], tolerance)
    to_drf = (over(tests(count), greedy(seen_by, one), teacher) for one in (best, learner.network))
    return Course(curve, *to_drf, exact_and_noisy(greedy(seen_by, best), count))


def exact_and_noisy(schedule: Schedule, count: int) -> list[float]:
    """Mean completion in slots on the test traces, at exact speeds and with noise."""
    return [float(mean_slots(tests(count, noise), schedule).mean()) for noise in (0.0, NOISE)]


def table_2(seeds: int, rounds: int, count: int, parts: Parts) -> tuple[str, list[Course]]:
    """Reinforcement as published, with rounds undone, and without each of its parts; and the first of these."""
    cases = [(name, *one, float("inf")) for name, one in TABLE_2.items()]
    cases.insert(1, ("as published, worse rounds undone", Options(), True, TOLERANCE))
    rows, courses = [], list[list[Course]]()
    for name, setting, bundle, tolerance in cases:
        courses.append([])
        for seed in range(seeds):
            case = {"options": setting, "bundle": bundle, "tolerance": tolerance}
            find = partial(reinforced, seed, rounds, count, **case)
            courses[-1].append(Course(*parts.of(f"{name}, seed {seed}", find)))
            shown = " ".join(f"{one:+.3f}" for one in courses[-1][-1].curve)
            print(f"{name}, seed {seed}: {shown}; {time.process_time():.0f} s", file=sys.stderr, flush=True)
        last, last_of_first = (fmean(one.last for one in found) for found in (courses[-1], courses[0]))
        rows.append(
            [
                name,
                " ".join(f"{one.best:+.1%}" for one in courses[-1]),
                " ".join(f"{one.last:+.1%}" for one in courses[-1]),
                f"{(1 + last) / (1 + last_of_first) - 1:+.1%}",
                f"{PAPER[name]:+.1%}" if name in PAPER else "",
                f"{max(max(one.curve) for one in courses[-1]):+.1%}",
            ]
        )
    titles = ["", "best round, to DRF", "last round, to DRF", "last, to as published", "paper", "worst validation"]
    return markdown_table(titles, rows), courses[0]


def offline(seed: int, rounds: int, count: int) -> list[float]:
    """OfflineRL: the same learner at the speeds of the smooth model, judged at those that are measured."""
    smooth = sizes(rough=False)
    network = copy_of(drf(pairs(LEARNED_AT, smooth)), seed, rough=False)
    learner = ActorCritic(window(LEARNED_AT, smooth, jobs=WINDOW), network, Options(), seed)
    for number in range(1, rounds + 1):
        learner.play(training(seed, number, TRACES_OF_A_ROUND, rough=False), most=PATIENCE_SLOTS)
    return exact_and_noisy(greedy(window(LEARNED_AT, sizes(), jobs=WINDOW), learner.network), count)


def baselines(seeds: int, rounds: int, count: int, parts: Parts, published: Sequence[Course]) -> str:
    """The paper's comparison (figure 9), at exact speeds and with 27.3 % noise."""
    both = pairs(LEARNED_AT, sizes())
    schedules = {
        "DRF": drf(both), "SRTF": srtf(both), "Tetris": tetris(both), "Optimus": optimus(LEARNED_AT, sizes())
    }  # fmt: skip
    found = {name: [exact_and_noisy(one, count)] for name, one in schedules.items()}
    found["OfflineRL"] = [
        parts.of(f"OfflineRL, seed {seed}", partial(offline, seed, rounds, count)) for seed in range(seeds)
    ]
    found["DL2, best round"] = [one.best_slots for one in published]
    rows = [[name, *map(_with_spread, zip(*of_seeds, strict=True))] for name, of_seeds in found.items()]
    return markdown_table(["", "mean completion, slots", "with noise"], rows)


def _with_spread(means: Sequence[float]) -> str:
    return f"{fmean(means):.3f}" + (f" ± {stdev(means):.3f}" if len(means) > 1 else "")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.dl2.published", description=str(__doc__).split("\n")[0]
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--traces", type=int, default=24)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results", help="a folder")
    options = parser.parse_args(arguments)
    about = ABOUT.format(
        **vars(options), nodes=LEARNED_AT, window=WINDOW, copy=TRACES_OF_A_COPY, each=TRACES_OF_A_ROUND
    )
    seeds, rounds, count = options.seeds, options.rounds, options.traces
    parts = Parts(options.out / "dl2_published.json", {"rounds": rounds, "traces": count})
    imitation = copies(count, seeds, parts)
    reinforcement, published = table_2(seeds, rounds, count, parts)
    text = ["# DL2 as published", about, "## Imitation", imitation]
    text += ["## Reinforcement, and what DL2's Table 2 leaves out", reinforcement]
    text += ["## Its baselines", baselines(seeds, rounds, count, parts, published)]
    write_atomically(options.out / "dl2_published.md", "\n\n".join(text) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
