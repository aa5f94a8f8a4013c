"""The command line: simulate, compare, allocate, and list what there is to choose from.

The outermost room: it reads every other, and nobody imports it. ``commands`` and ``options`` hold what the user
may type and import nothing heavy, so that help and completion answer at once; the other files do the work.

Exit codes: 0 success, 2 the user's mistake (one message, no traceback), 1 our own failure.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gavelx.errors import GavelxError, UserError

TRACEBACK = "GAVELX_TRACEBACK"
"""Set this variable to see where in the code a failure of ours came from."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command. Raises :class:`SystemExit` with the exit code."""
    from gavelx.cli.commands import app  # noqa: PLC0415  (`import gavelx.cli` itself stays free of typer)

    try:
        app(args=None if arguments is None else list(arguments), prog_name="gavelx")
    except GavelxError as error:
        notes = "".join(f"\n  {note}" for note in getattr(error, "__notes__", ()))
        print(f"gavelx: {error}{notes}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UserError) else 1)
    except OSError as error:  # a full disk behind stdout, say
        print(f"gavelx: {error}", file=sys.stderr)
        sys.exit(1)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        print(_our_failure(error), file=sys.stderr)
        sys.exit(1)


def _our_failure(error: Exception) -> str:
    """One line about a mistake in gavelx, with the place where it showed."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    at = f" ({Path(place.tb_frame.f_code.co_filename).name}, line {place.tb_lineno})" if place else ""
    text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return f"gavelx: a mistake of ours: {text}{at}. Try: again with {TRACEBACK}=1, and report what it shows"
