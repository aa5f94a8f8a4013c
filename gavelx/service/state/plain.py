"""A state as plain data, and back: what a snapshot of a log holds. Nothing in it is code, unlike in a pickle.

=============  ======================================================================================
``format``     ``gavelx-state-1``; another number when a field means something else than before
``shapes``     every class in it with the names of its fields: ``["gavelx.jobs:Job", "id", ...]``
``objects``    the objects, each ``[shape, value, ...]``, or one of the containers below
``root``       the number of the one that is the state
=============  ======================================================================================

A value is text, a number, a truth or null as in JSON; ``[k]`` is object k, so objects that are shared or refer to
each other stay so; ``["inf"]`` and the like are numbers that JSON lacks. Containers are ``["list", ...]``,
``["tuple", ...]``, ``["set", ...]``, ``["deque", most, ...]`` and ``["dict", key, value, ...]``; ``["array", type,
shape, base64]`` is a numpy array, ``["method", object, name]`` a method of an object, ``["class", name]`` a class.

A state is read by any version of gavelx whose classes have the same fields, with any version of numpy: upgrades
seldom change them. If one does, the state is not read, and the log is replayed instead.
"""

import base64
import gc
import json
import math
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cached_property
from importlib import import_module
from types import MethodType
from typing import Any

import numpy as np

FORMAT = "gavelx-state-1"
ROOM = "gavelx."
"""Only classes of ours are made from data."""
CONTAINERS: dict[type, str] = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset", dict: "dict"}
CONTAINERS |= {Counter: "counter", deque: "deque"}
MAKE: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "frozenset": frozenset}
PLAIN = (int, str, bool, type(None))
NUMBERS = ("inf", "-inf", "nan")


class UnreadableError(Exception):
    """These are no data of this version's classes; the message says why."""


def to_plain(state: Any) -> bytes:
    """The whole state, compressed."""
    writer = _Writer()
    with _without_collection():
        root = writer.value(state)
    document = {"format": FORMAT, "shapes": writer.shapes, "objects": writer.objects, "root": root}
    return zlib.compress(json.dumps(document, separators=(",", ":"), allow_nan=False).encode(), 1)


def from_plain(data: bytes, like: Any) -> Any:
    """The state that was written. ``like`` is a new one, whose objects show which fields this version expects.

    Raises :class:`UnreadableError`.
    """
    try:
        document = json.loads(zlib.decompress(data))
        if document["format"] != FORMAT:
            raise UnreadableError(f"its format is {document['format']!r:.40}, not {FORMAT}")
        expected = _Writer()
        expected.value(like)
        for name, *names in document["shapes"]:
            _check_fields(name, names, {shape: wanted for shape, *wanted in expected.shapes})
        with _without_collection():
            return _Reader(document["shapes"], document["objects"]).value(document["root"])
    except (zlib.error, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UnreadableError(f"{type(error).__name__}: {error}") from error


@contextmanager
def _without_collection() -> Iterator[None]:
    """No search for garbage among millions of new objects, of which none is garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Writer:
    def __init__(self) -> None:
        self.shapes: list[list[str]] = []
        self.objects: list[list[Any]] = []
        self._number_of: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no two objects have the same id
        self._shape_of: dict[tuple[str, ...], int] = {}

    def value(self, value: Any) -> Any:
        """A value as JSON."""
        kind = type(value)
        if kind in PLAIN:
            return value
        if kind is float:
            return value if math.isfinite(value) else [str(value)]
        if (number := self._number_of.get(id(value))) is None:
            number = self._number_of[id(value)] = len(self.objects)
            self._kept.append(value)
            self.objects.append([])
            self.objects[number] = self._object(kind, value)
        return [number]

    def _object(self, kind: type, value: Any) -> list[Any]:
        if (name := CONTAINERS.get(kind)) is not None:
            each = value if not isinstance(value, dict) else (part for pair in value.items() for part in pair)
            return [name, *([value.maxlen] if name == "deque" else []), *map(self.value, each)]
        if kind is np.ndarray:
            little = np.ascontiguousarray(value.astype(value.dtype.newbyteorder("<"), copy=False))
            shape = list(value.shape)
            return ["array", little.dtype.str, shape, base64.b64encode(little.tobytes()).decode("ascii")]
        if isinstance(value, np.generic):
            one = value.astype(value.dtype.newbyteorder("<"))
            return ["scalar", one.dtype.str, base64.b64encode(one.tobytes()).decode("ascii")]
        if kind is MethodType:
            return ["method", self.value(value.__self__), value.__name__]
        if isinstance(value, type):
            return ["class", _name(value)]
        if isinstance(value, tuple):
            names, values = list(value._fields), list(value)  # type: ignore[attr-defined]
        else:
            state = dict(_fields(value))
            names, values = list(state), list(state.values())
        key = (_name(kind), *names)
        number = self._shape_of.setdefault(key, len(self.shapes))
        if number == len(self.shapes):
            self.shapes.append(list(key))
        return [number, *(v if type(v) in PLAIN else self.value(v) for v in values)]


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    """The fields of an object in their order, without what it has only computed from them."""
    if is_dataclass(value):
        yield from ((each.name, getattr(value, each.name)) for each in fields(value))
        return
    for name, field in (value.__getstate__() or {}).items():
        if not isinstance(getattr(type(value), name, None), cached_property):
            yield name, field


def _name(kind: type) -> str:
    assert kind.__module__.startswith(ROOM), f"{kind} in a state"
    return f"{kind.__module__}:{kind.__qualname__}"


def _class(name: str) -> type:
    module, _, qualname = name.partition(":")
    if not module.startswith(ROOM):
        raise ValueError(f"{name!r:.80} is no class of gavelx")
    try:
        found: Any = import_module(module)
    except ImportError:
        raise ValueError(f"there is no {module} any more") from None
    for part in qualname.split("."):
        found = getattr(found, part)
    if not isinstance(found, type):
        raise TypeError(f"{name} is no class")
    return found


def _check_fields(name: str, names: list[str], expected: dict[str, list[str]]) -> None:
    """Raise unless this version's class has these fields."""
    kind = _class(name)
    if issubclass(kind, tuple):
        wanted = list(kind._fields)  # type: ignore[attr-defined]
    elif is_dataclass(kind):
        wanted = [each.name for each in fields(kind)]
    elif name in expected:
        wanted = expected[name]
    else:
        wanted = [field for field, _ in _fields(kind())]
    if set(names) != set(wanted) or (issubclass(kind, tuple) and names != wanted):
        other = ", ".join(sorted(set(names) ^ set(wanted))) or "in another order"
        raise UnreadableError(f"{name} has other fields now ({other})")


class _Reader:
    """Makes each object once. Those that can change are made empty first, so that they may refer to each other."""

    def __init__(self, shapes: list[list[str]], objects: list[list[Any]]) -> None:
        self._classes = [(_class(name), names) for name, *names in shapes]
        self._objects = objects
        self._made: dict[int, Any] = {}
        self._orders: dict[type, list[str]] = {}

    def value(self, value: Any) -> Any:
        if type(value) is not list:
            return value
        (number,) = value
        if type(number) is str:
            return float(NUMBERS[NUMBERS.index(number)])
        if number not in self._made:
            self._make(number)
        return self._made[number]

    def _make(self, number: int) -> None:
        kind, *content = self._objects[number]
        match kind:
            case int():
                self._make_object(number, *self._classes[kind], content)
            case "list" | "deque" | "set" | "dict" | "counter":
                self._fill(number, kind, content)
            case "tuple" | "frozenset":
                self._made[number] = MAKE[kind](map(self.value, content))
            case "array":
                dtype, shape, data = content
                array = np.frombuffer(base64.b64decode(data, validate=True), dtype=_plain_type(dtype))
                self._made[number] = array.reshape(shape).astype(array.dtype.newbyteorder("="))
            case "scalar":
                dtype, data = content
                self._made[number] = np.frombuffer(base64.b64decode(data), dtype=_plain_type(dtype))[0]
            case "method":
                self._made[number] = getattr(self.value(content[0]), content[1])
            case "class":
                self._made[number] = _class(content[0])
            case _:
                raise ValueError(f"there is no {kind!r:.40}")

    def _fill(self, number: int, kind: str, content: list[Any]) -> None:
        if kind in ("dict", "counter"):
            made: dict[Any, Any] = {} if kind == "dict" else Counter()
            self._made[number] = made
            for key, value in zip(content[::2], content[1::2], strict=True):
                made[self.value(key)] = self.value(value)
        elif kind in ("list", "deque"):
            elements: list[Any] | deque[Any] = [] if kind == "list" else deque(maxlen=content.pop(0))
            self._made[number] = elements
            elements.extend(map(self.value, content))
        else:
            members = self._made[number] = set[Any]()
            members.update(map(self.value, content))

    def _make_object(self, number: int, kind: type, names: list[str], content: list[Any]) -> None:
        if issubclass(kind, tuple):
            self._made[number] = kind(*map(self.value, content))
            return
        made = self._made[number] = object.__new__(kind)
        values = [value if type(value) is not list else self.value(value) for value in content]
        state = dict(zip(names, values, strict=True))
        if not is_dataclass(kind) and (set_state := getattr(made, "__setstate__", None)) is not None:
            set_state(state)
            return
        for name in self._order(kind, names):
            object.__setattr__(made, name, state[name])

    def _order(self, kind: type, names: list[str]) -> list[str]:
        """The order in which a new object is given its fields."""
        if kind not in self._orders:
            self._orders[kind] = [each.name for each in fields(kind)] if is_dataclass(kind) else names
        return self._orders[kind]


def _plain_type(text: str) -> np.dtype[Any]:
    dtype = np.dtype(text)
    if dtype.kind not in "biufSU":
        raise ValueError(f"an array of {dtype}")
    return dtype
