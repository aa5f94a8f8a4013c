"""Throughput tables as files: steps/s of each job type on each accelerator type.

A table is a CSV with the columns ``job_type, scale_factor, accelerator, steps_per_second`` and, optionally,
``consolidated`` (1 in one server, 0 spread over several; default 1) and ``status``:

=================  ==================================================================
``ok``             measured; the default for a number
``not_runnable``   known not to run there (such as out of memory): a speed of 0
``absent``         unknown, as for an empty cell: the setting has no entry
=================  ==================================================================

A row with a number in the column ``update_batch`` is a size of an elastic job: ``scale_factor`` devices, so many
samples in an update of all of them together, and updates per second; then the other rows of its job type count in
updates as well. The column ``noise_scale`` holds the gradient noise scale of a job type, in samples.

gavelx ships three tables, named ``simulation``, ``physical`` and ``shockwave_tacc``.

Speeds of two jobs that share one device are in a second file, ``speeds.pairs.csv`` beside ``speeds.csv``, with the
columns ``job_type_a, job_type_b, accelerator, steps_per_second_a, steps_per_second_b``.

What ``gavelx throughputs estimate --out`` writes is a table as well: a row's speed is its ``estimate``, in the
range from ``lower`` to ``upper``, and rows of pairs may stand between the others.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from gavelx.elastic import BATCH_MOST
from gavelx.errors import InputFileError, OptionError, did_you_mean
from gavelx.files.csvs import Row, read_rows
from gavelx.files.limits import SCALE_FACTOR_MAX
from gavelx.files.locate import data_path
from gavelx.files.texts import exists, shown
from gavelx.throughputs import Pairing, Setting, Size, Throughputs

TABLES = ("simulation", "physical", "shockwave_tacc")
COLUMNS = ("job_type", "scale_factor", "accelerator", "steps_per_second")
PAIR_COLUMNS = ("job_type_a", "job_type_b", "accelerator", "steps_per_second_a", "steps_per_second_b")
STATUSES = ("ok", "not_runnable", "absent")
ESTIMATED = (("accelerator", "estimate"), ("accelerator", "estimate_a", "estimate_b"))
"""Columns of a file of estimates: of jobs alone, or of pairs."""
OTHER_UNITS = {
    "samples": "divide by the samples of one step (the global batch size), and name the column steps_per_second",
    "images": "divide by the images of one step (the global batch size), and name the column steps_per_second",
    "tokens": "divide by the tokens of one step (global batch size x sequence length): steps_per_second",
    "seconds": "write steps per second, 1 / seconds, and name the column steps_per_second",
    "throughput": "write optimizer steps per second of the whole job, and name the column steps_per_second",
    "speed": "write optimizer steps per second of the whole job, and name the column steps_per_second",
}
"""Words in a header that hint at another unit, and what to do."""
Ranges = dict[Setting | Pairing, tuple[float, float]]


def load_throughputs(name_or_path: str | Path) -> Throughputs:
    """Load a shipped table by its name, or any file with the same columns by its path.

    The tables ``simulation`` and ``physical`` also have speeds of two jobs that share one device (measured once,
    for both). Accelerator names become lower case.

    Raises :class:`OptionError` if it is neither a table nor a file, :class:`InputFileError` for a mistake in a
    file.
    """
    name = str(name_or_path)
    ranges = Ranges()
    alone, beside, sized = list[Row](), list[Row](), list[Row]()
    for row in isolated_rows(name):
        (beside if row.has("job_type_a") else sized if row.has("update_batch") else alone).append(row)
    isolated = _isolated(alone, ranges)
    if not isolated:
        raise InputFileError("no row has a speed", where=name, expected="at least one speed of a job alone")
    return Throughputs(
        isolated,
        _colocated([*beside, *pair_rows(name)], ranges),
        name,
        ranges,
        sizes=_sizes(sized),
        noise_scale=_noise_scales([*alone, *sized]),
    )


def isolated_rows(name_or_path: str | Path, columns: Sequence[str] = COLUMNS) -> Iterator[Row]:
    """The rows of a table about jobs that run alone. Raises as :func:`load_throughputs` does."""
    name = str(name_or_path)
    if name in TABLES:
        rows = read_rows(data_path("throughputs", "isolated"), ("table", *COLUMNS))
        return (row for row in rows if row.cells["table"] == name)
    if name == Path(name).name and not Path(name).suffix and not exists(name):
        problem = f"there is neither a table nor a file {shown(name, 80)}"
        raise OptionError(problem, where="throughputs", hint=did_you_mean(name, TABLES))
    return read_rows(name, columns, instead=ESTIMATED, hint_of=_other_unit)


def _other_unit(columns: Collection[str]) -> str:
    """What to do with a table whose speeds are in another unit."""
    if "steps_per_second" in columns:
        return ""
    return next((hint for word, hint in OTHER_UNITS.items() if any(word in name.lower() for name in columns)), "")


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


def _isolated(rows: Iterable[Row], ranges: Ranges) -> dict[Setting, float]:
    """The speeds of jobs alone; ranges of estimates are added to ``ranges``."""
    speeds: dict[Setting, float] = {}
    line_of: dict[Setting, int] = {}
    for row in rows:
        setting = setting_of(row)
        if (first := line_of.setdefault(setting, row.line)) != row.line:
            hint = "keep one of the two rows"
            if row.has("table"):
                hint = "keep the rows of one table; a shipped table is named " + ", ".join(TABLES)
            raise row.mistake("", f"the same setting is in row {first} already", hint=hint)
        if row.has("estimate"):
            speeds[setting] = _estimate(row, setting, "", ranges)
        elif (speed := speed_of(row)) is not None:
            speeds[setting] = speed
    return speeds


def _sizes(rows: Iterable[Row]) -> dict[Size, float]:
    """Updates/s of elastic jobs at other batch sizes."""
    speeds: dict[Size, float] = {}
    for row in rows:
        setting = setting_of(row)
        batch = row.whole("update_batch", low=1, high=BATCH_MOST)
        size = Size(setting.job_type, setting.accelerator, setting.scale_factor, batch, setting.consolidated)
        if size in speeds:
            raise row.mistake("", "the same size is in a row before", hint="keep one of the two rows")
        if (speed := speed_of(row)) is not None:
            speeds[size] = speed
    return speeds


def _noise_scales(rows: Iterable[Row]) -> dict[str, float]:
    """The gradient noise scale of each job type that has one."""
    found: dict[str, float] = {}
    for row in rows:
        if row.has("noise_scale"):
            name, value = row.text("job_type"), row.number("noise_scale", above=0)
            if found.setdefault(name, value) != value:
                problem = f"{name} has the noise scale {found[name]:g} in a row before, and {value:g} here"
                raise row.mistake("noise_scale", problem, expected="one for each job type")
    return found


def _estimate(row: Row, way: Setting | Pairing, side: str, ranges: Ranges) -> float:
    """The estimate of a row, whose range is added to ``ranges``."""
    lower, middle, upper = (row.number(name + side, low=0) for name in ("lower", "estimate", "upper"))
    if not lower <= middle <= upper:
        expected = "lower, estimate, upper in this order"
        raise row.mistake("estimate" + side, f"{lower:g}, {middle:g}, {upper:g}", expected=expected)
    if lower < upper:
        ranges[way] = (lower, upper)
    return middle


def setting_of(row: Row) -> Setting:
    """The setting of a row of a table."""
    estimated = "estimate" in row.cells or "estimate_a" in row.cells
    return Setting(
        row.text("job_type"),
        row.text("accelerator").lower(),
        row.whole("scale_factor", low=1, high=SCALE_FACTOR_MAX, default=1 if estimated else None),
        row.whole("consolidated", low=0, high=1, default=1) == 1,
    )


def speed_of(row: Row) -> float | None:
    """Steps/s; 0 if the job type cannot run there, None if unknown."""
    status = row.text("status", "ok" if row.has("steps_per_second") else "absent", known=STATUSES)
    if status == "absent":
        return None
    return row.number("steps_per_second", low=0) if status == "ok" else 0.0


def _colocated(rows: Iterable[Row], ranges: Ranges) -> dict[Pairing, float]:
    """Speeds on a shared device, for both orders of each pair; 0 where the two do not fit together."""
    speeds: dict[Pairing, float] = {}
    for row in rows:
        a, b, accelerator = row.text("job_type_a"), row.text("job_type_b"), row.text("accelerator").lower()
        if Pairing(a, b, accelerator) in speeds:
            raise row.mistake("", "the same pair is in a row before", hint="keep one of the two rows")
        for way, side in ((Pairing(a, b, accelerator), "_a"), (Pairing(b, a, accelerator), "_b")):
            if row.has("estimate" + side):
                speeds[way] = _estimate(row, way, side, ranges)
            elif "estimate" + side not in row.cells or row.has("steps_per_second" + side):
                speeds[way] = row.number("steps_per_second" + side, low=0)
    return speeds
