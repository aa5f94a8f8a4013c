"""The command line: simulate, compare, allocate, and list what there is to choose from.

The outermost room: it reads every other, and nobody imports it. ``commands`` and ``options`` hold what the user
may type and import nothing heavy, so that help and completion answer at once; the other files do the work.

Exit codes: 0 success, 2 the user's mistake (one message, no traceback), 1 our own failure.
"""

import sys
from collections.abc import Sequence

from gavelx.errors import GavelxError, UserError


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
