"""Figures as text: hours, dollars, shares and ratios, short enough for a table.

Imports nothing of ours.
"""

import math

HOUR_S = 3600.0
UNKNOWN = "unknown"
NOTHING = "-"
FAR_APART = 100.0
"""Times its lower end that the upper end of an interval may be; beyond that it says nothing."""


def hours(seconds: float | None) -> str:
    """Hours with about three digits.

    >>> [hours(s) for s in (90.0, 36_000.0, 4.5e6, None)]
    ['0.03', '10.0', '1,250', '-']
    """
    return NOTHING if seconds is None else number(seconds / HOUR_S)


def number(value: float | None) -> str:
    """A positive number with about three digits, and all digits before the point."""
    if value is None:
        return NOTHING
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 999.95 else 0
    return f"{value:,.{digits}f}"


def digits(value: float | None) -> str:
    """An amount of 0 or more with three digits that say something, and all digits before the point.

    >>> [digits(v) for v in (39_812.0, 39.812, 0.0398, 0.0, None)]
    ['39,812', '39.8', '0.0398', '0', '-']
    """
    if not value:
        return NOTHING if value is None else "0"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(value)))}f}"


def dollars(value: float | None) -> str:
    """US dollars, with cents for small amounts; ``unknown`` for None or NaN.

    >>> [dollars(v) for v in (3.14159, 12345.6, -1e-18, None, math.nan)]
    ['$3.14', '$12,346', '$0.00', 'unknown', 'unknown']
    """
    if value is None or math.isnan(value):
        return UNKNOWN
    return f"${round(value, 2) + 0.0:,.2f}" if abs(value) < 999.995 else f"${value:,.0f}"  # no "$-0.00"


def percent(share: float | None) -> str:
    """A share of one as per cent."""
    return NOTHING if share is None else f"{100 * share:.1f}%"


def seconds(value: float) -> str:
    """Seconds of wall-clock time."""
    return f"{value:.2f}" if value < 10 else f"{value:,.0f}"


def whole_seconds(value: float) -> str:
    """Seconds, rounded to whole ones.

    >>> [whole_seconds(v) for v in (-0.3, 1234.5)]
    ['0 s', '1,234 s']
    """
    return f"{round(value):,} s"


def printable(text: str) -> str:
    """Text from a user on one line, without characters that a terminal, a font or UTF-8 cannot show.

    >>> printable("a\\nb")
    'a\\ufffdb'
    """
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def short(text: str, length: int = 40) -> str:
    """A name that fits beside a plot; a long name is cut in the middle.

    >>> short("agnostic(max_min_fairness)", 12)
    'agnos…rness)'
    """
    text = printable(text)
    if len(text) <= length:
        return text
    tail = (length - 1) // 2 + 1
    return text[: length - 1 - tail] + "…" + text[-tail:]


def between(middle_s: float, lower_s: float, upper_s: float) -> str:
    """An interval of time; unknown if its ends are so far apart that it says nothing.

    >>> between(90.0, 30.0, 1200.0), between(1354.0, 19.0, 505_002.0)
    ('90 s (30 s to 1,200 s)', 'unknown')
    """
    if not upper_s <= FAR_APART * lower_s:
        return "unknown"
    return f"{whole_seconds(middle_s)} ({whole_seconds(lower_s)} to {whole_seconds(upper_s)})"
