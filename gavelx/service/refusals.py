"""Why a call is refused, and the status that says so."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from gavelx.errors import GavelxError, UserError
from gavelx.service.store import LogUnavailableError

LINE_MAX = 1000
"""A status is part of the headers, which are of limited size."""


class RefusedError(GavelxError):
    """A call that is refused for another reason than what it says."""

    def __init__(self, code: grpc.StatusCode, problem: str) -> None:
        super().__init__(problem)
        self.code = code


def status_of(error: BaseException) -> tuple[grpc.StatusCode, str]:
    """The status of an error, and what to say. What is ours and not expected says nothing of our insides."""
    match error:
        case RefusedError():
            return error.code, _line(error)
        case UserError():
            return grpc.StatusCode.INVALID_ARGUMENT, _line(error)
        case LogUnavailableError():
            return grpc.StatusCode.UNAVAILABLE, _line(error)
    return grpc.StatusCode.INTERNAL, "a mistake of ours; the scheduler's own output says more"


def _line(error: BaseException) -> str:
    """One line that a terminal and a log can take, whatever the user's own words in it were."""
    text = "".join(letter if letter.isprintable() else "?" for letter in str(error)[: LINE_MAX + 1])
    return text if len(text) <= LINE_MAX else text[:LINE_MAX] + "..."


@asynccontextmanager
async def refusing(context: Any) -> AsyncIterator[None]:
    """Errors inside become the status of the call."""
    try:
        yield
    except GavelxError as error:
        await context.abort(*status_of(error))
