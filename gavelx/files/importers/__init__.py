"""Traces that others have published or keep, taken over as jobs.

Start at :func:`import_trace`. Each family has a file with one plain function, from a row to a ``Recorded`` job
or to the reason why it is left out: ``gavel`` (Shockwave's too), ``philly``, ``pollux``, ``alibaba``, ``slurm``,
``tidy`` (our own CSV and other plain lists). ``formats`` lists them and recognises a file by what is in it.
``steps`` holds the one rule by which a job that is known by its duration gets a job type and a number of steps.
"""

from gavelx.files.importers.formats import FORMATS
from gavelx.files.importers.reading import BadRow, Imported, import_trace
from gavelx.files.importers.steps import REFERENCE

__all__ = ["FORMATS", "REFERENCE", "BadRow", "Imported", "import_trace"]
