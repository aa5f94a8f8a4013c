"""The command of a job with absolute paths, because a job does not run in the user's folder."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gavelx.files.texts import exists


def with_whole_paths(command: Sequence[str]) -> tuple[str, ...]:
    """The command with the absolute path of each word that names an existing file or folder.

    A word counts as a file only if it has a dot or a slash (``train.py``, ``./train``, ``data/``), so that ``echo
    hello`` stays unchanged. An option that contains a file name (``--config=a.toml``) stays unchanged too.
    """
    return tuple(str(Path(word).absolute()) if _is_file_here(word) else word for word in command)


def _is_file_here(word: str) -> bool:
    names_file = ("." in word or "/" in word) and not word.startswith(("-", "/"))
    return names_file and exists(word)


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
