"""What a command says of an exception, and whose mistake it is; a policy that failed beside others."""

import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gavelx import errors
from gavelx.errors import GavelxError, UserError

TRACEBACK = "GAVELX_TRACEBACK"
"""Set this variable to see where in the code a failure of ours came from."""


@dataclass(frozen=True)
class Failed:
    """A policy that did not run to its end, and why."""

    policy: str
    error: Exception

    @property
    def message(self) -> str:
        """One line for the user."""
        return in_words(self.error)

    @property
    def exit_code(self) -> int:
        """2: the user's mistake; 1: ours."""
        return exit_code(self.error)

    def to_json(self) -> dict[str, Any]:
        """The policy, what went wrong, and whose mistake it is."""
        return {"policy": self.policy, "message": self.message, "exit_code": self.exit_code}


def exit_code(error: BaseException) -> int:
    """2 where the user made the mistake, 1 where we did."""
    return 2 if isinstance(error, UserError) else 1


def in_words(error: Exception) -> str:
    """One line about an exception; of a mistake in gavelx the place where it showed."""
    if isinstance(error, GavelxError | OSError):  # a full disk behind stdout, say
        return str(error)
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    at = f" ({Path(place.tb_frame.f_code.co_filename).name}, line {place.tb_lineno})" if place else ""
    text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return f"a mistake of ours: {text}{at}. Try: again with {TRACEBACK}=1, and report what it shows"


def is_traced(error: BaseException) -> bool:
    """Whether the user wants to see where in the code this came from."""
    return bool(os.environ.get(TRACEBACK)) and not isinstance(error, GavelxError | OSError)


def print_traceback(error: Exception) -> None:
    """Print where an exception came from, if the user wants to see that."""
    if is_traced(error):
        traceback.print_exception(error, file=sys.stderr)


def portable(error: Exception) -> GavelxError:
    """The same to a user, as an exception that another process can read: of a class of ours."""
    if type(error).__module__ == errors.__name__ and isinstance(error, GavelxError):
        return error
    kind = UserError if isinstance(error, UserError) else GavelxError
    return kind(in_words(error))
