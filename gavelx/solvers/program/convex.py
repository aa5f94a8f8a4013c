"""Programs with parts that only cvxpy understands: the open hatch of the policy language.

A statement is arrays; here it carries expressions of one cvxpy variable besides, the shares of all
configurations. They are valued at any shares like everything else, so the certificate is as honest as elsewhere.

cvxpy is slow to import, so it is loaded when a program needs it.

Legend: C configurations, R rows of an expression.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.program.statement import Affine, Required, Requirement, Statement

if TYPE_CHECKING:
    import cvxpy

Floats = NDArray[np.float64]


def load_cvxpy() -> ModuleType:
    """The module, imported where a program needs it: that takes a second."""
    with overheard():
        import cvxpy  # noqa: PLC0415
    return cast("ModuleType", cvxpy)


@contextmanager
def overheard() -> Iterator[list[warnings.WarningMessage]]:
    """Warnings given inside, as a list; nothing is printed."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        yield heard


@dataclass(frozen=True, eq=False)
class Piece:
    """A cvxpy expression of the shares; ``text`` is the term as its author wrote it."""

    variable: "cvxpy.Variable"
    expression: "cvxpy.Expression"
    text: str

    def __call__(self, share_C: Floats) -> Floats:
        """Its rows at these shares; NaN where it has no value."""
        self.variable.value = share_C
        with np.errstate(all="ignore"):
            value = self.expression.value
        return np.full(1, np.nan) if value is None else np.asarray(value, dtype=float).ravel()

    def tangent(self, share_C: Floats) -> Affine | None:
        """The linear functions that touch it at these shares; None where it has no gradient."""
        value_R = self(share_C)
        shape = (len(share_C), len(value_R))
        with np.errstate(all="ignore"):
            gradient_CR = self.expression.grad.get(self.variable, sparse.csr_array(shape))
        if gradient_CR is None or not np.isfinite(value_R).all():
            return None
        if not sparse.issparse(gradient_CR):  # cvxpy gives a number where there is one share, and one row
            gradient_CR = np.reshape(gradient_CR, shape)
        matrix_RC = sparse.csr_array(sparse.csr_array(gradient_CR).reshape(shape).T)
        rows = "total" if len(value_R) == 1 else "accelerator"
        return Affine(matrix_RC, value_R - matrix_RC @ share_C, rows)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Limit:
    """``more(x) >= less(x)`` in every row, ``more`` concave and ``less`` convex."""

    more: Piece
    less: Piece
    text: str

    def missing(self, share_C: Floats) -> float:
        """How far the shares stay below it, relative to the size of its numbers."""
        more_R, less_R = self.more(share_C), self.less(share_C)
        excess_R = (less_R - more_R) / np.maximum(1.0, np.minimum(np.abs(more_R), np.abs(less_R)))
        return float("inf") if np.isnan(excess_R).any() else float(excess_R.max(initial=0.0))

    def tangent(self, share_C: Floats) -> Requirement | None:
        """A linear requirement that all shares meet which meet this one."""
        more, less = self.more.tangent(share_C), self.less.tangent(share_C)
        if more is None or less is None:
            return None
        return Requirement(more.plus(less.scaled(-1.0)), self.text)


@dataclass(frozen=True, eq=False)
class ConvexStatement(Statement):
    """A stated program whose objective has concave ``pieces`` besides, and which has to keep ``limits`` as well.

    ``variable`` is the shares of all configurations in their expressions.
    """

    variable: "cvxpy.Variable | None" = None
    pieces: tuple[Piece, ...] = ()
    limits: tuple[Limit, ...] = ()

    def objective(self, share_C: Floats) -> float:
        """The objective of these shares, computed from nothing but the statement."""
        return super().objective(share_C) + float(sum(piece(share_C)[0] for piece in self.pieces))

    @property
    def required(self) -> tuple[Required, ...]:
        """Every constraint that its author wrote."""
        return (*self.requirements, *self.limits)
