"""Everything that crosses the disk: tables, prices, traces and snapshots in, checked; files out, whole or not at all.

Whoever wants to read something starts at ``throughput_tables``, ``price_tables``, ``traces`` (``gavel_traces`` for
the published form) or ``snapshots``; ``locate`` knows what gavelx ships, ``atomic`` writes. Every mistake in a file
is an :class:`~gavelx.errors.InputFileError` that names the file and the place in it.
"""
