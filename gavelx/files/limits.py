"""Limits of sizes in files. A larger value is probably a mistake."""

LINE_LIMIT = 100_000
"""The longest line, in bytes, that a file of rows may hold."""

TEXT_LIMIT = 1_000_000_000
"""The largest file, in bytes, that is read as a whole."""

WHOLE_MAX = 2**53
"""Whole numbers up to here are also exact as floats."""

SCALE_FACTOR_MAX = 1_000_000
"""The most devices that one job may ask for at once."""

DEVICES_MAX = 1_000_000
"""The most devices of one accelerator type, or in one server."""
