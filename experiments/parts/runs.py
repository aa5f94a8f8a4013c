"""Runs a script in processes of its own, through sizes that change at given steps; and what it reached.

Processes are forked from one that has imported torch already, and what the first optimizer imports: that takes
seconds.
"""

import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from experiments.parts.scripts import Script, digest, elastic, under_torch
from gavelx.rpc.ports import free_port
from gavelx.training import between, regroup, votes
from gavelx.training.checkpoints import Checkpoints

PATIENCE_S = 300.0
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["experiments.parts.runs", "torch._dynamo"])

Reached = dict[str, str]
"""Digests, or losses, by the name of what was reached."""
Losses = list[list[str]]
"""By part and step, as `experiments.parts.scripts.written` writes those of all models."""
Digests = Callable[[Script, Losses, dict[str, Any]], Reached]
"""From losses and the content of a checkpoint to what was reached: :func:`by_kind` or :func:`one_by_one`."""
Schedule = Sequence[tuple[int, int]]
"""(processes, the step at which the next size begins); the last step is that of the end."""


def by_kind(_: Script, losses: Losses, content: dict[str, Any]) -> Reached:
    """A digest each of the losses, parameters and buffers, optimizers, schedulers, and generators."""
    parts: dict[str, Any] = content["parts"]
    kinds = {name.rstrip("0123456789") for name in parts}
    found = {kind: digest({name: parts[name] for name in parts if name.startswith(kind)}) for kind in kinds}
    return {"losses": digest(losses), "generators": digest(_generators(content)), **found}


def one_by_one(script: Script, losses: Losses, content: dict[str, Any]) -> Reached:
    """Each loss and tensor under a name that tells its model: losses by step, then what is there at the end."""
    cases = [f"{model} with {optimizer}" for model, optimizer in script.cases]
    found = {
        f"step {step}, part {part}: loss of {case}": "/".join(sorted(set(seen)))
        for step in range(script.steps)
        for part, of_part in enumerate(losses)
        for case, *seen in zip(cases, *(one.split(",") for one in of_part[step].split("/")), strict=True)
    }
    for kind in ("model", "optimizer", "scheduler"):
        for number, case in enumerate(cases):
            state = content["parts"][f"{kind}{number}"]
            found |= {f"{kind} of {case}: {name}": digest(value) for name, value in _leaves(state)}
    return found | {f"generators of part {part}": digest(one) for part, one in _generators(content).items()}


def differences(reached: Reached, expected: Reached) -> list[str]:
    """The names of what differs, in the order of what was expected."""
    return [name for name in expected if reached.get(name) != expected[name]]


def _generators(content: dict[str, Any]) -> dict[int, Any]:
    """Those of parts, without that between steps."""
    return {number: one for number, one in content["contexts"].items() if number >= 0}


def _leaves(state: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(state, dict):
        for key, value in state.items():
            yield from _leaves(value, f"{where}.{key}" if where else str(key))
    else:
        yield where, state


def reference(script: Script, world_size: int, digests: Digests = by_kind) -> Reached:
    """What torch's ``DistributedDataParallel`` reaches on so many processes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arguments = [(script, rank, world_size, str(folder / "store"), folder) for rank in range(world_size)]
        ended([started(_under_torch, one) for one in arguments])
        losses = [json.loads((folder / f"losses-{rank}.json").read_text()) for rank in range(world_size)]
        return digests(script, losses, torch.load(folder / "reached.pt", weights_only=False))


def _under_torch(script: Script, rank: int, world_size: int, store: str, folder: Path) -> None:
    _prepare()
    under_torch(script, rank, world_size, store, folder)


def _prepare() -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)


def started(target: Callable[..., None], arguments: tuple[Any, ...]) -> BaseProcess:
    process = CONTEXT.Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


def ended(processes: Sequence[BaseProcess], may_fail: bool = False) -> None:
    """Wait for the end of all; when one fails, the others are killed."""
    end_s = time.monotonic() + PATIENCE_S
    while any(process.is_alive() for process in processes):
        failed = [process for process in processes if process.exitcode not in (None, 0, 79)]
        if failed or time.monotonic() > end_s:
            for process in processes:
                process.kill()
                process.join()
            assert may_fail and failed, f"processes ended with {[process.exitcode for process in processes]}"
            return
        time.sleep(0.005)
    assert may_fail or all(process.exitcode in (0, 79) for process in processes)


@dataclass
class Job:
    """A job of gavelx with so many parts, and its agent.

    ``spread``: the parts of each process where there are so many processes, as on devices of several types.
    """

    script: Script
    parts: int
    folder: Path
    slots: dict[int, BaseProcess] = field(default_factory=dict)
    size: dict[str, Any] = field(default_factory=dict)
    started: int = 0
    spread: tuple[int, ...] = ()

    def live(self, schedule: Schedule, until: int | None = None) -> None:
        """Launch the job, and change its size while it runs; to its end, or (``until``) to a stop at that step."""
        holds = [step for _, step in schedule[:-1]]
        everyone = self._launch(schedule[0][0], holds, until)
        for count, _ in schedule[1:]:
            everyone += self._resize(count, holds, until)
        ended(everyone)

    def restarted(self, schedule: Schedule) -> None:
        """Stop the job with a checkpoint at each change, and launch it again."""
        for count, until in schedule:
            ended(self._launch(count, [], until))

    def killed(self, count: int) -> None:
        """A process dies within a step; then the job is launched again."""
        ended(self._launch(count, [], None), may_fail=True)
        self.script = Script(**{**vars(self.script), "die": (-1, -1)})
        ended(self._launch(count, [], None))

    def reached(self, digests: Digests = by_kind) -> Reached:
        found = Checkpoints(self.folder / "checkpoints").newest()
        assert found is not None and found[1]["step"] == self.script.steps
        return digests(self.script, [self._losses(part) for part in range(self.parts)], found[1])

    def _losses(self, part: int) -> list[str]:
        rows = [row.split() for row in (self.folder / f"losses-of-{part}.txt").read_text().splitlines()]
        by_step: dict[int, set[str]] = {}
        for step, loss in rows:
            by_step.setdefault(int(step), set()).add(loss)
        assert sorted(by_step) == list(range(self.script.steps))
        return ["/".join(sorted(by_step[step])) for step in sorted(by_step)]

    def report(self) -> dict[str, Any]:
        """The last report of the first rank."""
        paths = self.folder.glob("report-*.json")
        reports: list[dict[str, Any]] = [json.loads(path.read_text()) for path in paths]
        return max(reports, key=lambda report: report["monotonic_s"])

    def _launch(self, count: int, holds: list[int], until: int | None) -> list[BaseProcess]:
        first = self.started
        self.started += count
        slots = list(range(first, self.started))
        self._name(0, slots, until)
        return [self._start(slot, holds, joins=False) for slot in slots]

    def _resize(self, count: int, holds: list[int], until: int | None) -> list[BaseProcess]:
        """Name the next generation, once the present one was reported."""
        first = min(self.size["rank_of_slot"], key=self.size["rank_of_slot"].get)
        self._wait(first)
        kept = [int(slot) for slot in self.size["rank_of_slot"]][:count]
        joiners = list(range(self.started, self.started + count - len(kept)))
        self.started += len(joiners)
        self._name(self.size["generation"] + 1, kept + joiners, until)
        return [self._start(slot, holds, joins=True) for slot in joiners]

    def _wait(self, slot: str) -> None:
        path, end_s = self.folder / f"report-{slot}.json", time.monotonic() + PATIENCE_S
        while not path.exists() or json.loads(path.read_text())["generation"] < self.size["generation"]:
            assert time.monotonic() < end_s, "the size was not reached"
            time.sleep(0.005)

    def _name(self, generation: int, slots: list[int], until: int | None) -> None:
        before = self.size.get("rank_of_slot", {}) if generation else {}
        ranks = {str(slot): rank for rank, slot in enumerate(slots)}
        self.size = {"generation": generation, "world_size": len(slots), "rank_of_slot": ranks}
        self.size |= {"master": "127.0.0.1", "port": free_port()}
        if len(slots) == len(self.spread):
            self.size["parts_of_rank"] = list(self.spread)
        for slot in {*before, *ranks}:
            new = self.folder / f"lease-{slot}.new"
            new.write_text(json.dumps({"lease_id": generation, "until_step": until} | self.size))
            new.replace(self.folder / f"lease-{slot}.json")

    def _start(self, slot: int, holds: list[int], joins: bool) -> BaseProcess:
        return started(_elastic, (self.script, slot, self.folder, self._environment(slot, joins), holds))

    def _environment(self, slot: int, joins: bool) -> dict[str, str]:
        elastic = {"what": "workers", "slot": slot, "parts": self.parts, "joins": joins, "size": self.size}
        return {
            "GAVELX_ELASTIC": json.dumps(elastic),
            "GAVELX_LEASE_FILE": str(self.folder / f"lease-{slot}.json"),
            "GAVELX_REPORT_FILE": str(self.folder / f"report-{slot}.json"),
            "RANK": str(self.size["rank_of_slot"][str(slot)]),
            "WORLD_SIZE": str(self.size["world_size"]),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.size["port"]),
        }

    def environments(self, count: int, until: int | None = None) -> list[dict[str, str]]:
        """What the processes of a launch are told, for callers that start them."""
        self._name(0, list(range(count)), until)
        return [self._environment(slot, joins=False) for slot in range(count)]


def _elastic(script: Script, slot: int, folder: Path, environment: dict[str, str], holds: list[int]) -> None:
    os.environ.update(environment)
    _prepare()
    with hurried(holds):
        elastic(script, slot, folder)


@contextmanager
def hurried(holds: Sequence[int] = ()) -> Iterator[None]:
    """Votes at every step; the size changes at the steps ``holds``, which wait for it, and at no others."""
    every_s, steps, named = votes.VOTE_EVERY_S, between.Between.steps, regroup.Regroup.next
    here = False

    def between_steps(self: between.Between, *options: Any, **named_options: Any) -> None:
        nonlocal here
        here = self.saving.state.progress.step in holds
        if here and self.elastic is not None:
            _wait_for(self.elastic.regroup)
        steps(self, *options, **named_options)

    def next_size(self: regroup.Regroup) -> Any:
        return named.fget(self) if here else None  # type: ignore[attr-defined]

    votes.VOTE_EVERY_S = 0.0
    between.Between.steps = between_steps  # type: ignore[method-assign]
    regroup.Regroup.next = property(next_size)  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        votes.VOTE_EVERY_S, between.Between.steps = every_s, steps  # type: ignore[method-assign]
        regroup.Regroup.next = named  # type: ignore[method-assign]


def _wait_for(one: regroup.Regroup) -> None:
    """Until the next size is named and its first rank, if that is here, has seen all that join."""
    while one.next is None or (one.next.rank_of_slot.get(one.slot) == 0 and not one.ready()):
        one.lease.look()
        time.sleep(0.01)
