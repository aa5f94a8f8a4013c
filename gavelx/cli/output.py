"""Where answers go: tables and JSON to stdout, files as a whole or not at all, everything else to stderr."""

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from gavelx.errors import OptionError
from gavelx.files.atomic import ensure_writable, write_atomically

STDOUT = "-"


def stdout() -> Console:
    """The console for tables. Made anew for each use, so that it sees the stream of the moment."""
    return Console(highlight=False, soft_wrap=False)


def stderr() -> Console:
    """The console for progress."""
    return Console(stderr=True, highlight=False)


def dumps(document: Any) -> str:
    """JSON text with a final newline. Keys keep their order, and what is not a number is a broken invariant."""
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def print_json(document: Any) -> None:
    """Print a document on stdout, and nothing else."""
    sys.stdout.write(dumps(document))


def check_outputs(json_out: str | None, html_out: str | None = None) -> None:
    """Every file that we shall write can be written; asked before a long run rather than after it.

    Raises :class:`OptionError` naming the option.
    """
    if html_out == STDOUT:
        raise OptionError("a report goes to a file, with its plot beside it", where="--html", expected="FILE.html")
    paths = [Path(out) for out in (json_out, html_out) if out is not None and out != STDOUT]
    if html_out is not None:
        paths.append(plot_path(html_out))
    if len({path.absolute() for path in paths}) < len(paths):
        raise OptionError(f"two outputs would be {paths[-1]}", where="--json, --html", expected="different files")
    for path in paths:
        ensure_writable(path)


def plot_path(html_out: str) -> Path:
    """The plot that goes with a report: ``report.html`` has ``report.png`` beside it."""
    path = Path(html_out)
    return path.with_name(path.stem + ".png") if path.name else path


def write_json(document: Any, out: str) -> None:
    """Write a document to a file as a whole, or print it for ``-``."""
    if out == STDOUT:
        print_json(document)
    else:
        write_atomically(out, dumps(document))
