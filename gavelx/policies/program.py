"""Programs: policies that are an objective and constraints.

    Maximize(Worst(NormalizedThroughput()))
    Maximize(SumThroughput() - 2.0 * Cost(), [NormalizedThroughput() >= 0.9, Cost() <= 40])

Legend: J jobs, C configurations.
"""

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import fields

import numpy as np

from gavelx.allocation import Allocation
from gavelx.errors import PolicyError, ProgramError
from gavelx.policies import terms
from gavelx.policies.base import Floats, Policy
from gavelx.policies.convex import Hatch, is_convex
from gavelx.policies.terms import (
    Constraint,
    Equality,
    Fractional,
    Largest,
    Log,
    Number,
    Plus,
    Sum,
    Term,
    Times,
    Worst,
    linear,
    no_term,
)
from gavelx.policies.view import View
from gavelx.snapshot import Kind, Snapshot
from gavelx.solvers import RatioStatement, Statement, solve
from gavelx.solvers.program import statement as stated
from gavelx.solvers.program.convex import ConvexStatement

NAMED = 5
"""Jobs that a note names, of very many."""


class Maximize(Policy):
    """Give the shares that make ``objective`` largest among those that meet all ``constraints``.

    The objective is a sum of linear terms, of ``Worst(...)`` and ``Sum(Log(...))`` with positive factors, and of
    ``Convex`` terms.
    ``Maximize(Worst(...))`` alone is solved lexicographically: when the worst-off job cannot be helped, the next
    is, and so on. A job that can run nowhere is left out of the worst, of logarithms and of ratios, and
    ``allocation.notes`` names it.
    Raises :class:`ProgramError` where no allocation meets the constraints.
    """

    sign = 1.0
    uses = frozenset[Kind]({"pairs", "placements", "sizes", "mixes"})

    def __init__(self, objective: Term, constraints: Sequence[Constraint] = ()) -> None:
        form = f"{type(self).__name__}(...)"
        if not isinstance(objective, Term):
            hint = no_term(objective).hint or "Worst(NormalizedThroughput())"
            raise PolicyError(f"{objective!r} is no term", where=form, hint=hint)
        self.objective, self.constraints = objective, _listed(constraints, form)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        allocation = solve(self.state(snapshot))
        own = [term for _, term in _summands(self.objective, self.sign) if is_convex(term)]
        nowhere = _nowhere(snapshot, left_out=all(isinstance(term, Worst) for term in own))
        return allocation.with_notes([nowhere]) if nowhere else allocation

    def state(self, snapshot: Snapshot) -> Statement | RatioStatement:
        """The program on this snapshot, as arrays."""
        view = View(snapshot)
        total, worst, logs = Number(0.0).linear(view), [], []
        summands = _summands(self.objective, self.sign)
        for factor, term in summands:
            if is_convex(term):
                continue
            if isinstance(term, Worst):
                worst.append(stated.Worst(self._concave(factor, term), _of_those_that_run(term, view)))
            elif isinstance(term, Sum) and isinstance(term.term, Log):
                affine = linear(term.term.term, view)
                logs.append(_logs(self._concave(factor, term), affine, view, where=repr(term)))
            else:
                total = total.plus(self._single(linear(term, view), term).scaled(factor))
        requirements = self._requirements(view)
        statement = Statement(snapshot, tuple(worst), total, requirements, repr(self), self.sign, tuple(logs))
        return self._with_convex(statement, summands, view)

    def gain(self, snapshot: Snapshot, share_C: Floats) -> float | None:
        """The objective, or its negative where it is to be small."""
        statement = self.state(snapshot)
        objective = statement.objective(share_C)
        return -objective if isinstance(statement, RatioStatement) else objective

    def constrained(self, constraints: Sequence[Constraint]) -> "Maximize":
        """The same program with further constraints, which may break what it promised without them."""
        other = copy(self)
        further = _listed(constraints, "with_constraints(...)")
        Maximize.__init__(other, self.objective, (*self.constraints, *further))
        other.name, other.promises = "", ()
        return other

    def _with_convex(
        self, statement: Statement, summands: list[tuple[float, Term]], view: View
    ) -> Statement | ConvexStatement:
        """The statement with the terms that only cvxpy understands."""
        own = [(factor, term) for factor, term in summands if is_convex(term)]
        limits = [c for c in self.constraints if is_convex(c.left) or is_convex(c.right)]
        if not (own or limits) or not statement.snapshot.runs_J.any():
            return statement
        hatch = Hatch(view, where=repr(self))
        return ConvexStatement(
            **{field.name: getattr(statement, field.name) for field in fields(Statement)},
            variable=hatch.view.share,
            pieces=tuple(hatch.piece(factor, term) for factor, term in own),
            limits=tuple(hatch.limit(constraint) for constraint in limits),
        )

    def _requirements(self, view: View) -> tuple[stated.Requirement, ...]:
        return tuple(
            stated.Requirement(_gain(constraint, view), repr(constraint))
            for constraint in self.constraints
            if not (is_convex(constraint.left) or is_convex(constraint.right))
        )

    def _concave(self, factor: float, term: Term) -> float:
        if factor <= 0:
            raise PolicyError(f"{term!r} is concave: it can only be made large, not small", where=repr(self))
        return factor

    def _single(self, affine: stated.Affine, term: Term) -> stated.Affine:
        if affine.rows != "total":
            raise PolicyError(
                f"{term!r} has one row per {affine.rows}; an objective is one number",
                where=repr(self),
                hint=f"Sum({term!r}) or Worst({term!r})",
            )
        return affine

    def __repr__(self) -> str:
        constraints = f", {list(self.constraints)!r}" if self.constraints else ""
        form = "Maximize" if self.sign > 0 else "Minimize"
        return f"{form}({self.objective!r}{constraints})"


class Minimize(Maximize):
    """Give the shares that make ``objective`` smallest among those that meet all ``constraints``.

    The objective is linear, or ``Largest(...)`` of a fractional term. With the latter, once the largest ratio
    cannot be made smaller, ``then=Worst(...)`` says what the rest is for; without it, rows that could do better
    than the largest ratio do so as far as possible.
    """

    sign = -1.0

    def __init__(self, objective: Term, constraints: Sequence[Constraint] = (), then: Worst | None = None) -> None:
        super().__init__(objective, constraints)
        if not (then is None or isinstance(then, Worst)):
            raise PolicyError(f"then={then!r} cannot be used", where=repr(objective), expected="then=Worst(...)")
        if then is not None and not isinstance(objective, Largest):
            problem = f"then={then!r} is for what Largest(...) leaves free"
            raise PolicyError(problem, where=repr(objective), hint="Minimize(Largest(...), then=Worst(...))")
        self.then = then

    def state(self, snapshot: Snapshot) -> Statement | RatioStatement:
        if not isinstance(self.objective, Largest):
            return super().state(snapshot)
        for constraint in self.constraints:
            if is_convex(constraint.left) or is_convex(constraint.right):
                problem = (
                    f"{constraint!r} cannot stand beside {self.objective!r}, which takes linear constraints only"
                )
                raise PolicyError(problem, where=repr(self), hint="a constraint made of the built-in terms")
        view = View(snapshot)
        return RatioStatement(
            snapshot,
            numerator=terms.stated(self.objective.term, "numerator", view),
            denominator=terms.stated(self.objective.term, "denominator", view),
            requirements=self._requirements(view),
            text=repr(self),
            then=None if self.then is None else _of_those_that_run(self.then, view),
        )

    def __repr__(self) -> str:
        return super().__repr__() if self.then is None else f"{super().__repr__()[:-1]}, then={self.then!r})"


def _listed(constraints: Iterable[Constraint], where: str) -> tuple[Constraint, ...]:
    """The constraints. Raises :class:`PolicyError` for what is none, or no list."""
    if isinstance(constraints, Constraint) or not isinstance(constraints, Iterable):
        hint = f"[{constraints!r}]" if isinstance(constraints, Constraint) else "[Cost() <= 40]"
        raise PolicyError("constraints come in a list", where=where, hint=hint)
    listed = tuple(constraints)
    for constraint in listed:
        if not isinstance(constraint, Constraint):
            raise PolicyError(f"{constraint!r} is no constraint", where=where, hint=_constrained(constraint))
    return listed


def _constrained(wrong: object) -> str:
    """What to try instead of something that is no constraint."""
    if isinstance(wrong, Equality):
        sides = (f"{wrong.left!r} {sense} {wrong.right!r}" for sense in ("<=", ">="))
        return f"[{', '.join(sides)}]; an equality is two constraints"
    if isinstance(wrong, bool):  # an equality, where an author's term is a dataclass
        return "[Cost() <= 40]; instead of ==, two constraints with <= and >="
    return "[Cost() <= 40]"


def _nowhere(snapshot: Snapshot, *, left_out: bool) -> str:
    """Which jobs can run nowhere, in words, and that they are ``left_out``; nothing if all can run."""
    match ids := [snapshot.jobs[j].id for j in np.flatnonzero(~snapshot.runs_J).tolist()]:
        case []:
            return ""
        case [one]:
            return f"job {one} can run nowhere{', and is left out' if left_out else ''}"
    more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
    listed = f"jobs {', '.join(map(str, ids[:NAMED]))}{more}"
    return f"{listed} can run nowhere{', and are left out' if left_out else ''}"


def _of_those_that_run(worst: Worst, view: View) -> stated.Affine:
    """The rows of a worst; that of a job that can run nowhere is the most that any job can get, and binds none."""
    affine, runs_J = linear(worst.term, view), view.snapshot.runs_J
    if affine.rows != "job" or runs_J.all() or not runs_J.any():
        return affine
    most_J = affine.matrix_RC.maximum(0) @ view.snapshot.usable_C.astype(float) + affine.constant_R
    return affine.where(runs_J).shifted(np.where(runs_J, 0.0, most_J[runs_J].max()))


def _summands(term: Term, factor: float) -> list[tuple[float, Term]]:
    """The objective as a list of factor and term."""
    if isinstance(term, Plus):
        return _summands(term.left, factor) + _summands(term.right, factor)
    if isinstance(term, Times):
        return _summands(term.term, factor * term.factor)
    return [(factor, term)]


def _gain(constraint: Constraint, view: View) -> stated.Affine:
    """The constraint as an expression that must not be negative."""
    more, less = (constraint.left, constraint.right)
    if constraint.sense == "<=":
        more, less = less, more
    if isinstance(less, Fractional) and isinstance(more, Number):
        below, above = terms.stated(less, "denominator", view), terms.stated(less, "numerator", view)
        finite_R = below.matrix_RC @ view.snapshot.usable_C.astype(float) + below.constant_R > 0
        return below.scaled(more.value).plus(above.scaled(-1.0)).scaled(finite_R.astype(float))
    return Plus(more, -1.0 * less).linear(view)


def _logs(factor: float, affine: stated.Affine, view: View, where: str) -> stated.Logs:
    """Logarithms of rows, counted by priority.

    Those of jobs that can run nowhere do not count, nor those that are 0 whatever the shares are. Raises
    :class:`ProgramError` for another that no shares make positive.
    """
    per_job, matrix_RC = affine.rows == "job", affine.matrix_RC
    reach_R = matrix_RC.maximum(0) @ view.snapshot.usable_C.astype(float) + affine.constant_R
    wanted_R = abs(matrix_RC).sum(axis=1) + abs(affine.constant_R) > 0
    if per_job:
        wanted_R &= view.runs_J
    if (wrong_R := wanted_R & (reach_R <= 0)).any():
        row = int(wrong_R.argmax())
        whose = f" for job {view.snapshot.jobs[row].id}" if per_job else ""
        problem = f"it is the logarithm of nothing or less{whose}, whatever the shares are"
        raise ProgramError(problem, where=where, expected="a term that can be positive")
    weight_R = view.weight_J if per_job else np.ones(len(reach_R))
    return stated.Logs(np.where(wanted_R & (reach_R > 0), factor * weight_R, 0.0), affine)
