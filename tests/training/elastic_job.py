"""A small elastic job that keeps a diary, and the agent that starts its processes and changes its size.

The processes are forked from one that has imported torch already, since importing it takes seconds.
"""

import hashlib
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from gavelx.rpc.ports import free_port
from gavelx.training import Gang, Training, regroup
from tests.waiting import PATIENCE_S

SAMPLES = 101


class Numbered(Dataset[tuple[int, torch.Tensor, torch.Tensor]]):
    """Samples that know their number, with noise from the three global generators."""

    def __init__(self, samples: int = SAMPLES) -> None:
        chance = torch.Generator().manual_seed(1)
        self.x = torch.randn(samples, 6, generator=chance)
        self.y = (self.x @ torch.randn(6, 1, generator=chance)).tanh()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> tuple[int, torch.Tensor, torch.Tensor]:
        noise = 0.01 * (torch.randn(6) + random.random() + float(np.random.random()))
        return i, self.x[i] + noise, self.y[i]


class Net(nn.Module):
    """With dropout, normalization, and buffers of a float and an integer that count updates."""

    updates: torch.Tensor
    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(6, 16), nn.LayerNorm(16), nn.Dropout(0.2), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 1)
        )
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Script:
    """What a process runs. ``die``: at this stage of a resize it is killed by a signal that nothing can catch."""

    batch_size: int = 8
    total_steps: int = 10**6
    every_s: float = 300.0
    step_s: float = 0.0
    die: str = ""
    warmup_epochs: float = 1.0
    optimizer: str = "adam"


def digest(*states: Any) -> str:
    """The digest of all tensors and numbers in some states."""
    found = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            found.update(value.detach().numpy().tobytes())
        elif isinstance(value, dict):
            for key in sorted(value, key=str):
                add(value[key])
        elif isinstance(value, list | tuple):
            for one in value:
                add(one)
        else:
            found.update(repr(value).encode())

    for state in states:
        add(state)
    return found.hexdigest()[:16]


def train(script: Script, diary: Path) -> None:
    """The user's script. Each update is written down with its samples and a digest of all state after it."""
    torch.manual_seed(0)
    with Gang(device="cpu") as gang:
        model = gang.parallel(Net())
        make: Any = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[script.optimizer]
        optimizer = make(model.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.95)
        generator = torch.Generator().manual_seed(7)
        loader = DataLoader(Numbered(), script.batch_size, shuffle=True)
        parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "generator": generator}
        with (
            diary.open("a") as file,
            Training(
                gang=gang,
                **parts,
                total_steps=script.total_steps,
                every_s=script.every_s,
                warmup_epochs=script.warmup_epochs,
            ) as training,
        ):
            ids: list[int] = []
            for numbers, inputs, targets in training.batches(loader):
                loss = (model(inputs) - targets).square().mean()
                assert training.part is not None
                assert training.part.loaded == tuple(numbers.tolist())
                ids += training.part.samples
                at, epoch = training.samples, training.epoch
                if not training.backward(loss):
                    ids = [] if gang.joins else ids
                    continue
                optimizer.step()
                optimizer.zero_grad()
                net = model.module
                net.updates += 1
                net.mean.mul_(0.9).add_(0.1 * torch.rand((), generator=generator))
                for _ in range(training.done(loss=loss)):
                    scheduler.step()
                state = digest(
                    net.state_dict(), optimizer.state_dict(), scheduler.state_dict(), generator.get_state()
                )
                line = {"at": at, "epoch": epoch, "ids": ids, "digest": state, "s": time.monotonic()}
                line |= {"world": gang.world_size, "loss": loss.item(), "step": training.step, "lr": lr(optimizer)}
                file.write(json.dumps(line) + "\n")
                file.flush()
                ids = []
                time.sleep(script.step_s)


def lr(optimizer: torch.optim.Optimizer) -> float:
    return float(optimizer.param_groups[0]["lr"])


def process(script: Script, environment: dict[str, str], folder: str, name: str) -> None:
    """One process of the job, as the agent starts it."""
    os.environ.update(environment)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    output = (Path(folder) / f"out-{name}.txt").open("a", buffering=1)
    sys.stdout = sys.stderr = output
    plant(script.die)
    train(script, Path(folder) / f"diary-{name}.jsonl")


def plant(stage: str) -> None:
    """Die at a stage of a resize."""
    places: dict[str, tuple[Any, str]] = {
        "ready": (regroup, "_connected"),
        "waiting": (regroup, "_written"),
        "leaving": (Gang, "leave"),
        "meeting": (regroup.Regroup, "_meet"),
        "joining": (Gang, "join"),
        "state": (Gang, "wrap"),
    }
    if stage:
        setattr(*places[stage], lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))


CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.training.elastic_job", "torch._dynamo"])  # an optimizer imports it


@dataclass
class Agent:
    """Plays the agents of all servers: slots are processes, each with a lease file and a report of its own."""

    folder: Path
    what: str = "batch"
    parts: int = 1
    batch: int = 16
    rates: str = "linear"
    target: Callable[..., None] = process
    slots: dict[int, BaseProcess] = field(default_factory=dict)
    size: dict[str, Any] = field(default_factory=dict)
    run: int = 0
    started: int = 0

    def launch(self, script: Any, count: int, batch: int = 0) -> None:
        """A new launch: from the last checkpoint, with new processes."""
        assert not any(one.is_alive() for one in self.slots.values())
        self.run += 1
        self.slots = {}
        slots = [self._new_slot() for _ in range(count)]
        self._name(0, slots, batch)
        for slot in slots:
            self._start(script, slot, joins=False)

    def resize(self, script: Any, count: int, batch: int = 0, keep: Iterable[int] | None = None) -> list[int]:
        """Write the words of the next generation, and start those that join; their slots."""
        kept = list(self.size["rank_of_slot"] if keep is None else keep)
        kept = [int(slot) for slot in kept][:count]
        joiners = [self._new_slot() for _ in range(count - len(kept))]
        self._name(self.size["generation"] + 1, kept + joiners, batch)
        for slot in joiners:
            self._start(script, slot, joins=True)
        return joiners

    def settle(self) -> dict[str, Any]:
        """Wait until the first rank reports the generation; its report. Processes that left are taken off."""
        first = next(int(slot) for slot, rank in self.size["rank_of_slot"].items() if rank == 0)
        self.until(lambda: self.report(first).get("generation") == self.size["generation"], "the resize")
        for slot in [slot for slot in self.slots if str(slot) not in self.size["rank_of_slot"]]:
            self.slots[slot].join(PATIENCE_S)
            assert self.slots.pop(slot).exitcode == 79
        return self.report(first)

    def until_steps(self, more: int) -> None:
        """Wait for some updates of the first rank."""
        begin = len(self.entries())
        self.until(lambda: len(self.entries()) >= begin + more, f"{more} updates")

    def until(self, done: Callable[[], bool], what: str) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not done():
            codes = {slot: one.exitcode for slot, one in self.slots.items()}
            failed = not set(codes.values()) <= {None, 0, 79}
            assert time.monotonic() < end_s and not failed, f"no {what}: {codes}\n{self.output()}"
            time.sleep(0.01)

    def stop(self) -> None:
        """As a stop of the lease: everyone saves and leaves."""
        self._write_leases(stop=True)
        assert set(self.ended().values()) <= {0, 79}, self.output()

    def ended(self, restart: bool = False) -> dict[int, int | None]:
        """Exit codes, when all have ended. ``restart``: as agents do, kill the others when one has failed."""
        end_s = time.monotonic() + PATIENCE_S
        while any(one.is_alive() for one in self.slots.values()) and time.monotonic() < end_s:
            if restart and any(one.exitcode not in (None, 0, 79) for one in self.slots.values()):
                time.sleep(0.3)
                break
            time.sleep(0.01)
        codes = {slot: one.exitcode for slot, one in self.slots.items()}
        self.kill()
        return codes

    def kill(self) -> None:
        for one in self.slots.values():
            one.kill()
            one.join()

    def report(self, slot: int) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.folder / f"report-{slot}.json").read_text())
        except FileNotFoundError:
            return {}
        return found

    def output(self) -> str:
        return "".join(f"{path.name}: {path.read_text()}\n" for path in sorted(self.folder.glob("out-*.txt")))

    def entries(self, run: int | None = None) -> list[dict[str, Any]]:
        """All lines of the diaries of a run, in the order of samples."""
        run = self.run if run is None else run
        paths = self.folder.glob(f"diary-{run}-*.jsonl")
        texts = [line for path in paths for line in path.read_text().split("\n")[:-1]]
        return sorted((json.loads(text) for text in texts), key=lambda one: one["at"])

    def history(self) -> list[dict[str, Any]]:
        """What counts of all runs: updates that were lost, since the next run did them again, are dropped."""
        found: list[dict[str, Any]] = []
        for run in range(1, self.run + 1):
            entries = self.entries(run)
            if entries:
                found = [one for one in found if one["at"] < entries[0]["at"]]
            found += entries
        return found

    def _new_slot(self) -> int:
        self.started += 1
        return self.started - 1

    def _name(self, generation: int, slots: list[int], batch: int) -> None:
        ranks = {str(slot): rank for rank, slot in enumerate(slots)}
        self.size = {"generation": generation, "world_size": len(slots), "rank_of_slot": ranks}
        self.size |= {"master": "127.0.0.1", "port": free_port(), "batch": batch}
        self._write_leases(also=slots)

    def _write_leases(self, stop: bool = False, also: Iterable[int] = ()) -> None:
        for slot in {*self.slots, *also}:
            part = self.folder / f"lease-{slot}.part"
            words = {"lease_id": 100 * self.run + self.size["generation"], "stop": stop}
            part.write_text(json.dumps(words | self.size))
            part.replace(self.folder / f"lease-{slot}.json")

    def _start(self, script: Any, slot: int, joins: bool) -> None:
        rank, port = self.size["rank_of_slot"][str(slot)], str(self.size["port"])
        elastic = {"what": self.what, "slot": slot, "parts": self.parts, "batch": self.batch, "rates": self.rates}
        environment = {
            "GAVELX_ELASTIC": json.dumps(elastic | {"joins": joins, "size": self.size}),
            "GAVELX_JOB_DIR": str(self.folder),
            "GAVELX_LEASE_FILE": str(self.folder / f"lease-{slot}.json"),
            "GAVELX_REPORT_FILE": str(self.folder / f"report-{slot}.json"),
            "RANK": str(rank),
            "LOCAL_RANK": "0",
            "WORLD_SIZE": str(self.size["world_size"]),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        arguments = (script, environment, str(self.folder), f"{self.run}-{slot}")
        self.slots[slot] = CONTEXT.Process(target=self.target, args=arguments, daemon=True)
        self.slots[slot].start()


def check_history(entries: list[dict[str, Any]], samples: int = SAMPLES) -> None:
    """Each sample once an epoch, and the same state everywhere after each update."""
    by_epoch: dict[int, list[int]] = {}
    digests: dict[int, set[str]] = {}
    for one in entries:
        by_epoch.setdefault(one["epoch"], []).extend(one["ids"])
        digests.setdefault(one["at"], set()).add(one["digest"])
    last = max(by_epoch)
    for epoch, ids in by_epoch.items():
        assert len(set(ids)) == len(ids), f"a sample came twice in epoch {epoch}"
        assert epoch == last or sorted(ids) == list(range(samples)), f"samples are missing in epoch {epoch}"
    assert all(len(found) == 1 for found in digests.values()), "processes have different states"
