"""Exceptions as messages and exit status, and a failed policy beside others that ran."""

import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gavelx import errors
from gavelx.errors import GavelxError, UserError

TRACEBACK = "GAVELX_TRACEBACK"
"""Set this environment variable to see the traceback of a failure of ours."""


@dataclass(frozen=True)
class Failed:
    """A policy that failed, and why."""

    policy: str
    error: Exception

    @property
    def message(self) -> str:
        """One line for the user."""
        return in_words(self.error)

    @property
    def exit_code(self) -> int:
        """Exit status: 2 for the user's mistake, 1 for ours."""
        return exit_code(self.error)

    def to_json(self) -> dict[str, Any]:
        """The policy, the message, and the kind of mistake."""
        return {"policy": self.policy, "message": self.message, "exit_code": self.exit_code}


def exit_code(error: BaseException) -> int:
    """Exit status: 2 for the user's mistake, 1 for ours."""
    return 2 if isinstance(error, UserError) else 1


def in_words(error: Exception) -> str:
    """One line about an exception, with the line of code if it is a mistake in gavelx."""
    if isinstance(error, GavelxError | OSError):  # a full disk behind stdout, say
        return str(error)
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    at = f" ({Path(place.tb_frame.f_code.co_filename).name}, line {place.tb_lineno})" if place else ""
    text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return f"a mistake of ours: {text}{at}. Try: again with {TRACEBACK}=1, and report what it shows"


def is_traced(error: BaseException) -> bool:
    """Whether the user wants the traceback of this exception."""
    return bool(os.environ.get(TRACEBACK)) and not isinstance(error, GavelxError | OSError)


def print_traceback(error: Exception) -> None:
    """Print the traceback of an exception, if the user wants it."""
    if is_traced(error):
        traceback.print_exception(error, file=sys.stderr)


def portable(error: Exception) -> GavelxError:
    """An exception with the same message of a class of ours, which another process can unpickle."""
    if type(error).__module__ == errors.__name__ and isinstance(error, GavelxError):
        return error
    kind = UserError if isinstance(error, UserError) else GavelxError
    return kind(in_words(error))
