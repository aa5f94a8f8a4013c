"""A list of JSON objects, read by column: all values of a key are checked at once.

A column whose values are plainly right becomes an array without a look at each. Any other is read again one value
at a time by :class:`~gavelx.files.jsons.Node`, which names the one that is wrong.
"""

import math
import sys
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gavelx.files.jsons import Node
from gavelx.files.limits import WHOLE_MAX

T = TypeVar("T")


class Column:
    """One value of each object (or of each element of a list in them), and the node of each, for messages."""

    def __init__(self, values: list[Any], node_at: Callable[[int], Node]) -> None:
        self.values, self._node_at = values, node_at

    def node(self, index: int) -> Node:
        """One value with its place in the file."""
        return self._node_at(index)

    def each(self, read: Callable[[Node], T]) -> list[T]:
        """Every value, one at a time."""
        return [read(self._node_at(i)) for i in range(len(self.values))]

    def numbers(
        self, *, low: float = -math.inf, above: float = -math.inf, high: float = sys.float_info.max
    ) -> NDArray[np.float64]:
        """Finite numbers, as :meth:`Node.number` reads them."""
        if self._are(int, float):
            try:
                number_R = np.array(self.values, dtype=float)
            except OverflowError:
                number_R = np.full(1, np.nan)
            if ((number_R >= max(low, -sys.float_info.max)) & (number_R <= high) & (number_R > above)).all():
                return number_R
        return np.array(self.each(lambda node: node.number(low=low, above=above, high=high)), dtype=float)

    def wholes(self, *, low: int, high: int = WHOLE_MAX) -> NDArray[np.int64]:
        """Whole numbers, as :meth:`Node.whole` reads them."""
        if self._are(int) and min(self.values, default=low) >= low and max(self.values, default=low) <= high:
            return np.array(self.values, dtype=np.int64)
        return np.array(self.each(lambda node: node.whole(low=low, high=high)), dtype=np.int64)

    def texts(self, default: str | None = None) -> list[str]:
        """Texts, as :meth:`Node.text` reads them."""
        plain = self._are(str) and (default is not None or "" not in self.values)
        return self.values if plain else self.each(lambda node: node.text(default))

    def truths(self) -> NDArray[np.bool_]:
        return np.array(self.values if self._are(bool) else self.each(Node.truth), dtype=bool)

    def looked_up(self, found: Mapping[Any, int], read: Callable[[Node], int]) -> NDArray[np.int64]:
        """What each value stands for; ``read`` finds it where it is not spelled as in ``found``, or raises."""
        try:
            if self._are(*set(map(type, found))):
                return np.array([found[value] for value in self.values], dtype=np.int64)
        except KeyError:
            pass
        return np.array(self.each(read), dtype=np.int64)

    def lists(self) -> "tuple[NDArray[np.int64], Column]":
        """The length of each list, and all their elements one after the other."""
        if not self._are(list):
            self.each(Node.elements)
        length_R = np.fromiter(map(len, self.values), dtype=np.int64, count=len(self.values))
        start_R = np.cumsum(length_R) - length_R

        def node_at(index: int) -> Node:
            row = int(np.searchsorted(start_R, index, side="right")) - 1
            return self._node_at(row).elements()[index - int(start_R[row])]

        return length_R, Column(list(chain.from_iterable(self.values)), node_at)

    def _are(self, *kinds: type) -> bool:
        return set(map(type, self.values)) <= set(kinds)


class Table:
    """The objects of a list."""

    def __init__(self, node: Node) -> None:
        self._nodes = node
        self.rows: list[Any] = node.value
        if not isinstance(node.value, list) or not set(map(type, node.value)) <= {dict}:
            for element in node.elements():
                element.items()

    def __len__(self) -> int:
        return len(self.rows)

    def node(self, row: int) -> Node:
        """One object with its place in the file."""
        return Node(self.rows[row], self._nodes.file, self._nodes, row)

    def column(self, key: str) -> Column:
        """The values of a key that every object must have."""
        try:
            values = [row[key] for row in self.rows]
        except KeyError:
            values = [self.node(i)[key].value for i in range(len(self))]
        return Column(values, lambda i: self.node(i)[key])

    def rare(self, key: str) -> tuple[list[int], Column]:
        """The objects that have a key (and not null there), and its values."""
        values = [row.get(key) for row in self.rows]
        there = [i for i, value in enumerate(values) if value is not None]
        return there, Column([values[i] for i in there], lambda i: self.node(there[i])[key])

    def numbers(self, key: str, default: float, **limits: float) -> NDArray[np.float64]:
        """The numbers of a key; the default where there is none."""
        there, column = self.rare(key)
        number_R = np.full(len(self), default, dtype=float)
        number_R[there] = column.numbers(**limits)
        return number_R

    def wholes(self, key: str, default: int, *, low: int, high: int = WHOLE_MAX) -> NDArray[np.int64]:
        """The same of whole numbers."""
        there, column = self.rare(key)
        whole_R = np.full(len(self), default, dtype=np.int64)
        whole_R[there] = column.wholes(low=low, high=high)
        return whole_R

    def truths(self, key: str, *, default: bool) -> NDArray[np.bool_]:
        there, column = self.rare(key)
        truth_R = np.full(len(self), default)
        truth_R[there] = column.truths()
        return truth_R

    def each(self, key: str, read: Callable[[Node], T], default: T) -> list[T]:
        """What ``read`` makes of a key that few objects have; the default for the others."""
        there, column = self.rare(key)
        every = [default] * len(self)
        for i, value in zip(there, column.each(read), strict=True):
            every[i] = value
        return every


def elements_of(node: Node) -> Column:
    """The elements of a list of plain values."""
    nodes = node.elements()
    return Column(node.value, nodes.__getitem__)
