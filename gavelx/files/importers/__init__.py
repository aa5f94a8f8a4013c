"""Import of published and recorded traces of other systems.

Start at :func:`import_trace`. Each family has a file with one function, from a row to a ``Recorded`` job or to
the reason why it is left out: ``gavel`` (also Shockwave), ``philly``, ``pollux``, ``tiresias`` (also
ElasticFlow), ``helios``, ``alibaba``, ``slurm``, ``jobcomp``, ``tidy`` (our own CSV and other plain lists).
``formats`` lists them and detects the format of a file by its content. ``steps`` has the rule by which a job
with a known duration gets a job type and a number of steps.
"""

from gavelx.files.importers.formats import FORMATS
from gavelx.files.importers.reading import BadRow, Imported, import_trace
from gavelx.files.importers.recorded import Ending
from gavelx.files.importers.steps import REFERENCE

__all__ = ["FORMATS", "REFERENCE", "BadRow", "Ending", "Imported", "import_trace"]
