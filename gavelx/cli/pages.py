"""``gavelx docs``: the pages of documentation in a terminal, or as they are for a pipe."""

import sys

from rich.markdown import Markdown

from gavelx.cli.output import stdout
from gavelx.cli.tables import plain_table
from gavelx.errors import OptionError, did_you_mean
from gavelx.files.locate import pages

HEADING = "# "


def show_page(name: str | None) -> None:
    """Print a page, or the list of pages. Raises :class:`OptionError` for an unknown name."""
    known = pages()
    if name is None:
        table = plain_table(show_header=False)
        for each, file in known.items():
            table.add_row(each, file.read_text(encoding="utf-8").partition("\n")[0].removeprefix(HEADING))
        stdout().print(table)
        return
    if (path := known.get(name.removesuffix(".md"))) is None:
        raise OptionError(
            f"there is no page {name!r:.60}", where="PAGE", hint=did_you_mean(name, known, "gavelx docs")
        )
    text = path.read_text(encoding="utf-8")
    if sys.stdout.isatty():
        stdout().print(Markdown(text))
    else:
        sys.stdout.write(text)
