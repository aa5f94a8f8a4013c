"""Import of price lists of clouds as rows of our table.

Start at :func:`import_prices`. Each family has a file with a function from one of its rows to offers, or to the
reason why it is left out: ``skypilot``, ``aws``, ``azure``, ``gcp``. The accelerators of an instance type, which
these lists lack, are in ``prices/instances.csv``. Instance types that seem to have some, but are not in it, are
left out by name.
"""

from gavelx.files.price_importers.offers import Given
from gavelx.files.price_importers.reading import FORMATS, Imported, import_prices

__all__ = ["FORMATS", "Given", "Imported", "import_prices"]
