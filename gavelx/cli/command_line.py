"""The command of a job with absolute paths, because a job does not run in the user's folder."""

import gc
import shlex
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gavelx.errors import OptionError
from gavelx.files.texts import exists

EXECUTABLE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH
PROGRAMS = {".py": "python", ".sh": "sh", ".bash": "bash", ".sbatch": "bash", ".slurm": "bash", ".pl": "perl"}
"""What runs a script, by its suffix."""


def with_whole_paths(command: Sequence[str]) -> tuple[str, ...]:
    """The command with the absolute path of each word that names an existing file or folder.

    A word counts as a file only if it has a dot or a slash (``train.py``, ``./train``, ``data/``), so that ``echo
    hello`` stays unchanged. An option that contains a file name (``--config=a.toml``) stays unchanged too.
    """
    return tuple(str(Path(word).absolute()) if _is_file_here(word) else word for word in command)


def _is_file_here(word: str) -> bool:
    names_file = ("." in word or "/" in word) and not word.startswith(("-", "/"))
    return names_file and exists(word)


def check_can_be_run(command: Sequence[str]) -> None:
    """Raises :class:`OptionError` for a command that begins with a file here that is no program."""
    names_file = bool(command) and (_is_file_here(command[0]) or (command[0][:1] == "/" and exists(command[0])))
    if not names_file or not Path(command[0]).is_file():
        return
    if Path(command[0]).stat().st_mode & EXECUTABLE:
        return
    program = PROGRAMS.get(Path(command[0]).suffix.lower())
    hint = (
        f"-- {program} {shlex.join(command)}, or chmod +x {shlex.quote(command[0])}"
        if program
        else "options and the command itself: gavelx submit --workers 2 -- python train.py"
    )
    problem = f"{command[0]!r} is a file that cannot be executed"
    raise OptionError(problem, where="submit", expected="a program and its arguments", hint=hint)


@contextmanager
def without_collection() -> Iterator[None]:
    """No search for garbage in here: of a command that gives one answer it takes a sixth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
