"""What a policy remembers from one answer to the next: plain arrays, which come back with the next question.

A policy itself keeps no state, so that every decision can be replayed. What it would keep, it puts into
``Allocation.memory`` and finds in the next ``Snapshot.memory``; simulator, service and log carry it. It may be
forgotten at any time (another policy answered, an answer failed, a log of before): that may cost quality, never
correctness. Arrays about jobs stand beside an array of job ids, as jobs come and go.
"""

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Memory = Mapping[str, NDArray[Any]]
MOST_BYTES = 1_000_000
"""Of all arrays together: memory is in the log with every answer."""
PLAIN = "biuf"
"""Kinds of numbers that an array may hold: truths, whole numbers, floats."""


def wrong(memory: Any) -> tuple[str, str] | None:
    """Why this cannot be remembered: what was seen and what was expected; None if it can."""
    if not isinstance(memory, Mapping):
        return f"memory is a {type(memory).__name__}", "arrays by name: {'limit': limit_J}"
    for name, array in memory.items():
        if not isinstance(name, str):
            return f"memory has the name {name!r:.40}", "names that are text"
        if not isinstance(array, np.ndarray):
            return f"memory {name!r} is a {type(array).__name__}", "a numpy array"
        if array.dtype.kind not in PLAIN:
            return f"memory {name!r} is an array of {array.dtype}", "an array of numbers or truths"
    if (size := sum(array.nbytes for array in memory.values())) > MOST_BYTES:
        return f"memory of {size:,} bytes", f"at most {MOST_BYTES:,}, as it is in the log with every answer"
    return None


def to_json(memory: Memory) -> dict[str, Any]:
    """Plain values that give the same bits back."""
    return {name: _array_to_json(np.asarray(array)) for name, array in memory.items()}


def _array_to_json(array: NDArray[Any]) -> dict[str, Any]:
    little = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    text = base64.b64encode(little.tobytes()).decode("ascii")
    return {"type": little.dtype.str, "shape": list(array.shape), "base64": text}


def from_json(body: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """What :func:`to_json` wrote. Raises ValueError, KeyError or TypeError for anything else."""
    return {str(name): _array_from_json(one) for name, one in body.items()}


def _array_from_json(body: Mapping[str, Any]) -> NDArray[Any]:
    kind = np.dtype(body["type"])
    if kind.kind not in PLAIN:
        raise ValueError(f"an array of {kind}")
    data = base64.b64decode(body["base64"], validate=True)
    array = np.frombuffer(data, dtype=kind).reshape([int(n) for n in body["shape"]])
    return array.astype(kind.newbyteorder("="), copy=False)
