"""A stated program: what a policy asks for, as arrays that every solver reads.

Policies are written in terms (`gavelx.policies.terms`); a statement is what remains of them on one snapshot::

    maximise    sum_i weight_i * min_r (worst_i(x))_r  +  linear(x)
    subject to  requirement(x) >= 0                     for every requirement
                sum_{c of j} x_c <= 1                   a job is in one configuration at a time
                sum_c devices_ac x_c <= W_a             no type is oversubscribed
                x_c >= 0, and x_c = 0 where a member of c cannot run

Legend: J jobs, A accelerator types, C configurations, R rows of one affine expression.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.snapshot import Snapshot

Floats = NDArray[np.float64]
RowKind = Literal["job", "accelerator", "total"]


@dataclass(frozen=True, eq=False)
class Affine:
    """Linear functions of the shares, one a row: ``matrix_RC @ x_C + constant_R``.

    ``rows`` says what a row stands for: a job, an accelerator type, or the whole cluster (then there is one).
    """

    matrix_RC: sparse.csr_array
    constant_R: Floats
    rows: RowKind

    def __call__(self, share_C: Floats) -> Floats:
        return np.asarray(self.matrix_RC @ share_C + self.constant_R)

    def scaled(self, factor_R: Floats | float) -> "Affine":
        """Every row times its factor."""
        factor_R = np.broadcast_to(np.asarray(factor_R, dtype=float), self.constant_R.shape)
        matrix_RC = sparse.csr_array(sparse.diags_array(factor_R) @ self.matrix_RC)
        return Affine(matrix_RC, self.constant_R * factor_R, self.rows)

    def plus(self, other: "Affine") -> "Affine":
        """Row by row sum; a total is added to each row of the other."""
        a, b = (self, other) if self.rows != "total" else (other, self)
        if b.rows == "total" and a.rows != "total":
            ones_R1 = sparse.csr_array(np.ones((len(a.constant_R), 1)))
            b = Affine(sparse.csr_array(ones_R1 @ b.matrix_RC), b.constant_R.repeat(len(a.constant_R)), a.rows)
        assert a.rows == b.rows, (a.rows, b.rows)
        return Affine(sparse.csr_array(a.matrix_RC + b.matrix_RC), a.constant_R + b.constant_R, a.rows)

    def shifted(self, constant: Floats | float) -> "Affine":
        """Every row plus a number."""
        return Affine(self.matrix_RC, self.constant_R + constant, self.rows)

    def where(self, keep_R: NDArray[np.bool_]) -> "Affine":
        """The rows to keep; the others become zero."""
        return self.scaled(np.where(keep_R, 1.0, 0.0))

    def total(self) -> "Affine":
        """The sum of all rows, as one row."""
        row_1C = sparse.csr_array(np.asarray(self.matrix_RC.sum(axis=0)).reshape(1, -1))
        return Affine(row_1C, np.array([self.constant_R.sum()]), "total")


@dataclass(frozen=True, eq=False)
class Requirement:
    """``affine(x) >= 0`` in every row; ``text`` is the constraint as its author wrote it."""

    affine: Affine
    text: str


@dataclass(frozen=True, eq=False)
class Worst:
    """``weight`` times the least row of ``affine(x)``."""

    weight: float
    affine: Affine


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

    def objective(self, share_C: Floats) -> float:
        """The objective of these shares, computed from nothing but the statement."""
        worst = sum(part.weight * float(part.affine(share_C).min(initial=np.inf)) for part in self.worst)
        return float(worst + self.linear(share_C)[0])

    @property
    def affines(self) -> tuple[Affine, ...]:
        """Every affine expression of the program."""
        return (
            *(part.affine for part in self.worst),
            self.linear,
            *(requirement.affine for requirement in self.requirements),
        )


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

    @cached_property
    def finite_R(self) -> NDArray[np.bool_]:
        """The rows that can be given a finite ratio."""
        usable_C = self.snapshot.usable_C.astype(float)
        return np.asarray(self.denominator.matrix_RC @ usable_C + self.denominator.constant_R > 0)
