"""What logical workers cost: beside a step of torch's wrapper, and beside plain accumulation of gradients.

Both sides run in the same processes, in turns of a few steps each, and are timed in processor seconds of all
processes together: the machine may be busy with other things. A ratio is that of one pair of turns; the least and
the median of all pairs are shown.
"""

import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from experiments.experiment import markdown_table
from experiments.parts.models import CLASSES, large_transformer, mlp, resnet
from experiments.parts.runs import Job, ended, started
from experiments.parts.scripts import Script
from gavelx.training import Gang, Training

PARTS, PARTS_MOST = 4, 16
BATCH = 8
TURNS = 7
"""Pairs of turns; the first one warms up."""
SIZES: dict[str, tuple[Callable[[], nn.Module], int, int]] = {
    "mlp": (mlp, 16, 8),
    "transformer": (large_transformer, 32, 2),
    "resnet": (resnet, 32, 1),
}
"""Model, side of an image, and updates in a turn."""


def page() -> str:
    """Both tables and the memory."""
    at_n = [_row(name, PARTS) for name in SIZES]
    alone = [_row(name, 1) for name in SIZES]
    headings = ["model", "gradients, MB", "theirs, ms", "ours, ms", "ratio, median", "ratio, least"]
    one, many, gradients = (*(_memory(parts) for parts in (1, PARTS_MOST)), _megabytes("resnet"))
    beyond = (many - PARTS_MOST * gradients) / (one - gradients)
    return f"""# What logical workers cost

Processor time of an update of {PARTS} parts, of all processes together, with batches of {BATCH} a part. Both sides
run in turns in the same processes. A ratio is that of two turns that follow each other ({TURNS - 1} pairs).

## {PARTS} parts on {PARTS} processes, beside a step of DistributedDataParallel

{markdown_table(headings, at_n)}

## {PARTS} parts on one process, beside {PARTS} accumulated batches

{markdown_table(headings, alone)}

## Memory of {PARTS_MOST} parts on one process

The most memory that a process of *resnet* had: {one:.0f} MB with one part, {many:.0f} MB with {PARTS_MOST}. Less
a vector of {gradients:.0f} MB for the gradients of each part, that is {beyond:.2f} times as much.

{os.cpu_count()} processor cores, torch {torch.__version__}, gloo, one thread a process.

    python -m experiments.parts cost --write
"""


def _row(name: str, processes: int) -> list[str]:
    times = _measured(name, processes)
    pairs = list(zip(times["theirs"], times["ours"], strict=True))
    ratios = [ours / theirs for theirs, ours in pairs]
    theirs, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    return [
        name,
        f"{_megabytes(name):.1f}",
        f"{1000 * theirs:.0f}",
        f"{1000 * ours:.0f}",
        f"{statistics.median(ratios):.2f}",
        f"{min(ratios):.2f}",
    ]


def _megabytes(name: str) -> float:
    return sum(parameter.numel() for parameter in SIZES[name][0]().parameters()) * 4 / 1e6


def _measured(name: str, processes: int) -> dict[str, list[float]]:
    """Processor seconds an update, of all processes together, by turn."""
    with tempfile.TemporaryDirectory() as folder:
        job = Job(Script(), PARTS, Path(folder))
        environments = job.environments(processes)
        ended([started(_process, (name, environment, folder)) for environment in environments])
        found = [json.loads((Path(folder) / f"times-{rank}.json").read_text()) for rank in range(processes)]
    return {side: [sum(ranks) for ranks in zip(*(one[side] for one in found), strict=True)] for side in found[0]}


def _process(name: str, environment: dict[str, str], folder: str) -> None:
    """One process, which takes turns."""
    os.environ.update(environment)
    torch.set_num_threads(1)
    make, side, updates = SIZES[name]
    times: dict[str, list[float]] = {"theirs": [], "ours": []}
    with Gang(device="cpu") as gang:
        sides = {"theirs": _theirs(make, side, gang.world_size), "ours": _ours(make, side, gang, folder)}
        for _ in range(TURNS):
            for who, steps in sides.items():
                if gang.world_size > 1:
                    dist.barrier()
                begin_s = time.process_time()
                for _ in range(updates):
                    next(steps)
                times[who].append((time.process_time() - begin_s) / updates)
        warm = json.dumps({who: one[1:] for who, one in times.items()})
        (Path(folder) / f"times-{gang.rank}.json").write_text(warm)
        for one in sides.values():
            one.close()


def _data(side: int) -> TensorDataset:
    images = torch.randn(64 * BATCH, 3, side, side, generator=torch.Generator().manual_seed(0))
    return TensorDataset(images, torch.arange(len(images)) % CLASSES)


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def _theirs(make: Callable[[], nn.Module], side: int, processes: int) -> Iterator[None]:
    """Updates of torch's wrapper, or on one process of accumulated gradients."""
    model: nn.Module = DistributedDataParallel(make()) if processes > 1 else make()
    optimizer = _sgd(model)
    micro = PARTS // processes
    while True:
        for number, (inputs, targets) in enumerate(DataLoader(_data(side), BATCH, shuffle=True)):
            cross_entropy(model(inputs), targets).backward()  # type: ignore[no-untyped-call]
            if (number + 1) % micro == 0:
                optimizer.step()
                optimizer.zero_grad()
                yield


def _ours(make: Callable[[], nn.Module], side: int, gang: Gang, folder: str) -> Any:
    """Updates of a job with logical workers."""
    model: Any = gang.parallel(make())
    optimizer = _sgd(model)
    loader = DataLoader(_data(side), BATCH, shuffle=True)
    parts = {"model": model, "optimizer": optimizer}
    with Training(gang=gang, total_steps=10**6, folder=Path(folder) / "checkpoints", **parts) as training:
        for inputs, targets in training.batches(loader):
            loss = cross_entropy(model(inputs), targets)
            if training.backward(loss):
                optimizer.step()
                optimizer.zero_grad()
                training.done(loss=loss)
                yield


def _memory(parts: int) -> float:
    """The most megabytes that one process with so many parts had."""
    with tempfile.TemporaryDirectory() as folder:
        (environment,) = Job(Script(), parts, Path(folder)).environments(1)
        ended([started(_remember, (environment, folder))])
        return float((Path(folder) / "memory.txt").read_text())


def _remember(environment: dict[str, str], folder: str) -> None:
    os.environ.update(environment)
    torch.set_num_threads(1)
    make, side, _ = SIZES["resnet"]
    with Gang(device="cpu") as gang:
        steps = _ours(make, side, gang, folder)
        for _ in range(3):
            next(steps)
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        (Path(folder) / "memory.txt").write_text(str(kilobytes / 1000))
        steps.close()
