"""What day it was on the log's clock, for bills of a month."""

import math
from datetime import UTC, datetime

from gavelx.errors import OptionError
from gavelx.service.store.records import Entry, Started


class Calendar:
    """Follows a log, in which each scheduler wrote down what day it was when it started."""

    def __init__(self) -> None:
        self._zero: float | None = None  # the UTC timestamp at which the log's clock was at 0, by the last start
        self._first = -math.inf  # the UTC timestamp of the first dated start; what was before has no dates

    def note(self, entry: Entry) -> None:
        """A scheduler may have started."""
        assert entry.event is not None
        if isinstance(entry.event, Started) and (utc := entry.note.get("utc")):
            now = datetime.fromisoformat(utc).timestamp()
            if self._zero is None and entry.event.time_s > 0.0:
                self._first = now
            self._zero = now - entry.event.time_s

    def seconds(self, moment: datetime, option: str) -> float:
        """The same moment on the log's clock; infinity while that is not known.

        Raises :class:`OptionError` for a moment in the older part of a log, which has no dates.
        """
        if self._zero is None:
            return math.inf
        if moment.timestamp() < self._first:
            problem = "what day it was is not in the older part of this log"
            raise OptionError(problem, where=option, expected=f"{_day(self._first + 1.0)} or later")
        return moment.timestamp() - self._zero

    def mistake(self, option: str, end_s: float) -> OptionError:
        """What is wrong with a moment that did not come before the log's end."""
        if self._zero is None:
            hint = "the bill of the whole log; gavelx serve writes down what day it is when it starts"
            return OptionError("this log does not say what day it was", where=option, hint=hint)
        return OptionError("the log ends before", where=option, expected=f"{self.day(end_s)} or earlier")

    def day(self, time_s: float) -> str:
        """What day it is on the log's clock, by the last start."""
        assert self._zero is not None
        return _day(self._zero + time_s)


def _day(timestamp: float) -> str:
    return f"{datetime.fromtimestamp(timestamp, UTC):%Y-%m-%dT%H:%M:%S}"
