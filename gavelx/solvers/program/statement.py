"""A stated program: what a policy asks for, as arrays that every solver reads.

Policies are written in terms (`gavelx.policies.terms`); a statement is what remains of them on one snapshot::

    maximise    sum_i weight_i * min_r (worst_i(x))_r  +  linear(x)  +  sum_r weight_r log (logs(x))_r
    subject to  requirement(x) >= 0                     for every requirement
                sum_{c of j} x_c <= 1                   a job is in one configuration at a time
                sum_c devices_ac x_c <= W_a             no type is oversubscribed
                x_c >= 0, and x_c = 0 where a member of c cannot run

Legend: J jobs, A accelerator types, C configurations, R rows of one affine expression.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.snapshot import Snapshot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
RowKind = Literal["job", "accelerator", "total"]


@dataclass(frozen=True, eq=False)
class Affine:
    """Linear functions of the shares, one a row: ``factor_R * (base_RC @ x_C) + constant_R``.

    ``rows`` says what a row stands for: a job, an accelerator type, or the whole cluster (then there is one).
    """

    base_RC: sparse.csr_array
    constant_R: Floats
    rows: RowKind
    factor_R: Floats | None = None

    def __call__(self, share_C: Floats) -> Floats:
        if not self.base_RC.nnz:
            return self.constant_R
        value_R = np.asarray(self.base_RC @ share_C)
        return (value_R if self.factor_R is None else value_R * self.factor_R) + self.constant_R

    @cached_property
    def matrix_RC(self) -> sparse.csr_array:
        """The coefficients, with the factors in them."""
        return self.base_RC if self.factor_R is None else _scaled(self.base_RC, self.factor_R)

    def of_rows(self, row_S: Ints) -> "Affine":
        """Just these rows."""
        factor_S = None if self.factor_R is None else self.factor_R[row_S]
        return Affine(self.base_RC[row_S], self.constant_R[row_S], self.rows, factor_S)

    def scaled(self, factor_R: Floats | float) -> "Affine":
        """Every row times its factor. Raises :class:`ValueError` unless there is one, or one for each row."""
        factor_R = self._per_row(factor_R, "scaled()")
        scaled_R = factor_R if self.factor_R is None else self.factor_R * factor_R
        constant_R = self.constant_R * factor_R if self.constant_R.any() else self.constant_R
        return Affine(self.base_RC, constant_R, self.rows, scaled_R)

    def plus(self, other: "Affine") -> "Affine":
        """Row by row sum; a total is added to each row of the other.

        Raises :class:`TypeError` for plain numbers, and :class:`ValueError` where rows stand for other things.
        """
        if not isinstance(other, Affine):
            raise TypeError(f"plus() takes an expression, not {other!r:.60}; shifted() adds plain numbers")
        if self.base_RC is other.base_RC and self.rows == other.rows:
            one_R = np.ones(len(self.constant_R))
            factor_R = (self.factor_R if self.factor_R is not None else one_R) + (
                other.factor_R if other.factor_R is not None else one_R
            )
            return Affine(self.base_RC, self.constant_R + other.constant_R, self.rows, factor_R)
        a, b = (self, other) if self.rows != "total" else (other, self)
        if b.rows == "total" and not b.base_RC.nnz:
            return a.shifted(b.constant_R[0])
        if b.rows == "total" and a.rows != "total":
            ones_R1 = sparse.csr_array(np.ones((len(a.constant_R), 1)))
            b = Affine(sparse.csr_array(ones_R1 @ b.matrix_RC), b.constant_R.repeat(len(a.constant_R)), a.rows)
        if a.rows != b.rows:
            raise ValueError(f"plus() of one row per {a.rows} and one per {b.rows}; total() makes one of all rows")
        return Affine(sparse.csr_array(a.matrix_RC + b.matrix_RC), a.constant_R + b.constant_R, a.rows)

    def shifted(self, constant: Floats | float) -> "Affine":
        """Every row plus a number. Raises :class:`ValueError` unless there is one, or one for each row."""
        constant_R = self.constant_R + self._per_row(constant, "shifted()")
        return Affine(self.base_RC, constant_R, self.rows, self.factor_R)

    def where(self, keep_R: NDArray[np.bool_]) -> "Affine":
        """The rows to keep; the others become zero. Raises :class:`ValueError` unless there is a word on each."""
        return self.scaled(np.where(self._per_row(keep_R, "where()"), 1.0, 0.0))

    def _per_row(self, value: Floats | NDArray[np.bool_] | float, call: str) -> Floats:
        """One number for each row."""
        try:
            return np.broadcast_to(np.asarray(value, dtype=float), self.constant_R.shape)
        except (TypeError, ValueError):
            R = len(self.constant_R)
            wanted = f"one number, or {R} (one per {self.rows})" if self.rows != "total" else "one number"
            seen = f"shape {value.shape}" if isinstance(value, np.ndarray) else f"{value!r:.60}"
            raise ValueError(f"{call} takes {wanted}; it got {seen}") from None

    def total(self) -> "Affine":
        """The sum of all rows, as one row."""
        row_1C = sparse.csr_array(np.asarray(self.matrix_RC.sum(axis=0)).reshape(1, -1))
        return Affine(row_1C, np.array([self.constant_R.sum()]), "total")


@dataclass(frozen=True, eq=False)
class Requirement:
    """``affine(x) >= 0`` in every row; ``text`` is the constraint as its author wrote it."""

    affine: Affine
    text: str

    def missing(self, share_C: Floats) -> float:
        """How far the shares stay below it, relative to the size of its numbers."""
        scale_R = np.maximum(1.0, np.abs(self.affine.constant_R))
        return float((-self.affine(share_C) / scale_R).max(initial=0.0))


class Required(Protocol):
    """A constraint of any kind."""

    @property
    def text(self) -> str:
        """The constraint as its author wrote it."""

    def missing(self, share_C: Floats) -> float:
        """How far the shares stay below it, relative to the size of its numbers."""


class Rates(Protocol):
    """At which rates the rows of a ``Worst`` rise together, which may change when some can rise no further."""

    label_J: Ints
    """Jobs with different labels are not alike for these rates, however alike they are otherwise."""

    def __call__(self, rising_R: NDArray[np.bool_], job_R: Ints, count_R: Ints) -> Floats:
        """The rate of each row, 0 or more; row r stands for ``count_R`` jobs like job ``job_R``."""


@dataclass(frozen=True, eq=False)
class Worst:
    """``weight`` times the least row of ``affine(x)``; with ``rates``, the least row over its first rate."""

    weight: float
    affine: Affine
    rates: Rates | None = None

    def __call__(self, share_C: Floats) -> float:
        value_R = self.affine(share_C)
        if self.rates is not None and len(value_R):
            R = len(value_R)
            rate_R = self.rates(np.ones(R, dtype=bool), np.arange(R), np.ones(R, dtype=np.int64))
            value_R = value_R[rate_R > 0] / rate_R[rate_R > 0]
        return self.weight * float(value_R.min(initial=np.inf))


@dataclass(frozen=True, eq=False)
class Logs:
    """The sum of ``weight_R`` times the logarithms of the rows of ``affine(x)``; rows of weight 0 are left out."""

    weight_R: Floats
    affine: Affine

    def __call__(self, share_C: Floats) -> float:
        counts_R = self.weight_R > 0
        value_R = np.maximum(self.affine(share_C)[counts_R], np.finfo(float).tiny)
        return float((self.weight_R[counts_R] * np.log(value_R)).sum())


@dataclass(frozen=True, eq=False)
class Statement:
    """A program on a snapshot; ``text`` is the policy as its author wrote it.

    A minimisation is stated as the maximisation of its negative; ``sign`` is then -1, and turns objectives and
    bounds back into what the author asked for.
    """

    snapshot: Snapshot
    worst: tuple[Worst, ...]
    linear: Affine
    requirements: tuple[Requirement, ...]
    text: str
    sign: float = 1.0
    logs: tuple[Logs, ...] = ()

    def objective(self, share_C: Floats) -> float:
        """The objective of these shares, computed from nothing but the statement."""
        worst, logs = sum(part(share_C) for part in self.worst), sum(part(share_C) for part in self.logs)
        return float(worst + logs + self.linear(share_C)[0])

    @property
    def required(self) -> tuple[Required, ...]:
        """Every constraint that its author wrote."""
        return self.requirements

    @property
    def affines(self) -> tuple[Affine, ...]:
        """Every affine expression of the program."""
        return (
            *(part.affine for part in self.worst),
            *(part.affine for part in self.logs),
            self.linear,
            *(requirement.affine for requirement in self.requirements),
        )

    @property
    def labels(self) -> tuple[Ints | Floats, ...]:
        """What else tells jobs apart, one number a job."""
        rates = (part.rates.label_J for part in self.worst if part.rates is not None)
        return (*rates, *(part.weight_R for part in self.logs if part.affine.rows == "job"))


@dataclass(frozen=True, eq=False)
class RatioStatement:
    """Minimise the largest of ``numerator_r(x) / denominator_r(x)`` under the same constraints.

    At that level, ``then`` is made as large as possible in its least row, lexicographically; without it, what each
    row has beyond its need at the level, relative to the need.

    Denominators are never negative. A row whose denominator is 0 whatever the shares are (a job that can run
    nowhere) has no finite ratio; it is left out.
    """

    snapshot: Snapshot
    numerator: Affine
    denominator: Affine
    requirements: tuple[Requirement, ...]
    text: str
    then: Affine | None = None

    def objective(self, share_C: Floats) -> float:
        """The largest ratio under these shares, computed from nothing but the statement."""
        top_R, bottom_R = self.numerator(share_C), self.denominator(share_C)
        ratio_R = np.divide(top_R, bottom_R, out=np.full(len(top_R), np.inf), where=bottom_R > 0)
        return float(ratio_R[self.finite_R].max(initial=0.0))

    @property
    def required(self) -> tuple[Required, ...]:
        """Every constraint that its author wrote."""
        return self.requirements

    @cached_property
    def finite_R(self) -> NDArray[np.bool_]:
        """The rows that can be given a finite ratio."""
        usable_C = self.snapshot.usable_C.astype(float)
        return np.asarray(self.denominator.matrix_RC @ usable_C + self.denominator.constant_R > 0)


def _scaled(matrix_RC: sparse.csr_array, factor_R: Floats) -> sparse.csr_array:
    """Every row times its factor. Nothing is shared with the original, for scipy sorts indices in place."""
    scaled_RC = matrix_RC.copy()
    scaled_RC.data *= factor_R.repeat(np.diff(matrix_RC.indptr))
    return scaled_RC
