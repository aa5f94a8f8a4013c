"""The command line: simulate, compare, allocate, and list what there is to choose from.

This is the outermost package: it imports every other, and no other imports it. ``commands`` and ``options`` define
commands and options without heavy imports, so that help and completion are quick; the other files do the work.

Exit status: 0 success (also if the reader of stdout leaves early, as `head` does), 2 the user's mistake (one
message, no traceback), 1 our own failure, 130 Ctrl-C.
"""

import atexit
import gc
import io
import logging
import os
import sys
from collections.abc import Sequence

from gavelx.cli.command_line import without_collection
from gavelx.cli.failures import TRACEBACK, exit_code, in_words, is_traced

__all__ = ["TRACEBACK", "main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. Raises :class:`SystemExit` with the exit status."""
    try:
        _run(arguments)
    except KeyboardInterrupt:  # while the commands are being imported; typer ends a running one in the same way
        sys.exit(130)
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # compiled modules make an ImportError of it
            sys.exit(130)
        if is_traced(error):
            raise
        notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        print(f"gavelx: {in_words(error)}{notes}", file=sys.stderr)
        sys.exit(exit_code(error))


def _run(arguments: Sequence[str] | None) -> None:
    """Run one command. Raises :class:`SystemExit`: with 0 if the reader of stdout leaves, as ``| head`` does."""
    # it tells of its fonts, and of a HOME that is read-only
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    atexit.register(gc.freeze)  # Python looks for garbage as it ends: a sixth of the time of a short command
    with without_collection():
        from gavelx.cli.commands import app  # noqa: PLC0415  (`import gavelx.cli` itself stays free of typer)

    before = _stdout()
    for each in (sys.stdout, sys.stderr):
        if isinstance(
            each, io.TextIOWrapper
        ):  # a terminal may be unable to show a letter: better a ? than nothing
            each.reconfigure(errors="replace")
    try:
        app(args=None if arguments is None else list(arguments), prog_name="gavelx")
    except SystemExit:
        if _stdout() != before or not _flushed():
            sys.exit(0)
        raise


def _stdout() -> tuple[object, int]:
    """What stdout is; typer and rich put something else in its place when its reader leaves."""
    try:
        return sys.stdout, os.fstat(1).st_ino
    except OSError:  # it is closed
        return sys.stdout, -1


def _flushed() -> bool:
    """Write out what stdout still holds; false if its reader has left."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what Python flushes at exit
        return False
    return True
