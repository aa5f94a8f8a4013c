"""Lending: which devices of each server jobs may have over time, as a series of days or as a file of offers.

``least=0.25,most=1,step=1800,busiest=50400`` is a day of inference that repeats. A CSV with ``time_s, accelerator,
devices`` says that from then on each server of that type lends so many devices; before its first row it lends all,
and its last row holds to the end.
"""

from collections.abc import Mapping
from pathlib import Path

from gavelx.errors import InputFileError, OptionError
from gavelx.files.amounts import read_amounts
from gavelx.files.csvs import read_rows
from gavelx.files.data_sheets import meant_by
from gavelx.files.texts import exists, shown

REQUIRED = ("time_s", "accelerator", "devices")
FORM = "--lending least=0.25,most=1, or a CSV file of time_s, accelerator, devices"
DAY_S, TIME_S_MAX = 86400.0, 1e9
HIGHEST = {"least": 1.0, "most": 1.0, "step": DAY_S, "busiest": DAY_S}
STEP_S_MIN = 60.0


def is_series(spec: str) -> bool:
    """Whether it describes a day, and is no file."""
    return "=" in spec and not exists(spec)


def read_day(spec: str) -> dict[str, float]:
    """The parameters of a day: ``least`` and ``most`` (parts of the devices), ``step`` and ``busiest`` (seconds).

    Raises :class:`OptionError`.
    """
    found = {"most": 1.0, "step": 1800.0, "busiest": 50400.0}
    found |= read_amounts(spec, HIGHEST, where="--lending", form=FORM)
    if "least" not in found:
        raise OptionError(f"{shown(spec)} does not say least", where="--lending", expected=FORM)
    if found["least"] > found["most"]:
        problem = f"least={found['least']:g} is more than most={found['most']:g}"
        raise OptionError(problem, where="--lending", expected="least <= most, parts of the devices of a server")
    if found["step"] < STEP_S_MIN:
        expected = f"{STEP_S_MIN:g} to {DAY_S:g} seconds"
        raise OptionError(f"step={found['step']:g}", where="--lending", expected=expected)
    return found


def load_offers(path: str | Path, devices: Mapping[str, int]) -> dict[str, list[tuple[float, int]]]:
    """By accelerator type: times in order, and the devices that each of its servers lends from then on.

    ``devices`` are those of a server, by type; rows about other types are ignored. Raises :class:`InputFileError`
    for what is wrong in the file: times that do not rise, more devices than there are, or none of these types.
    """
    meant = meant_by(tuple(devices))
    found: dict[str, list[tuple[float, int]]] = {}
    for row in read_rows(path, REQUIRED):
        time_s = row.number("time_s", low=0.0, high=TIME_S_MAX)
        if (name := meant(row.text("accelerator").lower())) is None:
            continue
        offers = found.setdefault(name, [])
        if offers and time_s <= offers[-1][0]:
            problem = f"{time_s:g} s is not after {offers[-1][0]:g} s, of the row of {name} above it"
            raise row.mistake("time_s", problem, expected="rows in order of time")
        offers.append((time_s, row.whole("devices", low=0, high=devices[name])))
    if not found:
        raise InputFileError(f"has no offer of {', '.join(devices)}", where=str(path), expected="one at least")
    return found
