"""Checked reading of JSON: every mistake names its file and the path of keys.

A :class:`Node` is a value with its path (``cluster.servers[2].device_count``). It is read by kind, and a value of
another kind is an error at this path.
"""

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gavelx.errors import InputFileError
from gavelx.files.limits import WHOLE_MAX
from gavelx.files.texts import read_text, shown


def read_json(path: str | Path) -> "Node":
    """The value that a JSON file holds.

    NaN and infinities, which many programs write, are read; :meth:`Node.number` refuses them where they matter.
    Raises :class:`InputFileError`: no such file, no text, no JSON (with the row), a key twice in one object.
    """
    text = read_text(path)
    try:
        return Node(json.loads(text, object_pairs_hook=_object), str(path))
    except json.JSONDecodeError as error:
        ends = " (the file ends early)" if error.pos >= len(text.rstrip()) else ""
        where = f"{path}, row {error.lineno}, character {error.colno}"
        raise InputFileError(f"is no JSON: {error.msg}{ends}", where=where) from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputFileError(f"is no JSON that we can read: {reason[:100]}", where=str(path)) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. Raises :class:`ValueError` for two values of one key, of which one would be lost."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {shown(twice)} is there twice in one object")
    return fields


def read_pages(path: str | Path) -> Iterator["Node"]:
    """The JSON answers of a service in a file: one, several after each other, or a list.

    Raises :class:`InputFileError` as :func:`read_json` does.
    """
    text, decoder = read_text(path), json.JSONDecoder()
    position = _next(text, 0)
    while position < len(text):
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", "nested too deeply")
            row = getattr(error, "lineno", text.count("\n", 0, position) + 1)
            raise InputFileError(f"is no JSON: {reason}", where=f"{path}, row {row}") from None
        node = Node(value, str(path))
        yield from node.elements() if isinstance(value, list) else [node]
        position = _next(text, end)


def _next(text: str, start: int) -> int:
    """Position of the next character that is not blank."""
    return next((at for at in range(start, len(text)) if not text[at].isspace()), len(text))


KEY_SHOWN = 60
"""Characters of a key in a message."""


class Node:
    """A value of a JSON file, and where it is: the path is put together only for a message."""

    __slots__ = ("_inside", "_step", "file", "value")

    def __init__(self, value: Any, file: str, inside: "Node | None" = None, step: str | int = "") -> None:
        self.value, self.file, self._inside, self._step = value, file, inside, step

    @property
    def path(self) -> str:
        """Keys and indices from the whole file to here: ``jobs[3].job_id``."""
        before = "" if self._inside is None else self._inside.path
        if isinstance(self._step, int):
            return f"{before}[{self._step}]"
        step = self._step if len(self._step) <= KEY_SHOWN else self._step[:KEY_SHOWN] + "..."
        return f"{before}.{step}" if before else step

    def mistake(self, problem: str, *, expected: str = "", hint: str = "") -> InputFileError:
        """The error to raise about this value."""
        where = f"{self.file}, {self.path}" if self.path else self.file
        return InputFileError(problem, where=where, expected=expected, hint=hint)

    def __contains__(self, key: str) -> bool:
        return isinstance(self.value, dict) and self.value.get(key) is not None

    def __getitem__(self, key: str) -> "Node":
        """The value of a key; a missing key is an error that lists the existing ones."""
        fields = self._of(dict, "an object")
        if key not in fields:
            there = ", ".join(shown(name) for name in list(fields)[:12]) or "none"
            raise self.mistake(f"the key {key!r} is missing; there are {there}")
        return Node(fields[key], self.file, self, key)

    def items(self) -> Iterator[tuple[str, "Node"]]:
        """Keys and values of an object."""
        return ((key, Node(value, self.file, self, key)) for key, value in self._of(dict, "an object").items())

    def by_type(self) -> "dict[str, Node]":
        """The values of an object by accelerator type, in small letters; a type in two spellings is an error."""
        found: dict[str, Node] = {}
        for name, value in self.items():
            if name.lower() in found:
                raise value.mistake(f"{shown(name.lower())} is named twice", expected="each accelerator type once")
            found[name.lower()] = value
        return found

    def elements(self) -> "list[Node]":
        """The elements of a list."""
        values = self._of(list, "a list")
        return [Node(value, self.file, self, i) for i, value in enumerate(values)]

    def text(self, default: str | None = None) -> str:
        """A string that is not empty; ``default`` for an empty one."""
        text: str = self._of(str, "a text")
        if not text and default is None:
            raise self.mistake("the text is empty", expected="a name")
        return text

    def number(
        self, *, low: float = -math.inf, above: float = -math.inf, high: float = sys.float_info.max
    ) -> float:
        """A finite number, at least ``low``, greater than ``above``, and at most ``high``."""
        kind = "a finite number"
        if above > -math.inf:
            kind += f" above {above:g}"
        elif low > -math.inf:
            kind += f", {low:g} or more"
        if high < sys.float_info.max:
            kind += f", {high:g} at most"
        value = self._of((int, float), kind)
        if isinstance(value, bool) or not (
            -sys.float_info.max <= value <= high and value >= low and value > above
        ):
            raise self.mistake(f"{shown(value)} cannot be used", expected=kind)
        return float(value)

    def whole(self, *, low: int, high: int = WHOLE_MAX) -> int:
        """A whole number from ``low`` to ``high``."""
        kind = f"a whole number, {low} or more" if high == WHOLE_MAX else f"a whole number from {low} to {high}"
        value = self._of(int, kind)
        if isinstance(value, bool) or not low <= value <= high:
            raise self.mistake(f"{shown(value)} cannot be used", expected=kind)
        return int(value)

    def truth(self) -> bool:
        """true or false."""
        return bool(self._of(bool, "true or false"))

    def _of(self, kind: Any, name: str) -> Any:
        if not isinstance(self.value, kind):
            raise self.mistake(f"{_seen(self.value)} cannot be used", expected=name)
        return self.value


def _seen(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return "null" if value is None else shown(value)
