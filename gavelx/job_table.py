"""Jobs as columns, so that ten million of them take half a GB, where as many :class:`Job` objects take 2.3.

:func:`column` and :func:`kinds` read columns of any jobs, in a table or not.

Legend: J jobs, K kinds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from operator import attrgetter, eq
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from gavelx import frames
from gavelx.jobs import Job

Ints = NDArray[np.int64]
DTYPES: dict[str, type] = {
    "id": np.int64,
    "total_steps": np.float64,
    "scale_factor": np.int64,
    "weight": np.float64,
    "arrival_s": np.float64,
}
"""The fields of a job that are always numbers."""
DEFAULTS = {one.name: one.default for one in fields(Job) if one.default is not MISSING}
K = TypeVar("K")


@dataclass(frozen=True, eq=False)
class Coded:
    """A column of which many rows are alike: the values, and which of them each job has (an index)."""

    values: Sequence[Any]
    code_J: NDArray[np.integer[Any]]

    def __len__(self) -> int:
        return len(self.code_J)

    def __getitem__(self, place: Any) -> Any:
        code = self.code_J[place]
        return Coded(self.values, code) if isinstance(code, np.ndarray) else self.values[code]


class JobTable(Sequence[Job]):
    """Jobs by their columns. Each becomes a :class:`Job` when it is looked at, and is not kept.

    ::

        JobTable(id=np.arange(3), job_type=Coded(["lm", "resnet"], np.array([0, 1, 1])), weight=np.ones(3))

    A column has the name of a field of :class:`Job`: an array for those that are always numbers (``id``,
    ``total_steps``, ``scale_factor``, ``weight``, ``arrival_s``), and else :class:`Coded`. What has no column has
    the default of :class:`Job`. Arrays are not copied: they are not to change any more.

    Raises :class:`TypeError` for a name that is no field or a column of another form, :class:`ValueError` for
    columns of several lengths or codes that name no value, and :class:`UserError` for a value that no job can
    have, with the job's id.
    """

    def __init__(self, **columns: "NDArray[Any] | Coded") -> None:
        for name, of in columns.items():
            self._check_form(name, of)
        if missing := {"id", "job_type"} - columns.keys():
            raise TypeError(f"a table of jobs needs the column {min(missing)}")
        lengths = {name: len(of) for name, of in columns.items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns of one length are expected, not of {lengths}")
        self._columns: dict[str, NDArray[Any] | Coded] = {
            name: of
            if isinstance(of, Coded)
            else np.asarray(of).astype(DTYPES[name], casting="same_kind", copy=False)
            for name, of in columns.items()
        }
        self._check_values()

    @staticmethod
    def _check_form(name: str, of: object) -> None:
        if name not in {one.name for one in fields(Job)}:
            raise TypeError(f"a job has no field {name!r}; it has {', '.join(one.name for one in fields(Job))}")
        if (name in DTYPES) == isinstance(of, Coded):
            expected = "an array of numbers" if name in DTYPES else "Coded(values, code_J)"
            raise TypeError(f"the column {name} is {type(of).__name__}; {expected} is expected")
        if isinstance(of, Coded) and len(of) and not 0 <= of.code_J.min() <= of.code_J.max() < len(of.values):
            least, most = of.code_J.min(), of.code_J.max()
            raise ValueError(f"the column {name} has codes from {least} to {most}, and {len(of.values)} values")

    def _check_values(self) -> None:
        """What :class:`Job` checks: numbers all at once, and the rest once for each kind of job."""
        steps_J, scale_J, weight_J, arrival_s_J = (self.column(name) for name in list(DTYPES)[1:])
        good_J = (steps_J > 0) & (scale_J >= 1) & (weight_J > 0) & (weight_J < np.inf) & (arrival_s_J >= 0)
        suspect = [int(np.argmin(good_J))] if not good_J.all() else []
        latest = [int(np.argmax(arrival_s_J))] if len(self) else []
        rest = [name for name in self._columns if name not in DTYPES] + ["scale_factor"]
        first_K = np.unique(self.kinds(rest)[0], return_index=True)[1].tolist() if len(self) else []
        for j in (*suspect, *latest, *first_K):
            self[j]

    def __len__(self) -> int:
        return len(self._columns["id"])

    @overload
    def __getitem__(self, place: int) -> Job: ...
    @overload
    def __getitem__(self, place: slice) -> "JobTable": ...
    def __getitem__(self, place: int | slice) -> "Job | JobTable":
        if isinstance(place, slice):
            return JobTable(**{name: of[place] for name, of in self._columns.items()})
        found = {name: of[place] for name, of in self._columns.items()}
        return Job(**{name: value.item() if name in DTYPES else value for name, value in found.items()})

    def __eq__(self, other: object) -> bool:
        """Whether these are the same jobs in the same order."""
        if not isinstance(other, Sequence):
            return NotImplemented
        return self is other or (len(self) == len(other) and all(map(eq, self, other)))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<JobTable of {len(self):,} jobs: {', '.join(self._columns)}>"

    def column(self, name: str) -> NDArray[Any]:
        """The numbers of all jobs in this field, one of :data:`DTYPES`."""
        array = self._columns.get(name)
        return np.broadcast_to(DTYPES[name](DEFAULTS[name]), len(self)) if array is None else np.asarray(array)

    def kinds(self, names: Sequence[str]) -> tuple[Ints, list[tuple[Any, ...]]]:
        """As :func:`kinds`."""
        code_J, keys = np.zeros(len(self), np.int64), list[tuple[Any, ...]]([()])
        for name in names:
            of = self._columns.get(name)
            if of is None:
                keys = [(*key, DEFAULTS[name]) for key in keys]
                continue
            if not isinstance(of, Coded):
                codes_J, values = frames.factorized(of)
                of = Coded(values.tolist(), codes_J)
            code_J, found = frames.factorized(code_J * len(of.values) + of.code_J)
            keys = [(*keys[k // len(of.values)], of.values[k % len(of.values)]) for k in found.tolist()]
        return code_J, keys


def column(jobs: Sequence[Job], name: str) -> NDArray[Any]:
    """The numbers of these jobs in a field, one of :data:`DTYPES`."""
    if isinstance(jobs, JobTable):
        return jobs.column(name)
    return np.fromiter(map(attrgetter(name), jobs), DTYPES[name], len(jobs))


def kinds(jobs: Sequence[Job], *names: str) -> tuple[Ints, list[tuple[Any, ...]]]:
    """A number for each job, equal where all these fields are, and the fields of each number, in order of jobs."""
    if isinstance(jobs, JobTable):
        return jobs.kinds(names)
    return numbered(zip(*(map(attrgetter(name), jobs) for name in names), strict=True), len(jobs))


def numbered(keys: Iterable[K], length: int) -> tuple[Ints, list[K]]:
    """A number for each of so many keys, equal ones alike, and the key of each number, the first to come first."""
    number = dict[K, int]()
    number_N = np.fromiter((number.setdefault(key, len(number)) for key in keys), np.int64, length)
    return number_N, list(number)
