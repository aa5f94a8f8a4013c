"""Reading and writing files: input is checked, output is written atomically.

Start at ``throughput_tables``, ``price_tables``, ``traces`` (``importers`` for other formats) or ``snapshots``;
``locate`` finds the tables that gavelx ships, ``atomic`` writes files. Every mistake in a file is an
:class:`~gavelx.errors.InputFileError` that names the file and the place in it.
"""
