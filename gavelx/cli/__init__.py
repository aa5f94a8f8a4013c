"""The command line: simulate, compare, allocate, and list what there is to choose from.

This is the outermost package: it imports every other, and no other imports it. ``commands`` and ``options`` define
commands and options without heavy imports, so that help and completion are quick; the other files do the work.

Exit status: 0 success, 2 the user's mistake (one message, no traceback), 1 our own failure.
"""

import sys
from collections.abc import Sequence

from gavelx.cli.failures import TRACEBACK, exit_code, in_words, is_traced

__all__ = ["TRACEBACK", "main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. Raises :class:`SystemExit` with the exit status."""
    from gavelx.cli.commands import app  # noqa: PLC0415  (`import gavelx.cli` itself stays free of typer)

    try:
        app(args=None if arguments is None else list(arguments), prog_name="gavelx")
    except Exception as error:
        if is_traced(error):
            raise
        notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        print(f"gavelx: {in_words(error)}{notes}", file=sys.stderr)
        sys.exit(exit_code(error))
