"""Moments that files and options name."""

from datetime import UTC, datetime


def utc_time(text: str) -> datetime | None:
    """A date or a time of ISO 8601 in UTC, as which one without a zone is taken; None for any other text.

    >>> utc_time("2026-11-01T08:00+01:00")
    datetime.datetime(2026, 11, 1, 7, 0, tzinfo=datetime.timezone.utc)
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    if not 1 < time.year < 9999:  # no zone leads out of the calendar
        return None
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
