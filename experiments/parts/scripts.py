"""One training twice: as a script for torch's own wrapper, and as an elastic job. Both write what they reach."""

import hashlib
import json
import os
import signal
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from experiments.parts.models import MODELS, OPTIMIZERS, Images
from gavelx.training import Gang, Training, randomness
from gavelx.training.contexts import seed_all
from gavelx.training.determinism import prepare_gpu
from gavelx.training.gang import dismantle, unwrapped

SAMPLES = 62
"""No multiple of any update: the last one of an epoch is filled up."""


@dataclass(frozen=True)
class Script:
    """What is trained: pairs of a model and an optimizer, all of them at once on the same batches.

    ``chunks``: batches of which gradients are accumulated. ``autocast``: to bfloat16. ``options`` are those of
    ``Training``. ``die``: (slot, step) of a process that is killed within that step. ``device``: of all processes.
    """

    cases: tuple[tuple[str, str], ...] = ()
    steps: int = 0
    batch_size: int = 4
    chunks: int = 1
    autocast: bool = False
    options: tuple[tuple[str, Any], ...] = ()
    die: tuple[int, int] = (-1, -1)
    device: str = "cpu"


@dataclass
class Trained:
    """The models of a script, their optimizers and schedulers."""

    models: list[nn.Module]
    optimizers: list[torch.optim.Optimizer]
    schedulers: list[torch.optim.lr_scheduler.StepLR]

    def named(self) -> dict[str, Any]:
        """All of them, under names of their own."""
        kinds = {"model": self.models, "optimizer": self.optimizers, "scheduler": self.schedulers}
        return {f"{kind}{i}": one for kind, ones in kinds.items() for i, one in enumerate(ones)}

    def step(self) -> None:
        for optimizer, scheduler in zip(self.optimizers, self.schedulers, strict=True):
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()


def built(script: Script, wrap: Any) -> Trained:
    torch.manual_seed(0)
    models = [wrap(MODELS[model]().to(script.device)) for model, _ in script.cases]
    optimizers = [
        OPTIMIZERS[kind](model.parameters()) for (_, kind), model in zip(script.cases, models, strict=True)
    ]
    schedulers = [torch.optim.lr_scheduler.StepLR(one, step_size=3, gamma=0.9) for one in optimizers]
    return Trained(models, optimizers, schedulers)


def chunks(script: Script, batch: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """A batch in pieces, of which gradients are accumulated."""
    images, labels = (one.to(script.device) for one in batch)
    return list(zip(images.chunk(script.chunks), labels.chunk(script.chunks), strict=True))


def losses_of(script: Script, models: list[nn.Module], chunk: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """One of each model; what is trained is their sum."""
    inputs, targets = chunk
    with torch.autocast(script.device, torch.bfloat16, enabled=script.autocast):
        outputs = [model(inputs).float() for model in models]
    return torch.stack([cross_entropy(output, targets) for output in outputs]) / script.chunks


def under_torch(script: Script, rank: int, world_size: int, store: str, folder: Path) -> None:
    """The reference: ``DistributedDataParallel`` on as many processes as there are parts, never interrupted."""
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world_size)
    prepare_gpu()
    trained = built(script, DistributedDataParallel)
    data = Images(SAMPLES)
    sampler: DistributedSampler[Any] = DistributedSampler(data, world_size, rank)
    loader = DataLoader(data, script.batch_size, sampler=sampler)
    seed_all(0, rank)
    step, epoch, seen = 0, 0, list[str]()
    while step < script.steps:
        sampler.set_epoch(epoch)
        for batch in loader:
            *firsts, last = chunks(script, batch)
            with ExitStack() as stack:
                for model in trained.models:
                    stack.enter_context(model.no_sync())  # type: ignore[operator]
                for chunk in firsts:
                    losses_of(script, trained.models, chunk).sum().backward()  # type: ignore[no-untyped-call]
            losses = losses_of(script, trained.models, last)
            losses.sum().backward()  # type: ignore[no-untyped-call]
            seen.append(written(losses))
            trained.step()
            step += 1
            if step == script.steps:
                break
        epoch += 1
    (folder / f"losses-{rank}.json").write_text(json.dumps(seen))
    content = {"parts": {name: unwrapped(one).state_dict() for name, one in trained.named().items()}}
    generators: list[Any] = [None] * world_size
    dist.all_gather_object(generators, randomness.capture(own_device=True))
    if rank == 0:
        torch.save(content | {"contexts": dict(enumerate(generators))}, folder / "reached.pt")
    for model in trained.models:
        dismantle(model)
    dist.barrier()
    dist.destroy_process_group()


def elastic(script: Script, slot: int, folder: Path) -> None:
    """The same as a job of gavelx: a user's script with the lines of docs/training.md."""
    with suppress(SystemExit), Gang(script.device) as gang:
        trained = built(script, gang.parallel)
        data = Images(SAMPLES)
        loader = DataLoader(data, script.batch_size, shuffle=True)
        options: dict[str, Any] = {"folder": folder / "checkpoints", **dict(script.options)}
        with Training(gang=gang, total_steps=script.steps, **options, **trained.named()) as training:
            for batch in training.batches(loader):
                *firsts, last = chunks(script, batch)
                for chunk in firsts:
                    losses_of(script, trained.models, chunk).sum().backward()  # type: ignore[no-untyped-call]
                losses = losses_of(script, trained.models, last)
                part = training.part
                if part is not None and not gang.joins:
                    note(folder, training.step, part.number, losses)
                if (slot, training.step) == script.die:
                    os.kill(os.getpid(), signal.SIGKILL)
                loss = losses.sum()
                if training.backward(loss):
                    trained.step()
                    training.done(loss=loss)


def note(folder: Path, step: float, part: int, losses: torch.Tensor) -> None:
    """Write down the losses of a part; a step that is done again writes the same line again."""
    with (folder / f"losses-of-{part}.txt").open("a") as file:
        file.write(f"{step:g} {written(losses)}\n")


def written(losses: torch.Tensor) -> str:
    """Losses of all models to the bit, with commas between them."""
    return ",".join(loss.hex() for loss in losses.tolist())


def digest(value: Any) -> str:
    """The SHA-256 of all tensors, numbers and words in a state."""
    found = hashlib.sha256()

    def add(one: Any) -> None:
        if isinstance(one, torch.Tensor):
            found.update(
                str(one.dtype).encode()
                + one.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
            )
        elif isinstance(one, dict):
            for key in sorted(one, key=str):
                found.update(repr(key).encode())
                add(one[key])
        elif isinstance(one, list | tuple):
            for item in one:
                add(item)
        else:
            found.update(repr(one).encode())

    add(value)
    return found.hexdigest()
