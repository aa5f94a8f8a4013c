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
DTYPES: dict[Any, str] = {Floats: "float64", Ints: "int64", Bools: "bool"}


class Columns:
    """Columns of N rows, and of N x A where ``of_type`` names them. Rows enter in constant time.

    Columns of numbers of one kind are the rows of one block, so that all of them grow, and lose rows, together.
    """

    of_type: ClassVar[frozenset[str]] = frozenset()
    kinds: ClassVar[dict[str, str]]
    """The columns of a class, and what their numbers are."""

    def __init_subclass__(cls) -> None:
        cls.kinds = {name: DTYPES[hint] for name, hint in get_type_hints(cls).items() if hint in DTYPES}

    def __init__(self) -> None:
        self._rows = self.types = 0
        kinds = self.kinds
        self._names = {
            kind: [name for name, of in kinds.items() if of is kind and name not in self.of_type]
            for kind in DTYPES.values()
        }
        self._blocks: dict[str, NDArray[Any]] = {
            kind: np.zeros((len(names), 0), dtype=kind) for kind, names in self._names.items()
        }
        self._typed: dict[str, NDArray[Any]] = {name: np.zeros((0, 0), dtype=kinds[name]) for name in self.of_type}
        self._place = {
            name: (kind, place) for kind, names in self._names.items() for place, name in enumerate(names)
        }
        self.show()

    def add_row(self, **first: object) -> int:
        """A row enters, last in order, zero where nothing is said; its index. :meth:`show` makes it visible."""
        n, blocks = self._rows, self._blocks
        if n == blocks["float64"].shape[1]:
            self._grow(max(16, 2 * n))
        for block in blocks.values():
            block[:, n] = 0
        for name, value in first.items():
            if (place := self._place.get(name)) is not None:
                blocks[place[0]][place[1], n] = value
            else:
                self._typed[name][n] = value
        self._rows += 1
        return n

    def keep_rows(self, keep_N: Bools) -> Ints:
        """Drop the other rows: the new row of each old one, -1 of those that went."""
        first = int((~keep_N).argmax())  # rows before it stay where they are
        places = np.flatnonzero(keep_N[first:]) + first
        self._rows = first + len(places)
        for block in self._blocks.values():
            block[:, first : self._rows] = block.take(places, axis=1)
        for array in self._typed.values():
            array[first : self._rows] = array.take(places, axis=0)
        self.show()
        return np.where(keep_N, np.cumsum(keep_N) - 1, -1)

    def add_type(self, **first: Floats) -> None:
        """One more accelerator type, and what its column holds for each row."""
        self.types += 1
        for name, array in self._typed.items():
            wider = np.concatenate([array, np.zeros((len(array), 1), dtype=array.dtype)], axis=1)
            wider[: self._rows, -1] = first[name]
            self._typed[name] = wider
        self.show()

    def show(self) -> None:
        """From now on the attributes show all rows."""
        shown, n = vars(self), self._rows
        for kind, names in self._names.items():
            shown.update(zip(names, self._blocks[kind][:, :n], strict=True))
        for name, array in self._typed.items():
            shown[name] = array[:n]

    def __getstate__(self) -> dict[str, Any]:
        """Without the attributes that show the blocks: a copy has its own."""
        return {name: value for name, value in vars(self).items() if name not in self.kinds}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Raises :class:`ValueError` for what another version wrote, whose columns are others."""
        vars(self).update(state)
        theirs = {name: kind for kind, names in self._names.items() for name in names}
        theirs |= {name: array.dtype.name for name, array in self._typed.items()}
        if theirs != self.kinds or set(self._typed) != self.of_type:
            other = ", ".join(sorted({name for name, _ in theirs.items() ^ self.kinds.items()}))
            raise ValueError(f"{type(self).__name__} has other columns now ({other})")
        self.show()

    def _grow(self, capacity: int) -> None:
        for kind, block in self._blocks.items():
            self._blocks[kind] = np.zeros((len(block), capacity), dtype=kind)
            self._blocks[kind][:, : block.shape[1]] = block
        for name, array in self._typed.items():
            self._typed[name] = np.zeros((capacity, self.types), dtype=array.dtype)
            self._typed[name][: len(array)] = array
