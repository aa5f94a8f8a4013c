"""The world of DL2: jobs with workers and parameter servers on servers of CPUs and GPUs, in slots of 20 minutes.

Speeds are of a model of ours, ``1 / (t0 / w + t1 + t2 w / p + t3 w + t4 p)`` updates a second with w workers and p
servers, with five parameters for each of the paper's eight models (``speeds.csv``): they are fitted to the speeds
that its authors measured. Measured speeds are not as smooth, and it matters that they are not concave; so sizes
differ from the model by factors that are drawn once, as large as the model's error. Samples an epoch, epochs, the
numbers of arrivals and what workers and servers hold are the paper's and its code's.

Legend: K traces, J jobs, N models, V sizes, R resources (CPUs and GPUs).
"""

import csv
import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from gavelx.slots.greedy import Greedy, Steps, Weights
from gavelx.slots.model import NONE, Floats, Ints, Schedule, Sizes, Slots
from gavelx.slots.moves import Moves
from gavelx.slots.window import Window

SLOT_S = 1200.0
MOST = 16
"""Workers of a job, and servers."""
CPUS, GPUS = 8, 8
"""Of a node."""
EPOCH = {
    "resnet-50": 115, "vgg-16": 115, "resnext-110": 390, "inception-bn": 120,
    "seq2seq": 780, "cnn-text-classification": 193, "dssm": 349, "wlm": 165,
}  # fmt: skip
"""Updates of an epoch."""
EPOCHS = {
    "resnet-50": 900, "vgg-16": 2880, "resnext-110": 150, "inception-bn": 1620,
    "seq2seq": 2850, "cnn-text-classification": 1380, "dssm": 990, "wlm": 690,
}  # fmt: skip
WITHOUT_GPU = ("cnn-text-classification", "dssm")
WORKER_CPUS, WORKER_GPUS, SERVER_CPUS = 2, 4, 2
ARRIVALS, ARRIVALS_MOST = 2.4, 3
"""A slot: Poisson with this mean, and no more than so many."""
Arrivals = Callable[[np.random.Generator, int], Ints]
"""How many jobs arrive in each of so many slots."""
SPEEDS = Path(__file__).with_name("speeds.csv")
MANY = 128
"""Of a model with more measured speeds, nearly every size was measured; of the others, every second one."""
NORMAL_MEDIAN = 0.6745
"""The median of the absolute value of a standard normal."""


@cache
def sizes(rough: bool = True) -> Sizes:
    """All numbers of workers and servers, for each model; ``place`` says where in the table one stands.

    With workers alone, or servers alone, nothing is trained.
    """
    with SPEEDS.open() as file:
        rows = {row["model"]: row for row in csv.DictReader(file)}
    p_V, w_V = np.divmod(np.arange((MOST + 1) ** 2), MOST + 1)
    both_V = (p_V > 0) & (w_V > 0)
    speed_NV, use_NVR = [], []
    for n, model in enumerate(EPOCH):
        t = [float(rows[model][f"t{i}"]) for i in range(5)]
        w, p = w_V[both_V], p_V[both_V]
        speed = 1.0 / (t[0] / w + t[1] + t[2] * w / p + t[3] * w + t[4] * p)
        if rough:
            error = float(rows[model]["median_relative_error"]) / NORMAL_MEDIAN
            apart = 1 if int(rows[model]["points"]) > MANY else 2
            speed = speed * np.exp(error * _roughness(np.random.default_rng([25, n]), apart))
        gpus = 0 if model in WITHOUT_GPU else WORKER_GPUS
        speed_NV.append(np.zeros(len(both_V)))
        speed_NV[-1][both_V] = speed
        use_NVR.append(np.stack([WORKER_CPUS * w_V + SERVER_CPUS * p_V, gpus * w_V], axis=1))
    return Sizes(np.array(use_NVR, dtype=float), np.array(speed_NV))


def _roughness(random: np.random.Generator, apart: int) -> Floats:
    """Standard normal at every so many workers and servers, where speeds were measured, and linear in between."""
    knots = np.arange(1, MOST + apart, apart)
    drawn, every = random.normal(size=(len(knots), len(knots))), np.arange(1, MOST + 1)
    across = np.array([np.interp(every, knots, row) for row in drawn])
    return np.array([np.interp(every, knots, column) for column in across.T]).T.ravel()


def place(workers: Any, servers: Any) -> Any:
    """The size with so many workers and servers."""
    return servers * (MOST + 1) + workers


def room(nodes: int) -> Floats:
    """CPUs and GPUs of so many nodes, on whichever of them a worker is."""
    return np.array([nodes * CPUS, nodes * GPUS], dtype=float)


def poisson(random: np.random.Generator, slots: int) -> Ints:
    """Arrivals as DL2's code draws them."""
    return np.minimum(ARRIVALS_MOST, random.poisson(ARRIVALS, slots))


def traces(
    seeds: Sequence[int],
    nodes: int,
    jobs: int = 60,
    noise: float = 0.0,
    *,
    rough: bool = True,
    models: Sequence[int] = range(len(EPOCH)),
    arrivals: Arrivals = poisson,
) -> Slots:
    """A trace for each seed: models and arrivals by chance; with ``noise``, speeds that are off by that much.

    The standard deviation of a job's true speed over the believed one is ``noise``, and its mean 1.
    """
    steps_N = np.array([EPOCH[model] * EPOCHS[model] for model in EPOCH], dtype=float)
    kind_KJ, arrival_s_KJ, pace_KJ = [], [], []
    for seed in seeds:
        random = np.random.default_rng([25, 2, seed])
        counts = arrivals(random, jobs)
        kind_KJ.append(np.array(models)[random.integers(len(models), size=jobs)])
        arrival_s_KJ.append(SLOT_S * np.repeat(np.arange(jobs), counts)[:jobs])
        sigma = math.sqrt(math.log1p(noise**2))
        pace_KJ.append(np.exp(random.normal(-sigma * sigma / 2.0, sigma, jobs)))
    kinds = np.array(kind_KJ)
    return Slots.of(
        sizes(rough),
        room(nodes),
        kinds,
        steps_N[kinds],
        arrival_s_KJ=np.array(arrival_s_KJ),
        pace_KJ=np.array(pace_KJ),
    )


def optimus(nodes: int, table: Sizes) -> Schedule:
    """Optimus as published: one worker or server more where it saves most seconds, for what it takes."""
    return Greedy(
        Steps.along(table, room(nodes), [[_additions(speed_V)] for speed_V in table.speed_NV]), [Weights(0.0)]
    )


def _additions(speed_V: Floats) -> list[int]:
    """From one worker and one server, the better of one more of either, for as long as that is faster."""
    workers = servers = 1
    path = [place(1, 1)]
    while True:
        more = [(w, p) for w, p in ((workers + 1, servers), (workers, servers + 1)) if max(w, p) <= MOST]
        workers, servers = max(more, key=lambda size: float(speed_V[place(*size)]), default=(workers, servers))
        if speed_V[place(workers, servers)] <= speed_V[path[-1]]:
            return path
        path.append(place(workers, servers))


def over_all_sizes(nodes: int, table: Sizes) -> Schedule:
    """Optimus with any larger size for a step."""
    return Greedy(Steps.hull(table, room(nodes)), [Weights(0.0)])


def pairs(nodes: int, table: Sizes) -> Steps:
    """Steps of a worker and a server each, as DRF, SRTF and Tetris take them."""
    path = [place(n, n) for n in range(1, MOST + 1)]
    return Steps.along(table, room(nodes), [[path]] * len(table.speed_NV))


def published_moves(nodes: int, table: Sizes, *, bundle: bool = True) -> Moves:
    """DL2's actions: a worker more, a server more, or both (its bundle)."""
    at_V = np.arange((MOST + 1) ** 2)
    count_VD = np.stack([at_V % (MOST + 1), at_V // (MOST + 1)], axis=1)
    more_MD = np.array([[1, 0], [0, 1], [1, 1]])
    next_VMD = np.concatenate([count_VD, [[0, 0]]])[:, None, :] + more_MD
    next_VM = np.where((next_VMD <= MOST).all(axis=2), place(next_VMD[:, :, 0], next_VMD[:, :, 1]), NONE)
    next_VM[:, 2] = next_VM[:, 2] if bundle else NONE
    N = len(table.speed_NV)
    return Moves(table, np.tile(next_VM, (N, 1, 1)), np.tile(count_VD, (N, 1, 1)), room(nodes))


def window(nodes: int, table: Sizes, *, jobs: int = 20, bundle: bool = True) -> Window:
    """What DL2 sees: of each job its model, and what is left in epochs."""
    return Window(
        published_moves(nodes, table, bundle=bundle),
        np.arange(len(EPOCH)),
        np.array(list(EPOCH.values()), dtype=float),
        len(EPOCH),
        jobs,
        SLOT_S,
    )


def mean_jct(slots: Slots) -> Floats:
    """Of each trace, the mean completion time in slots."""
    return np.asarray(slots.jct_s_KJ.mean(axis=1) / SLOT_S)
