"""Throughput tables as files: steps/s of each job type on each accelerator type.

A table is a CSV with the columns ``job_type, scale_factor, accelerator, steps_per_second`` and, optionally,
``consolidated`` (1 in one server, 0 spread over several; default 1) and ``status``:

=================  ==================================================================
``ok``             measured; the default for a number
``not_runnable``   known not to run there (such as out of memory): a speed of 0
``absent``         unknown, as for an empty cell: the setting has no entry
=================  ==================================================================

gavelx ships three tables, named ``simulation``, ``physical`` and ``shockwave_tacc``.

Speeds of two jobs that share one device are in a second file, ``speeds.pairs.csv`` beside ``speeds.csv``, with the
columns ``job_type_a, job_type_b, accelerator, steps_per_second_a, steps_per_second_b``.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gavelx.errors import InputFileError, OptionError, did_you_mean
from gavelx.files.csvs import Row, read_rows
from gavelx.files.limits import SCALE_FACTOR_MAX
from gavelx.files.locate import data_path
from gavelx.files.texts import exists, shown
from gavelx.throughputs import Pairing, Setting, Throughputs

TABLES = ("simulation", "physical", "shockwave_tacc")
COLUMNS = ("job_type", "scale_factor", "accelerator", "steps_per_second")
PAIR_COLUMNS = ("job_type_a", "job_type_b", "accelerator", "steps_per_second_a", "steps_per_second_b")
STATUSES = ("ok", "not_runnable", "absent")


def load_throughputs(name_or_path: str | Path) -> Throughputs:
    """Load a shipped table by its name, or any file with the same columns by its path.

    The tables ``simulation`` and ``physical`` also have speeds of two jobs that share one device (measured once,
    for both). Accelerator names become lower case.

    Raises :class:`OptionError` if it is neither a table nor a file, :class:`InputFileError` for a mistake in a
    file.
    """
    name = str(name_or_path)
    isolated = _isolated(isolated_rows(name))
    if not isolated:
        raise InputFileError("no row has a speed", where=name, expected="at least one speed")
    return Throughputs(isolated, _colocated(pair_rows(name)), name)


def isolated_rows(name_or_path: str | Path, columns: Sequence[str] = COLUMNS) -> Iterator[Row]:
    """The rows of a table about jobs that run alone. Raises as :func:`load_throughputs` does."""
    name = str(name_or_path)
    if name in TABLES:
        rows = read_rows(data_path("throughputs", "isolated"), ("table", *COLUMNS))
        return (row for row in rows if row.cells["table"] == name)
    if name == Path(name).name and not Path(name).suffix and not exists(name):
        problem = f"there is neither a table nor a file {shown(name, 80)}"
        raise OptionError(problem, where="throughputs", hint=did_you_mean(name, TABLES))
    return read_rows(name, columns)


def pair_rows(name_or_path: str | Path) -> Iterator[Row]:
    """The rows of a table about two jobs on one device; none without such a file beside it."""
    name = str(name_or_path)
    if name in TABLES:
        return read_rows(data_path("throughputs", "colocated"), PAIR_COLUMNS) if name != TABLES[2] else iter(())
    pairs = pairs_path(name)
    return read_rows(pairs, PAIR_COLUMNS) if exists(str(pairs)) else iter(())


def pairs_path(path: str | Path) -> Path:
    """The path of the pairs of a table.

    >>> print(pairs_path("mine/speeds.csv"))
    mine/speeds.pairs.csv
    """
    return Path(path).with_suffix(".pairs.csv")


def _isolated(rows: Iterable[Row]) -> dict[Setting, float]:
    speeds: dict[Setting, float] = {}
    line_of: dict[Setting, int] = {}
    for row in rows:
        setting = setting_of(row)
        if (first := line_of.setdefault(setting, row.line)) != row.line:
            hint = "keep one of the two rows"
            if row.has("table"):
                hint = "keep the rows of one table; a shipped table is named " + ", ".join(TABLES)
            raise row.mistake("", f"the same setting is in row {first} already", hint=hint)
        if (speed := speed_of(row)) is not None:
            speeds[setting] = speed
    return speeds


def setting_of(row: Row) -> Setting:
    """The setting of a row of a table."""
    return Setting(
        row.text("job_type"),
        row.text("accelerator").lower(),
        row.whole("scale_factor", low=1, high=SCALE_FACTOR_MAX),
        row.whole("consolidated", low=0, high=1, default=1) == 1,
    )


def speed_of(row: Row) -> float | None:
    """Steps/s; 0 if the job type cannot run there, None if unknown."""
    status = row.text("status", "ok" if row.has("steps_per_second") else "absent", known=STATUSES)
    if status == "absent":
        return None
    return row.number("steps_per_second", low=0) if status == "ok" else 0.0


def _colocated(rows: Iterable[Row]) -> dict[Pairing, float]:
    """Speeds on a shared device, for both orders of each pair; 0 where the two do not fit together."""
    speeds: dict[Pairing, float] = {}
    for row in rows:
        a, b, accelerator = row.text("job_type_a"), row.text("job_type_b"), row.text("accelerator").lower()
        if Pairing(a, b, accelerator) in speeds:
            raise row.mistake("", "the same pair is in a row before", hint="keep one of the two rows")
        speeds[Pairing(a, b, accelerator)] = row.number("steps_per_second_a", low=0)
        speeds[Pairing(b, a, accelerator)] = row.number("steps_per_second_b", low=0)
    return speeds
