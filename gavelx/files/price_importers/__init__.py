"""Price lists of others, taken over as rows of our table.

Start at :func:`import_prices`. Each family has a file with a function from a row of its own to offers, or to the
reason why it is left out: ``skypilot``, ``aws``, ``azure``, ``gcp``. What feeds do not say, which accelerators an
instance type holds, is in ``prices/instances.csv``.
"""

from gavelx.files.price_importers.offers import Given
from gavelx.files.price_importers.reading import FORMATS, Imported, import_prices

__all__ = ["FORMATS", "Given", "Imported", "import_prices"]
