"""Why a call is refused, the status that says so, and the line in the log."""

import logging
import time

import grpc

from gavelx.errors import UserError
from gavelx.rpc.refused import RefusedError
from gavelx.service.store.database import LogUnavailableError

LINE_MAX = 1000
"""A status is part of the headers, which are of limited size."""
LINES, LINE_EVERY_S = 20, 3.0
"""Refused calls of one status that are logged one by one, and how often more of them are."""


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


class Complaints:
    """Lines about calls that are refused: so many that people can read them, whatever strangers send.

    Each status has a bucket of lines, which fills again; how many were left out is said with the next one.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._left: dict[str, tuple[float, float, int]] = {}  # lines, when, and how many were left out

    def say(self, status: str, level: int, text: str, *values: object, error: Exception | None = None) -> None:
        """Log a line, or leave it out."""
        now_s = time.monotonic()
        left, then_s, silent = self._left.get(status, (float(LINES), now_s, 0))
        left = min(float(LINES), left + (now_s - then_s) / LINE_EVERY_S)
        if left < 1.0:
            self._left[status] = left, now_s, silent + 1
            return
        self._left[status] = left - 1.0, now_s, 0
        more = f" ({silent:,} more of status {status} before it)" if silent else ""
        self._log.log(level, text + "%s", *values, more, exc_info=error)
