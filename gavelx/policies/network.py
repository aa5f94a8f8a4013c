"""A small network as plain arrays: a learner writes it, and a policy decides by it without torch."""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, is_zipfile

import numpy as np
from numpy.typing import NDArray

from gavelx.errors import UserError

Floats = NDArray[np.floating]
DIGITS = 12
EXPECTED = "a weights file (.npz) that a learner of ours wrote"


@dataclass(frozen=True, eq=False)
class Network:
    """Layers of ``relu(weights x + bias)``, the last one without relu; inputs are shifted and scaled first.

    ``note`` says what the network reads, and for how long it decides (``slot_s``); plain JSON.
    """

    mean_F: Floats
    scale_F: Floats
    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    note: Mapping[str, Any] = field(default_factory=dict)
    digest: str = field(default="", compare=False)

    def __call__(self, x: Floats) -> Floats:
        """The first number for each row of features (... x F)."""
        return np.asarray(self.outputs(x)[..., 0])

    def outputs(self, x: Floats) -> Floats:
        """All numbers for each row of features."""
        x = (x - self.mean_F) * self.scale_F
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = np.maximum(_product(x, weight) + bias, 0.0)
        return np.asarray(_product(x, self.weights[-1]) + self.biases[-1])

    def to_bytes(self) -> bytes:
        """The content of a weights file: a plain .npz, the same bytes for the same weights."""
        arrays: dict[str, Any] = {"mean": self.mean_F, "scale": self.scale_F}
        if self.note:
            arrays["note"] = np.array(json.dumps(self.note, sort_keys=True))
        for n, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            arrays |= {f"weight{n}": weight, f"bias{n}": bias}
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        return buffer.getvalue()

    @staticmethod
    def load(path: str | Path) -> "Network":
        """The network in a weights file. Raises :class:`UserError` for a file that holds none."""
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise UserError(f"cannot be read: {error.strerror}", where=str(path), expected=EXPECTED) from error
        return Network.from_bytes(content, str(path))

    @staticmethod
    def from_bytes(content: bytes, where: str) -> "Network":
        """The network in the content of a weights file. Raises :class:`UserError` if it holds none."""
        if not is_zipfile(io.BytesIO(content)):
            raise UserError("is no .npz file", where=where, expected=EXPECTED)
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                n = sum(name.startswith("weight") for name in arrays)
                weights = tuple(arrays[f"weight{i}"] for i in range(n))
                biases = tuple(arrays[f"bias{i}"] for i in range(n))
                mean_F, scale_F = arrays["mean"], arrays["scale"]
                note = dict(json.loads(str(arrays["note"]))) if "note" in arrays else {}
        except (ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise UserError(f"holds no network: {error}", where=where, expected=EXPECTED) from error
        if not weights or not _fit(mean_F, scale_F, weights, biases):
            raise UserError("its layers do not fit together", where=where, expected=EXPECTED)
        return Network(mean_F, scale_F, weights, biases, note, hashlib.sha256(content).hexdigest()[:DIGITS])


def _product(x: Floats, weight_FH: Floats) -> Floats:
    return np.asarray(np.einsum("...F,FH->...H", x, weight_FH))


def _fit(mean_F: Floats, scale_F: Floats, weights: tuple[Floats, ...], biases: tuple[Floats, ...]) -> bool:
    """Whether each layer takes what the one before gives, and all are finite numbers."""
    wide = [weight.shape[0] if weight.ndim == 2 else -1 for weight in weights]
    wide.append(len(biases[-1]) if biases[-1].ndim == 1 else -1)
    shapes = wide[-1] > 0 and all(
        bias.shape == (after,) == weight.shape[1:]
        for weight, bias, after in zip(weights, biases, wide[1:], strict=True)
    )
    numbers = all(
        array.dtype.kind == "f" and np.isfinite(array).all() for array in (mean_F, scale_F, *weights, *biases)
    )
    return shapes and numbers and mean_F.shape == scale_F.shape == (wide[0],)
