"""Where the data that gavelx ships lies: throughput tables, prices, traces and carbon.

An installed package carries them in ``gavelx/_data``; a checkout (or an editable install) has them in its top
folders ``throughputs``, ``prices``, ``traces`` and ``carbon``. Beside each ``NAME.csv`` lies ``NAME.toml``, which
says where and when the numbers came from, in which unit, and under which licence.
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
    """The file of a shipped table. Raises :class:`OptionError` with the nearest name where there is none."""
    if name not in (known := names(kind)):
        raise OptionError(f"{name!r} is not among the {kind} that gavelx ships", hint=did_you_mean(name, known))
    return data_folder(kind) / f"{name}.csv"


def provenance(kind: str, name: str) -> dict[str, Any]:
    """Where a shipped table came from: ``title, unit, derivation, rows`` and ``sources``.

    Each source has ``name, version, date, licence``.
    """
    with data_path(kind, name).with_suffix(".toml").open("rb") as file:
        return tomllib.load(file)
