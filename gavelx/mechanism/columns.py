"""A table of typed columns that grows: each column is an attribute, an array with one row per entry.

A subclass annotates its columns with :data:`Floats`, :data:`Ints` or :data:`Bools` and says in ``of_type`` which
of them have one value per accelerator type as well. So a type checker knows them.

Legend: N rows, A accelerator types.
"""

from typing import Any, ClassVar, get_type_hints

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
DTYPES: dict[Any, type] = {Floats: np.float64, Ints: np.int64, Bools: np.bool_}


class Columns:
    """Columns of N rows, and of N x A where ``of_type`` names them. Rows enter in constant time."""

    of_type: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        self._rows = self.types = 0
        kinds = {name: DTYPES[hint] for name, hint in get_type_hints(type(self)).items() if hint in DTYPES}
        self._arrays: dict[str, NDArray[Any]] = {
            name: np.zeros(self._shape(name, 0), dtype=kind) for name, kind in kinds.items()
        }
        self.show()

    def add_row(self, **first: object) -> int:
        """A row enters, last in order, zero where nothing is said; its index. :meth:`show` makes it visible."""
        n = self._rows
        if n == len(next(iter(self._arrays.values()))):
            self._grow(max(16, 2 * n))
        for array in self._arrays.values():
            array[n] = 0
        for name, value in first.items():
            self._arrays[name][n] = value
        self._rows += 1
        return n

    def keep_rows(self, keep_N: Bools) -> Ints:
        """Drop the other rows: the new row of each old one, -1 of those that went."""
        first = int((~keep_N).argmax())  # rows before it stay where they are
        places = np.flatnonzero(keep_N[first:]) + first
        for array in self._arrays.values():
            array[first : first + len(places)] = array[places]
        self._rows = first + len(places)
        self.show()
        return np.where(keep_N, np.cumsum(keep_N) - 1, -1)

    def add_type(self, **first: Floats) -> None:
        """One more accelerator type, and what its column holds for each row."""
        self.types += 1
        for name in self.of_type:
            array = self._arrays[name]
            self._arrays[name] = np.concatenate([array, np.zeros((len(array), 1))], axis=1)
            self._arrays[name][: self._rows, -1] = first[name]
        self.show()

    def show(self) -> None:
        """From now on the attributes show all rows."""
        for name, array in self._arrays.items():
            setattr(self, name, array[: self._rows])

    def __getstate__(self) -> dict[str, Any]:
        """Without the attributes that show the arrays: a copy has its own."""
        return {name: value for name, value in vars(self).items() if name not in self._arrays}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.show()

    def _shape(self, name: str, rows: int) -> tuple[int, ...]:
        return (rows, self.types) if name in self.of_type else (rows,)

    def _grow(self, capacity: int) -> None:
        for name, array in self._arrays.items():
            wider = np.zeros(self._shape(name, capacity), dtype=array.dtype)
            wider[: len(array)] = array
            self._arrays[name] = wider
