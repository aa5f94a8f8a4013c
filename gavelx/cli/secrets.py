"""Warnings about secrets: files that other users can read, and passwords on the command line."""

import os
import re
import stat
import sys
from pathlib import Path

from gavelx.cli.output import stderr
from gavelx.errors import OptionError

STATE = "GAVELX_STATE"
TOKEN = re.compile(r"[!-~]{1,4096}")
"""The form of a token: what a header can hold."""


def warn_if_open(option: str, path: str | None, *, changeable: bool = False) -> None:
    """Warn if other users can read a secret (``changeable``: can change a file that grants rights).

    A file that its group can read gets a warning only if it is ours: in a container it belongs to the system, and
    is meant for the group.
    """
    try:
        found = None if path is None else Path(path).stat()
    except (OSError, ValueError):
        return  # another message says that it cannot be read
    if found is None or not stat.S_ISREG(found.st_mode):
        return
    open_to = (0o077 if found.st_uid == os.getuid() else 0o007) & (0o222 if changeable else 0o444)
    if found.st_mode & open_to:
        may = "change" if changeable else "read"
        line = f"{option}: others can {may} {path}. Try: chmod go-rwx {path}"
        stderr().print(line, markup=False, soft_wrap=True)


def token_in(text: str, where: str) -> str:
    """The token in a text. Raises :class:`OptionError`, which does not show the text, if it can be none."""
    token = text.strip()
    if not TOKEN.fullmatch(token):
        raise OptionError("this is no token", where=where, expected="one word, as gavelx token --out writes it")
    return token


def warn_if_printed_openly() -> None:
    """Warn if stdout is a file that other users can read."""
    try:
        found = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError):
        return  # no file at all
    if stat.S_ISREG(found.st_mode) and found.st_mode & 0o044:
        line = "others can read the file that this is written to. Try: --out FILE instead"
        stderr().print(line, markup=False, soft_wrap=True)


def check_not_typed(where: str, place: str) -> None:
    """Raise :class:`OptionError` for a database password on the command line, which ``ps`` shows to every user.

    In an environment variable, which other users cannot read, the URL may have one.
    """
    from gavelx.service.store.places import has_password  # noqa: PLC0415  (needs sqlalchemy)

    typed = place != os.environ.get(STATE) or any(place in word for word in sys.argv)
    if typed and has_password(place):
        problem = "the URL holds a password, and every user of this machine can read command lines"
        hint = f"the URL in {STATE}, PGPASSWORD, or ~/.pgpass"
        raise OptionError(problem, where=where, expected="a URL without a password", hint=hint)
