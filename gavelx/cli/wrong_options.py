"""Messages about the values of options: what was seen, and what it should be.

Typer says only "Input should be a valid integer, unable to parse string as an integer".
"""

from typing import Any

import typer
from typer.core import TyperGroup

from gavelx.files.texts import shown


class Commands(TyperGroup):
    """A group of commands whose messages about a wrong value show the value."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was called. Raises ``BadParameter``."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = _in_words(error)
            raise


def _in_words(error: typer.BadParameter) -> str:
    details = getattr(
        error.__cause__, "errors", None
    )  # pydantic's, under typer from 0.29 on; older ones say it all
    if details is None:
        return error.message
    seen, expected = details()[0]["input"], error.message.partition(", unable")[0]
    return f"{shown(str(seen))} cannot be used; {expected.replace('Input should be', 'it should be')}"
