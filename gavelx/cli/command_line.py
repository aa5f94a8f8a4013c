"""A command as other machines find it: each job runs in a folder of its own, not in the user's."""

from collections.abc import Sequence
from pathlib import Path

from gavelx.files.texts import exists


def with_whole_paths(command: Sequence[str]) -> tuple[str, ...]:
    """The same words, those that name a file or folder here by its whole path.

    A file is meant where the word has a dot or a slash, so that ``echo hello`` stays what it is: ``train.py``,
    ``./train``, ``data/``. An option with a file in it (``--config=a.toml``) is not looked into.
    """
    return tuple(str(Path(word).absolute()) if _is_file_here(word) else word for word in command)


def _is_file_here(word: str) -> bool:
    names_file = ("." in word or "/" in word) and not word.startswith(("-", "/"))
    return names_file and exists(word)
