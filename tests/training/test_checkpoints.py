"""Whatever happens to a checkpoint, before, while or after it is written: a good one is loaded, or none."""

import errno
import json
import os
import random
import resource
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from gavelx.training import CheckpointError, Training, TrainingWarning, checkpoints
from gavelx.training.checkpoints import Checkpoints
from tests.training.elastic_job import CONTEXT
from tests.waiting import PATIENCE_S, wait_until


def content(step: int) -> dict[str, Any]:
    return {"step": step, "weights": torch.full((2000,), float(step))}


def two_saved(folder: Path) -> Checkpoints:
    store = Checkpoints(folder)
    for step in (10, 20):
        store.save(content(step), step)
    return store


def step_found(folder: Path) -> int | None:
    """The step of what is loaded, after a look at all that was."""
    found = Checkpoints(folder).newest()
    if found is None:
        return None
    _, loaded = found
    assert torch.equal(loaded["weights"], content(loaded["step"])["weights"])
    return int(loaded["step"])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    store = two_saved(tmp_path)
    saved = store.save(content(30), 30)
    steps = [name.split("-")[3] for name in names(tmp_path)]
    assert steps == ["20", "30"]
    assert step_found(tmp_path) == 30
    assert saved.bytes == saved.path.stat().st_size > 8000
    assert torch.load(saved.path, weights_only=True)["step"] == 30, "a plain file of torch"


def test_a_later_one_counts_more_than_a_higher_step(tmp_path: Path) -> None:
    two_saved(tmp_path).save(content(15), 15)
    assert step_found(tmp_path) == 15


def damage(path: Path, chance: random.Random) -> str:
    """Flip a bit, cut, lengthen, empty, or overwrite a block with zeros; what was done."""
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data))
    kind = chance.choice(["flip", "cut", "more", "empty", "zeros"])
    match kind:
        case "flip":
            data[at] ^= 1 << chance.randrange(8)
        case "cut":
            del data[at:]
        case "more":
            data += b"\0"
        case "empty":
            data.clear()
        case "zeros":
            data[at] |= 1
            data[at : at + 512] = bytes(len(data[at : at + 512]))
    path.write_bytes(data)
    return f"{kind} at {at}"


def test_no_damage_is_loaded(tmp_path: Path) -> None:
    """Three hundred kinds of it; the one before is loaded instead, and it is said."""
    store = two_saved(tmp_path)
    old, new = (path.read_bytes() for path in store._files())
    _, path = store._files()
    for seed in range(300):
        done = damage(path, random.Random(seed))
        with pytest.warns(TrainingWarning, match="put aside"):
            assert step_found(tmp_path) == 10, done
        (aside,) = tmp_path.glob("damaged-*")
        aside.rename(path)
        path.write_bytes(new)
    assert step_found(tmp_path) == 20
    assert store._files()[0].read_bytes() == old


def test_damage_to_all_is_a_new_beginning(tmp_path: Path) -> None:
    for path in two_saved(tmp_path)._files():
        path.write_bytes(b"")
    with pytest.warns(TrainingWarning) as said:
        assert step_found(tmp_path) is None
    assert len(said) == 2
    assert len(names(tmp_path)) == 1, "the last damaged one is kept for whoever wants to know"


def test_after_damage_the_next_one_is_the_newest(tmp_path: Path) -> None:
    store = two_saved(tmp_path)
    store._files()[-1].write_bytes(b"x")
    with pytest.warns(TrainingWarning):
        assert step_found(tmp_path) == 10
    Checkpoints(tmp_path).save(content(15), 15)
    assert step_found(tmp_path) == 15


def test_a_file_that_may_not_be_read_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_saved(tmp_path)
    before = names(tmp_path)

    def closed(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", closed)
    with pytest.raises(CheckpointError, match="Permission denied"):
        Checkpoints(tmp_path).newest()
    assert names(tmp_path) == before


# -- failing while it is written ------------------------------------------------------------------------------


def failing(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


STAGES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "open": lambda patch: patch.setattr(Path, "open", failing),
    "write": lambda patch: patch.setattr(checkpoints._Hashed, "write", full_disk),
    "fsync": lambda patch: patch.setattr(os, "fsync", failing),
    "rename": lambda patch: patch.setattr(Path, "rename", failing),
}


def full_disk(self: checkpoints._Hashed, data: bytes) -> int:
    self.failure = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return len(data)


@pytest.mark.parametrize("stage", STAGES)
def test_a_failure_at_any_stage_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    store = two_saved(tmp_path)
    before = names(tmp_path)
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        STAGES[stage](patch)
        store.save(content(30), 30)
    assert names(tmp_path) == before
    assert step_found(tmp_path) == 20
    store.save(content(40), 40)
    assert step_found(tmp_path) == 40


def test_a_write_that_fails_inside_torch_ends_nothing(tmp_path: Path) -> None:
    """A real one: no file may be longer than 4 KB."""
    store = two_saved(tmp_path)
    before = names(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            store.save(content(30), 30)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert names(tmp_path) == before
    assert step_found(tmp_path) == 20


def trained(folder: Path, steps: int, at: Callable[[int], None] = lambda step: None) -> Training:
    model = nn.Linear(1, 1)
    with Training(model=model, total_steps=steps, folder=folder, every_s=0.0) as training:
        for _ in training.steps():
            training.done()
            at(training.step)
    return training


def test_training_goes_on_over_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_at_two(step: int) -> None:
        if step == 2:
            monkeypatch.setattr(os, "fsync", failing)
        elif step == 5:
            monkeypatch.undo()

    with pytest.warns(TrainingWarning, match="No space left on device; training continues, and 1 steps are safe"):
        assert trained(tmp_path, 6, full_at_two).saved_steps == 6


def test_complete_and_not_saved_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.warns(TrainingWarning), pytest.raises(CheckpointError, match="complete at step 1, but"):
        trained(tmp_path, 1)


def test_stopped_and_not_saved_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = tmp_path / "report.json"
    monkeypatch.setenv("GAVELX_REPORT_FILE", str(report))

    def stop_at_three(step: int) -> None:
        if step == 3:
            monkeypatch.setattr(os, "fsync", failing)
            signal.raise_signal(signal.SIGTERM)

    with pytest.warns(TrainingWarning), pytest.raises(SystemExit):
        trained(tmp_path, 10, stop_at_three)
    said = json.loads(report.read_text())
    assert (said["steps_done"], said["saved_steps"], said["complete"]) == (3, 2, False)


# -- killed while it is written -------------------------------------------------------------------------------

PLACES: dict[str, tuple[Any, str]] = {
    "begun": (torch, "save"),
    "written": (os, "fsync"),
    "named": (checkpoints, "_force_to_disk"),
    "rename": (Path, "rename"),
    "forget": (Checkpoints, "_forget_old"),
}


def die_at(folder: Path, stage: str) -> None:
    """Save, and be killed at this stage; in a process of its own."""
    setattr(*PLACES[stage], lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
    Checkpoints(folder).save(content(30), 30)


def save_on(folder: Path, step: int, said: Path) -> None:
    """Save step after step, and say which ones are saved."""
    store = Checkpoints(folder)
    with said.open("w") as file:
        while True:
            step += 1
            store.save(content(step), step)
            print(step, file=file, flush=True)


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["begun", "written", "rename", "named", "forget"])
def test_a_kill_at_any_stage(tmp_path: Path, stage: str) -> None:
    two_saved(tmp_path)
    dies = CONTEXT.Process(target=die_at, args=(tmp_path, stage))
    dies.start()
    dies.join(PATIENCE_S)
    assert dies.exitcode == -signal.SIGKILL
    assert step_found(tmp_path) == (30 if stage in ("named", "forget") else 20)
    store = Checkpoints(tmp_path)
    store.clean()
    store.save(content(40), 40)
    assert step_found(tmp_path) == 40
    assert len(names(tmp_path)) == 2


@pytest.mark.slow
def test_kills_at_random_moments_lose_one_checkpoint_at_most(tmp_path: Path) -> None:
    chance, last, folder = random.Random(0), 0, tmp_path / "checkpoints"
    for n in range(4):
        path = tmp_path / f"said {n}"
        writer = CONTEXT.Process(target=save_on, args=(folder, last, path))
        writer.start()
        wait_until(lambda path=path: path.exists() and path.read_text(), "a checkpoint is saved")
        time.sleep(chance.uniform(0.0, 0.2))
        writer.kill()
        writer.join(PATIENCE_S)
        assert writer.exitcode == -signal.SIGKILL
        said = [int(line) for line in path.read_text().splitlines()]
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # not one is damaged
            found = step_found(folder)
        assert found is not None
        assert found >= max(said)
        last = found
        Checkpoints(folder).clean()
        assert len(names(folder)) <= 3
