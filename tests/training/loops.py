"""A small deterministic training that draws from every generator, and ways to interrupt it.

``python -m tests.training.loops`` runs it as a job would be; ``Plan`` says what is different from run to run.
"""

import argparse
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler, IterableDataset, RandomSampler

from gavelx.training import Gang, Training

N = 23
"""Examples: no multiple of a batch."""


class Noisy(Dataset[torch.Tensor]):
    """Augments with the global generators, as user scripts do."""

    def __init__(self, noise: float = 0.1) -> None:
        self.x, self.noise = torch.randn(N, 4, generator=torch.Generator().manual_seed(1)), noise

    def __len__(self) -> int:
        return N

    def __getitem__(self, i: int) -> torch.Tensor:
        return self.x[i] + self.noise * (torch.randn(4) + random.random() + float(np.random.random()))


class Streamed(IterableDataset[torch.Tensor]):
    """The same, without an index."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        data = Noisy()
        return (data[i] for i in torch.randperm(N).tolist())


@dataclass(frozen=True)
class Plan:
    total_steps: int = 17
    batch_size: int = 5
    loader: str = "shuffled"
    by_epoch: bool = False
    accumulate: int = 1
    replay: bool = False
    workers: int = 0
    persistent: bool = False
    drawn_by_dataset: bool = True

    def make_loader(self) -> DataLoader[torch.Tensor] | list[torch.Tensor]:
        data, size = Noisy(0.1 if self.drawn_by_dataset else 0.0), self.batch_size
        processes = {"num_workers": self.workers, "persistent_workers": self.persistent}
        generator = torch.Generator().manual_seed(3)
        replaced = RandomSampler(data, replacement=True, num_samples=50, generator=generator)
        batches = BatchSampler(RandomSampler(data), size, drop_last=False)
        loaders: dict[str, Callable[[], DataLoader[torch.Tensor] | list[torch.Tensor]]] = {
            "shuffled": lambda: DataLoader(data, size, shuffle=True, **processes),
            "generator": lambda: DataLoader(data, size, shuffle=True, drop_last=True, generator=generator),
            "replacement": lambda: DataLoader(data, size, sampler=replaced),
            "batches": lambda: DataLoader(data, batch_sampler=batches),
            "single": lambda: DataLoader(data, batch_size=None, shuffle=True),
            "streamed": lambda: DataLoader(Streamed(), size),
            "list": lambda: list(data.x.split(size)),
        }
        return loaders[self.loader]()


class CrashError(Exception):
    """Thrown into a step, as a crash would be."""


@dataclass
class Outcome:
    losses: list[float]
    parameters: list[float]
    chance: tuple[float, float, float]
    validated: list[float]


def train(
    plan: Plan, folder: Path, stop_at: Sequence[int] = (), crash_at: Sequence[int] = (), **options: object
) -> Outcome | None:
    """One process's life: the whole outcome if training is complete, None if it was stopped before.

    Losses are appended to ``losses.txt`` when their step is done; those of steps that were lost are dropped again.
    """
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.7)
    loader = plan.make_loader()
    log = folder / "losses.txt"
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    with (
        suppress(SystemExit),
        Training(**parts, total_steps=plan.total_steps, folder=folder, **options) as training,  # type: ignore[arg-type]
    ):
        kept = log.read_text().splitlines()[: training.step] if log.exists() else []
        log.write_text("".join(line + "\n" for line in kept))
        validated = folder / "validated.txt"
        for _epoch in training.epochs() if plan.by_epoch else [0]:
            micro = 0
            for batch in training.batches(loader, replay=plan.replay):
                x = batch.reshape(-1, 4)
                loss = model(x if len(x) > 1 else x.repeat(2, 1)).square().mean()  # the norm needs two
                loss.backward()
                micro += 1
                if micro % plan.accumulate:
                    continue
                optimizer.step()
                optimizer.zero_grad()
                if training.step + 1 in crash_at:
                    raise CrashError
                if not plan.by_epoch:
                    scheduler.step()
                training.done(loss=loss)
                with log.open("a") as file:
                    file.write(f"{loss.item()!r}\n")
                if training.step in stop_at:
                    signal.raise_signal(signal.SIGTERM)
            if plan.by_epoch:
                scheduler.step()
                optimizer.zero_grad()
                with validated.open("a") as file:
                    file.write(f"{scheduler.get_last_lr()[0] + torch.rand(()).item()!r}\n")
    if not training.complete:
        return None
    return Outcome(
        [float(line) for line in log.read_text().splitlines()],
        [p for parameter in model.parameters() for p in parameter.detach().flatten().tolist()],
        (random.random(), float(np.random.random()), torch.rand(()).item()),
        [float(line) for line in validated.read_text().splitlines()] if validated.exists() else [],
    )


def main() -> None:
    """As a job: slow enough to be interrupted, one line a step, on one process or several."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--step-s", type=float, default=0.0)
    parser.add_argument("--every-s", type=float, default=300.0)
    parser.add_argument("--fail-rank", type=int, default=-1)
    parser.add_argument("--hold-at", type=int, default=-1, help="after this step, until there is the file --go")
    parser.add_argument("--go", default="go")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with Gang(device="cpu") as gang:
        torch.manual_seed(gang.rank)
        data = torch.randn(40, 4, generator=torch.Generator().manual_seed(1))
        net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 1))
        for p in net.parameters():
            nn.init.constant_(p, 0.1)
        model = gang.parallel(net)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        sampler: DistributedSampler[torch.Tensor] = DistributedSampler(data, gang.world_size, gang.rank)  # type: ignore[arg-type]
        loader = DataLoader(data, 4, sampler=sampler)  # type: ignore[arg-type]
        with Training(model=model, optimizer=optimizer, total_steps=args.steps, every_s=args.every_s) as training:
            for batch in training.batches(loader):
                optimizer.zero_grad()
                loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
                loss.backward()
                optimizer.step()
                training.done(loss=loss)
                if gang.rank == args.fail_rank:
                    raise CrashError
                print(gang.rank, training.step, repr(loss.item()), flush=True)
                while training.step == args.hold_at and not Path(args.go).exists():
                    time.sleep(0.01)
                time.sleep(args.step_s)
    if gang.rank == 0:
        print("complete", repr(sum(p.double().sum().item() for p in net.parameters())), flush=True)


if __name__ == "__main__":
    main()
