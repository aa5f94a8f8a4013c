"""Everything that crosses the disk: what comes in is checked, what goes out is written whole or not at all.

Start at ``throughput_tables``, ``price_tables``, ``traces`` (``importers`` for those of others) or ``snapshots``;
``locate`` knows what gavelx ships, ``atomic`` writes. Every mistake in a file is an
:class:`~gavelx.errors.InputFileError` that names the file and the place in it.
"""
