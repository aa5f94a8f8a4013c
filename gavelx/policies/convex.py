"""The open hatch: a term that returns any cvxpy expression.

    class Evenness(Convex):
        \"\"\"How even the throughputs are: the mean root of the normalised ones.\"\"\"

        def expression(self, view):
            return cvxpy.sum(cvxpy.sqrt(view.normalized_throughput)) / view.J

    Maximize(Evenness() - 0.01 * Cost(), [Evenness() >= 0.5])

It adds, scales and compares with the built-in terms. It must be concave where it is made large (or must not be
too small), and convex where it is made small; what is linear is both, and better written as a `Linear` term, which
is solved faster. Needs the extra ``gavelx[convex]``.

Legend: C configurations.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np
from scipy import sparse

from gavelx.authors import blamed, look_at_answer
from gavelx.errors import PolicyError, ProgramError
from gavelx.policies.terms import Constraint, Plus, Sum, Term, Times, Worst, linear
from gavelx.policies.view import View
from gavelx.solvers.program.convex import Limit, Piece, load_cvxpy, overheard
from gavelx.solvers.program.statement import Affine

RULES = "compose it of cvxpy's atoms, such as cvxpy.inv_pos(y) for 1 / y and cvxpy.square(y) for y * y"


class Convex(Term):
    """A term that is a cvxpy expression of the shares; subclasses say which in :meth:`expression`."""

    @abstractmethod
    def expression(self, view: "ConvexView") -> Any:
        """A cvxpy expression: one number for an objective; any number of rows for a constraint.

        Of as many rows as there are jobs, ``Worst(...)`` leaves out those of jobs that can run nowhere.
        """


class ConvexView:
    """What :class:`~gavelx.policies.view.View` offers, its expressions as cvxpy's, one row per job or type.

    ``share`` is the variable itself, one row for each configuration. Totals (``usd_per_hour``) are one number.
    """

    def __init__(self, view: View, cvxpy: ModuleType) -> None:
        self.plain, self.cvxpy = view, cvxpy

    @cached_property
    def share(self) -> Any:
        return self.cvxpy.Variable(len(self.plain.snapshot.configurations), nonneg=True)

    def __getattr__(self, name: str) -> Any:
        words = sorted(word for word in {*vars(View), "snapshot"} if not word.startswith("_"))
        if name not in words:
            raise AttributeError(f"the view has no {name!r}; it has {', '.join([*words, 'share'])}")
        value = getattr(self.plain, name)
        return self.of(value) if isinstance(value, Affine) else value

    def of(self, affine: Affine) -> Any:
        """A linear expression as cvxpy has it."""
        rows = affine.matrix_RC @ self.share + affine.constant_R
        return rows[0] if affine.rows == "total" else rows


def is_convex(term: Term) -> bool:
    """Whether a term, or a part of it, is only known to cvxpy."""
    parts = (part for part in vars(term).values() if isinstance(part, Term))
    return isinstance(term, Convex) or any(is_convex(part) for part in parts)


class Hatch:
    """Turns the terms of one program into pieces and limits of one cvxpy variable."""

    def __init__(self, view: View, where: str) -> None:
        self.where = where
        self.view = ConvexView(view, load_cvxpy())

    def piece(self, factor: float, term: Term) -> Piece:
        """``factor`` times a term, to be made large. Raises :class:`PolicyError` unless that is concave."""
        expression = self._of(term)
        if expression.size != 1:
            problem = f"{term!r} has shape {expression.shape}; an objective is one number"
            raise PolicyError(problem, where=self.where, hint=f"Sum({term!r}) or Worst({term!r})")
        needed = "concave" if factor > 0 else "convex"
        self._check(expression, needed, term, f"to be made {'large' if factor > 0 else 'small'}")
        whole = factor * self.view.cvxpy.sum(expression)
        return Piece(self.view.share, whole, repr(term if abs(factor) == 1.0 else Times(abs(factor), term)))

    def limit(self, constraint: Constraint) -> Limit:
        """A constraint of which some part is cvxpy's. Raises :class:`PolicyError` unless it is convex."""
        more, less = constraint.left, constraint.right
        if constraint.sense == "<=":
            more, less = less, more
        sides: list[Piece] = []
        for term, needed, purpose in ((more, "concave", "the larger side"), (less, "convex", "the smaller side")):
            expression = self._of(term)
            self._check(expression, needed, term, f"as {purpose} of {constraint!r}")
            sides.append(Piece(self.view.share, expression, repr(term)))
        self._fitting(lambda: sides[0].expression >= sides[1].expression, constraint)
        return Limit(sides[0], sides[1], repr(constraint))

    def _check(self, expression: Any, needed: str, term: Term, purpose: str) -> None:
        if expression.is_concave() if needed == "concave" else expression.is_convex():
            return
        seen, hint = f"neither convex nor concave by cvxpy's rules ({expression.curvature.lower()})", RULES
        if expression.is_convex():
            seen, hint = "convex", "turn it round: it can be made small, or kept below a limit"
        elif expression.is_concave():
            seen, hint = "concave", "turn it round: it can be made large, or kept above a limit"
        raise ProgramError(
            f"{term!r} is {seen}",
            where=self.where,
            expected=f"a {needed} term {purpose}",
            hint=hint,
        )

    def _of(self, term: Term) -> Any:
        """The cvxpy expression of a term."""
        expression: Any
        match term:
            case Convex():
                expression = self._own(term)
            case Sum():
                expression = self.view.cvxpy.sum(self._of(term.term))
            case Worst():
                expression = self.view.cvxpy.min(self._of_those_that_run(self._of(term.term)))
            case Times():
                expression = term.factor * self._of(term.term)
            case Plus():
                expression = self._fitting(lambda: self._of(term.left) + self._of(term.right), term)
            case _:
                expression = self.view.of(linear(term, self.view.plain))
        return expression

    def _of_those_that_run(self, expression: Any) -> Any:
        """The rows of jobs that can run, where there is one for each job and some of them can."""
        runs_J = self.view.plain.snapshot.runs_J
        if expression.size != len(runs_J) or runs_J.all() or not runs_J.any():
            return expression
        return expression[np.flatnonzero(runs_J)]

    def _fitting(self, make: Callable[[], Any], where: Term | Constraint) -> Any:
        try:
            return make()
        except ValueError as error:
            problem = f"its two sides do not fit: {' '.join(str(error).split())}"
            raise PolicyError(problem, where=repr(where), expected="one number, or as many rows") from error

    def _own(self, term: Convex) -> Any:
        """What the author's code returns, if it can be used."""
        call = blamed(repr(term), "expression()", term.expression)
        with call as heard, overheard(), np.errstate(all="ignore"):
            expression = term.expression(self.view)
        return self._usable(expression, term, look_at_answer(term.expression, heard))

    def _usable(self, expression: Any, term: Convex, hint: str) -> Any:
        """The expression with its rows in one column. Raises :class:`PolicyError` naming the term."""
        cvxpy = self.view.cvxpy
        if (
            isinstance(expression, int | float | np.number | np.ndarray)
            and np.asarray(expression).dtype.kind in "iuf"
        ):
            expression = cvxpy.Constant(expression)
        if isinstance(expression, Affine):
            expression = self.view.of(expression)
        problem, expected = "", "a cvxpy expression of the view's words"
        if not isinstance(expression, cvxpy.Expression):
            problem = f"a {type(expression).__name__}"
        elif any(variable is not self.view.share for variable in expression.variables()):
            problem = "an expression with variables of its own"
        elif any(parameter.value is None for parameter in expression.parameters()):
            problem, expected = "an expression with a parameter that has no value", "a number in place of it"
        elif not expression.is_real():
            problem, expected = "complex numbers", "real ones"
        elif expression.size != max(expression.shape, default=1) or not expression.size:
            problem, expected = f"rows of shape {expression.shape}", "one number, or one column of them"
        elif not all(_finite(constant.value) for constant in expression.constants()):
            problem, expected = "an expression with a number in it that is not finite", "finite numbers"
        if problem:
            problem = f"expression() returned {problem}"
            raise PolicyError(problem, where=repr(term), expected=expected, hint=hint)
        return cvxpy.vec(expression, order="F") if len(expression.shape) > 1 else expression


def _finite(value: Any) -> bool:
    return bool(np.isfinite(value.data if sparse.issparse(value) else np.asarray(value, dtype=float)).all())
