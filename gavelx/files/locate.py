"""Paths of the data that gavelx ships: throughput tables, prices, traces and carbon.

An installed package has them in ``gavelx/_data``, and the pages of documentation too; a checkout (or an editable
install) has them in its top folders ``throughputs``, ``prices``, ``traces``, ``carbon`` and ``docs``. Beside each
``NAME.csv`` is a ``NAME.toml`` with the source and date of the numbers, their unit, and their licence.
"""

import tomllib
from pathlib import Path
from typing import Any

from gavelx.errors import GavelxError, OptionError, did_you_mean

KINDS = ("throughputs", "prices", "traces", "carbon")
_PACKAGE = Path(__file__).resolve().parents[1]


def data_folder(kind: str) -> Path:
    """The folder of the shipped files of one kind: ``throughputs``, ``prices``, ``traces`` or ``carbon``."""
    assert kind in KINDS, kind
    places = (_PACKAGE / "_data" / kind, _PACKAGE.parent / kind)
    for folder in places:
        if folder.is_dir():
            return folder
    looked = " and ".join(map(str, places))
    raise GavelxError(f"the {kind} that gavelx ships are missing (looked in {looked}): install it again")


def names(kind: str) -> tuple[str, ...]:
    """The names of the shipped tables of one kind, in alphabetical order."""
    return tuple(sorted(path.stem for path in data_folder(kind).glob("*.csv")))


def data_path(kind: str, name: str) -> Path:
    """The file of a shipped table. Raises :class:`OptionError` with the nearest name if there is none."""
    if name not in (known := names(kind)):
        raise OptionError(f"{name!r} is not among the {kind} that gavelx ships", hint=did_you_mean(name, known))
    return data_folder(kind) / f"{name}.csv"


def pages() -> dict[str, Path]:
    """The pages of documentation that gavelx ships, by name, in alphabetical order; ``policies`` for example."""
    folder = next(place for place in (_PACKAGE / "_data" / "docs", _PACKAGE.parent / "docs") if place.is_dir())
    return {path.stem: path for path in sorted(folder.glob("*.md"))}


def provenance(kind: str, name: str) -> dict[str, Any]:
    """The provenance of a shipped table: ``title, unit, derivation, rows`` and ``sources``.

    Each source has ``name, version, date, licence``.
    """
    with data_path(kind, name).with_suffix(".toml").open("rb") as file:
        return tomllib.load(file)
