"""Output: tables and JSON to stdout, files atomically, everything else to stderr."""
# ruff: noqa: PLC0415  # who wants JSON needs no tables

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gavelx.errors import OptionError
from gavelx.files.atomic import ensure_writable, write_atomically

if TYPE_CHECKING:
    from rich.console import Console

STDOUT = "-"


def stdout() -> "Console":
    """The console for tables. Make one for each use, because ``sys.stdout`` may have been replaced."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def stderr() -> "Console":
    """The console for progress."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def log_with_times() -> None:
    """Logs of a process that runs for long go to stderr, each line with its time."""
    form = "%(asctime)s %(levelname)s %(message)s"
    logging.basicConfig(level=logging.INFO, format=form, stream=sys.stderr)


@contextmanager
def prints_aside() -> Iterator[None]:
    """Run a user's policy: what it prints goes to stderr, as stdout is for figures."""
    with redirect_stdout(sys.stderr):
        yield


def dumps(document: Any) -> str:
    """JSON text with a final newline. Keys keep their order; a NaN is a broken invariant."""
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def print_json(document: Any) -> None:
    """Print a document on stdout, and nothing else."""
    sys.stdout.write(dumps(document))


@dataclass(frozen=True)
class Outputs:
    """The output files of a run; ``json`` may be ``-`` for stdout."""

    json: str | None = None
    html: str | None = None
    png: str | None = None
    plot_beside: bool = True

    @property
    def plot(self) -> str | None:
        """Path of the plot: ``--png``, or beside the report (``report.png`` for ``report.html``)."""
        if self.png is None and self.html is not None and self.plot_beside:
            return str(Path(self.html).with_suffix(".png")) if Path(self.html).name else self.html
        return self.png

    @property
    def table_wanted(self) -> bool:
        """Whether to print a table: not if JSON goes to stdout."""
        return self.json != STDOUT

    def check(self, *read: object) -> None:
        """Check before a long run that every file can be written, and that none is one of the files ``read``.

        Raises :class:`OptionError`.
        """
        files = {"--json": self.json if self.table_wanted else None, "--html": self.html, "--png": self.plot}
        options: dict[Path, str] = {}
        for option, out in files.items():
            if out is None:
                continue
            if out == STDOUT:
                raise OptionError("only --json can go to stdout", where=option, expected="the name of a file")
            ensure_writable(out, *read)
            if (other := options.setdefault(Path(out).resolve(), option)) != option:
                raise OptionError(f"{option} and {other} would both write {out}", expected="different files")


def write_json(document: Any, out: str) -> None:
    """Write a document to a file atomically, or print it for ``-``."""
    if out == STDOUT:
        print_json(document)
    else:
        write_atomically(out, dumps(document))
