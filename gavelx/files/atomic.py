"""Atomic writing: a file has the old content or the new one, never a part.

This holds for every reader, even if the power fails during the write.
"""

import os
import secrets
import stat
from pathlib import Path

from gavelx.errors import OptionError

PRIVATE = 0o600


def write_atomically(path: str | Path, content: str | bytes, *, private: bool = False) -> None:
    """Write a file in one step: under another name in the same folder first, then renamed.

    Text is written as UTF-8 with its line ends unchanged. A link is followed; an existing file keeps its
    permissions (``private``: only its owner can read it, at any time); a device or a pipe, which cannot be
    replaced, is written to directly. On failure nothing is left behind, and :class:`OptionError` says why.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        target = Path(os.path.realpath(path))
        mode = _mode(target)
        if mode is not None and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            target.write_bytes(data)
        else:
            _replace(target, data, stat.S_IFREG | PRIVATE if private and not _is_folder(mode) else mode)
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error) from None


def ensure_writable(path: str | Path, *read: object) -> None:
    """Make sure that ``write_atomically`` will work, before long work begins. Changes nothing.

    Raises :class:`OptionError` if the path is one of the files in ``read``, which would be lost, if its folder is
    missing or not writable, or if it is a folder itself.
    """
    try:
        target = Path(os.path.realpath(path))
        mode = _mode(target)
        if mode is not None and str(target) in {os.path.realpath(name) for name in read if isinstance(name, str)}:
            raise OptionError("it is read from, and would be lost", where=str(path), expected="another file")
        if mode is not None and stat.S_ISDIR(mode):
            raise IsADirectoryError
        if mode is None or stat.S_ISREG(mode):
            probe = _beside(target)
            probe.touch(exist_ok=False)
            probe.unlink()
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error) from None


def _mode(path: Path) -> int | None:
    """Type and permissions of the file at a path; None if there is none."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _beside(target: Path) -> Path:
    return target.with_name(f".gavelx-{secrets.token_hex(8)}.part")


def _is_folder(mode: int | None) -> bool:
    return mode is not None and stat.S_ISDIR(mode)


def _replace(target: Path, data: bytes, mode: int | None) -> None:
    """Write a file that has these permissions (None: the default ones) from the start."""
    if _is_folder(mode):
        raise IsADirectoryError
    part = _beside(target)
    try:
        if mode is not None:
            part.touch(PRIVATE, exist_ok=False)
        with part.open("xb" if mode is None else "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            part.chmod(stat.S_IMODE(mode))
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _cannot_write(path: str | Path, error: Exception) -> OptionError:
    folder = Path(path).parent
    match error:
        case IsADirectoryError():
            problem, hint = "is a folder", "name a file in it"
        case FileNotFoundError() | NotADirectoryError():
            problem, hint = f"there is no folder {str(folder)!r}", "make the folder, or name another one"
        case PermissionError():
            problem, hint = "we may not write there", "name a folder that is yours"
        case OSError():
            problem, hint = f"cannot be written ({error.strerror})", "another place"
        case _:
            problem, hint = f"is no file name ({error})", "another name"
    return OptionError(problem, where=str(path)[:200] or "''", expected="a file that can be written", hint=hint)
