"""A folder of checkpoints that survive a crash; damage is detected.

    checkpoint-000007-step-4200-<digest>.pt

is a plain file of ``torch.save``; its name has a rising number, the step, and the first half of the SHA-256 of its
content. It is written under another name, forced to disk, and then renamed, so it is complete or absent.
"""

import contextlib
import hashlib
import io
import os
import pickle
import re
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

from gavelx.errors import GavelxError

NAME = re.compile(r"checkpoint-(\d{6,})-step-(\d+)-([0-9a-f]{32})\.pt")
DAMAGED = "damaged-"
PART = ".part"
BLOCK_BYTES = 1 << 20
EXPECTED = "tensors, numbers, texts, and lists and dicts of such from state_dict()"


class CheckpointError(GavelxError):
    """A checkpoint cannot be written, or its content does not fit this script."""


class TrainingWarning(UserWarning):
    """Training continues, but there is a problem: a damaged checkpoint, a full disk."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint that is safely on disk."""

    path: Path
    bytes: int
    seconds: float


class Checkpoints:
    """The checkpoints of one job; the latest ``keep`` of them are kept.

    The folder is made when something is saved. One process at a time may write to it.
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep
        self._readable: set[type] = set()

    def save(self, content: dict[str, Any], step: int) -> Saved:
        """Write a checkpoint and force it to disk; then remove the oldest ones.

        Raises ``OSError`` if it cannot be written; the folder is then unchanged. Raises :class:`CheckpointError`
        if it holds what cannot be saved, or cannot be read again.
        """
        begin_s = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f".checkpoint-{os.getpid()}{PART}"
        try:
            digest = _write(part, content)
            self._check_readable(part, content)
            path = self.folder / f"checkpoint-{self._next_number():06d}-step-{step}-{digest}.pt"
            part.rename(path)
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
        _force_to_disk(self.folder)
        self._forget_old()
        return Saved(path, path.stat().st_size, time.monotonic() - begin_s)

    def newest(self) -> tuple[Path, dict[str, Any]] | None:
        """The path and content of the newest checkpoint that is not damaged; None if there is none.

        A damaged checkpoint is renamed, with a :class:`TrainingWarning`.
        """
        for path in reversed(self._files()):
            damage = _damage(path)
            if damage is None:
                return path, _load(path)
            _put_aside(path)
            warnings.warn(
                f"{path.name} is damaged ({damage}) and was put aside; the checkpoint before it is tried",
                TrainingWarning,
                stacklevel=2,
            )
        return None

    def read(self, name: str) -> dict[str, Any]:
        """One checkpoint by its name."""
        path = self.folder / name
        if damage := _damage(path):
            raise CheckpointError(f"{path}: {damage}")
        return _load(path)

    def clean(self) -> None:
        """Remove partial files of writers that were killed."""
        for part in self.folder.glob(f".checkpoint-*{PART}"):
            part.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        """Oldest first."""
        found = [(match, path) for path in self.folder.glob("*.pt") if (match := NAME.fullmatch(path.name))]
        return [path for _, path in sorted(found, key=lambda one: (int(one[0][1]), int(one[0][2]), one[1].name))]

    def _next_number(self) -> int:
        files = self._files()
        return int(files[-1].name.split("-")[1]) + 1 if files else 0

    def _forget_old(self) -> None:
        for path in self._files()[: -self.keep]:
            with contextlib.suppress(OSError):
                path.unlink()

    def _check_readable(self, part: Path, content: dict[str, Any]) -> None:
        """Read one with new types of values again, so that a failure shows now, and not after a preemption."""
        if not (kinds := {type(value) for _, value in _values(content)}) <= self._readable:
            try:
                _load(part, device="meta")
            except CheckpointError as error:
                raise _unreadable(content) or error from None
            self._readable |= kinds


class _Hashed:
    """A file with the digest of everything written to it.

    torch writes from C++, where an exception of ours would end the process: a failure is kept until it is asked
    for.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.digest = file, hashlib.sha256()
        self.failure: OSError | None = None

    def write(self, data: bytes | memoryview) -> int:
        if self.failure is None:
            try:
                self.file.write(data)
                self.digest.update(data)
            except OSError as error:
                self.failure = error
        return len(data)

    def flush(self) -> None:
        """Done at the end."""


def _write(path: Path, content: dict[str, Any]) -> str:
    """Write and force to disk; the digest."""
    file = path.open("wb")
    try:
        hashed = _Hashed(file)
        try:
            torch.save(content, hashed)  # type: ignore[arg-type]
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise _unreadable(content) or CheckpointError(f"the state cannot be saved: {error}") from error
        if hashed.failure is not None:
            raise hashed.failure
        file.flush()
        os.fsync(file.fileno())
    finally:
        with contextlib.suppress(OSError):  # closing flushes again, and fails again
            file.close()
    return hashed.digest.hexdigest()[:32]


def _damage(path: Path) -> str | None:
    """The damage of a file, found by its digest; None if it is intact."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                digest.update(block)
    except (FileNotFoundError, PermissionError) as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror})") from error
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    match = NAME.fullmatch(path.name)
    assert match is not None
    return None if digest.hexdigest()[:32] == match[3] else f"{path.stat().st_size} bytes that were not written so"


def _load(path: Path, device: str = "cpu") -> dict[str, Any]:
    try:
        content: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    except pickle.UnpicklingError as error:
        raise CheckpointError(
            f"{path.name} cannot be read again ({str(error).splitlines()[0]}); expected {EXPECTED}"
        ) from error
    return content


def _values(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """What nested dicts, lists and tuples hold, keys included, then themselves, and where."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield where, key
            yield from _values(one, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list | tuple):
        for number, one in enumerate(value):
            yield from _values(one, f"{where}[{number}]")
    yield where, value


def _unreadable(content: dict[str, Any]) -> CheckpointError | None:
    """The error about the first value that cannot be saved, or not read again; None if each one can alone."""
    for where, value in _values(content):
        if type(value) in (dict, list, tuple) or isinstance(value, torch.Tensor):
            continue
        try:
            torch.save(value, file := io.BytesIO())
            torch.load(io.BytesIO(file.getvalue()), weights_only=True)
        except Exception:  # anything may be raised by what a user saves
            kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
            return CheckpointError(
                f"no checkpoint can be made: {where} is a {kind}; expected {EXPECTED}."
                " Try: for numpy's numbers and arrays, float(...) or .tolist()"
            )
    return None


def _put_aside(path: Path) -> None:
    """Rename a damaged checkpoint; only the latest one is kept, to find the cause."""
    with contextlib.suppress(OSError):
        for old in path.parent.glob(f"{DAMAGED}*.pt"):
            old.unlink()
        path.rename(path.with_name(DAMAGED + path.name))


def _force_to_disk(folder: Path) -> None:
    """Force a folder to disk, which makes a rename in it durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
