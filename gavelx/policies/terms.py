"""Terms: the words that objectives and constraints are made of.

A linear term states one row per job, per accelerator type, or a single total; `Sum` and `Worst` bring rows down
to one number. Terms add, subtract, scale, and compare into constraints::

    Worst(NormalizedThroughput()) - 0.01 * Cost()
    NormalizedThroughput() >= 0.9

To write your own, give a class one method, ``linear(view)``, that returns an expression of the view
(:class:`gavelx.policies.view.View`) or one made from it.

Legend: J jobs, A accelerator types, C configurations.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gavelx.authors import blamed, is_ours, look_at_answer
from gavelx.errors import PolicyError, ProgramError
from gavelx.policies.view import View
from gavelx.solvers.program.statement import Affine

Floats = NDArray[np.float64]


class Term:
    """Anything that can stand in an objective or a constraint."""

    __array_ufunc__ = None  # an array times a term is the term's to refuse

    def __add__(self, other: "Term | float") -> "Term":
        return Plus(self, _term(other, f"{self!r} + {other!r}"))

    def __radd__(self, other: float) -> "Term":
        return Plus(_term(other, f"{other!r} + {self!r}"), self)

    def __sub__(self, other: "Term | float") -> "Term":
        return Plus(self, -1.0 * _term(other, f"{self!r} - {other!r}"))

    def __rsub__(self, other: float) -> "Term":
        return Plus(_term(other, f"{other!r} - {self!r}"), -1.0 * self)

    def __mul__(self, factor: float) -> "Term":
        where = f"{self!r} * {factor!r}"
        if isinstance(factor, Term):
            raise PolicyError("a product of terms is not linear", where=where, expected="a number times a term")
        return Times(finite(factor, where), self)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> "Term":
        where = f"{self!r} / {divisor!r}"
        if isinstance(divisor, Term):
            raise _ratio(self, divisor)
        if not (number := finite(divisor, where)):
            raise PolicyError("a division by 0", where=where, expected="a number that is not 0")
        return Times(1.0 / number, self)

    def __rtruediv__(self, dividend: float) -> "Term":
        raise _ratio(dividend, self)

    def __pow__(self, power: float) -> "Term":
        hint = "a Convex term, such as cvxpy.square(view.throughput)"
        raise PolicyError("a power of a term is not linear", where=f"{self!r} ** {power!r}", hint=hint)

    def __neg__(self) -> "Term":
        return Times(-1.0, self)

    def __ge__(self, bound: "Term | float") -> "Constraint":
        return Constraint(self, ">=", _term(bound, f"{self!r} >= {bound!r}"))

    def __le__(self, bound: "Term | float") -> "Constraint":
        return Constraint(self, "<=", _term(bound, f"{self!r} <= {bound!r}"))

    def __gt__(self, bound: "Term | float") -> "Constraint":
        raise _strict(self, ">", bound)

    def __lt__(self, bound: "Term | float") -> "Constraint":
        raise _strict(self, "<", bound)

    def __eq__(self, other: object) -> "Equality":  # type: ignore[override]
        return Equality(self, other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


@dataclass(frozen=True, eq=False)
class Equality:
    """What ``term == number`` gives, for an error message to quote; true where both sides are one object."""

    left: Term
    right: object

    def __bool__(self) -> bool:
        return self.left is self.right

    def __repr__(self) -> str:
        return f"{self.left!r} == {self.right!r}"


class Linear(Term):
    """A term that is linear in the shares; subclasses say how in :meth:`linear`."""

    @abstractmethod
    def linear(self, view: View) -> Affine:
        """The term's rows on this snapshot."""


class Throughput(Linear):
    """Effective throughput of each job, steps/s: e_j = sum_c T_jc x_c (Gavel, OSDI'20, section 3.1)."""

    def linear(self, view: View) -> Affine:
        return view.throughput


class NormalizedThroughput(Linear):
    """Effective throughput of each job against its proportional slice, s_j e_j / (p_j e_j(proportional)).

    1 is what a single-device job of weight 1 gets from W_a / sum W of every type (Gavel, OSDI'20, section 4.1).
    """

    def linear(self, view: View) -> Affine:
        return view.normalized_throughput


class TimeShare(Linear):
    """Share of time in which each job runs: sum_c x_c, at most 1."""

    def linear(self, view: View) -> Affine:
        return view.time_share


class Devices(Linear):
    """Devices in use of each accelerator type, averaged over time: sum_c devices_ac x_c."""

    def linear(self, view: View) -> Affine:
        return view.devices


class Cost(Linear):
    """Dollars per hour of all devices in use: sum_c price_c x_c."""

    def linear(self, view: View) -> Affine:
        return view.usd_per_hour


@dataclass(frozen=True, eq=False, repr=False)
class Sum(Linear):
    """The sum over all rows of a linear term."""

    term: Term

    def linear(self, view: View) -> Affine:
        if isinstance(self.term, Log):
            raise PolicyError("it is concave, so it cannot stand here", where=repr(self), hint="Maximize(...)")
        return linear(self.term, view).total()

    def __repr__(self) -> str:
        return f"Sum({self.term!r})"


class SumThroughput(Linear):
    """Effective throughput of all jobs together, steps/s: sum_j e_j."""

    def linear(self, view: View) -> Affine:
        return view.throughput.total()


class ThroughputPerDollar(Linear):
    """Steps/s of each job per dollar/hour of one device: sum_c T_jc x_c / price_c (Gavel, OSDI'20, section 4.2).

    A gang's steps are divided by the price of one of its devices, as published.
    """

    def linear(self, view: View) -> Affine:
        return view.throughput_per_dollar


class NeededThroughput(Linear):
    """Steps/s with which each job just meets its deadline, steps left / time left; 0 without a deadline.

    Raises :class:`ProgramError` for a deadline that has passed.
    """

    def linear(self, view: View) -> Affine:
        for job, needed in zip(view.snapshot.jobs, view.needed_throughput_J, strict=True):
            if np.isinf(needed):
                raise ProgramError(
                    f"the deadline of job {job.id} has passed", where="NeededThroughput()", hint="min_cost_slo"
                )
        return view.throughput.scaled(0.0).shifted(view.needed_throughput_J)


@dataclass(frozen=True, eq=False, repr=False)
class Log(Term):
    """Logarithm of each row of a linear term, counted by priority, p_j log(term)_j; used as ``Sum(Log(...))``.

    Concave, so the sum can be made large but not small. Jobs that can run nowhere are left out.
    """

    term: Term

    def __repr__(self) -> str:
        return f"Log({self.term!r})"


@dataclass(frozen=True, eq=False, repr=False)
class Worst(Term):
    """The least row of a linear term: min_r (term)_r. Concave, so it can be made large but not small."""

    term: Term

    def __repr__(self) -> str:
        return f"Worst({self.term!r})"


class Fractional(Term):
    """A term with one ratio of two linear terms per job, for ``Minimize(Largest(...))`` or ``... <= number``."""

    @abstractmethod
    def numerator(self, view: View) -> Affine:
        """The upper part of each job's ratio."""

    @abstractmethod
    def denominator(self, view: View) -> Affine:
        """The lower part; never negative."""


class TimeLeft(Fractional):
    """Seconds until each job completes if the shares stay as they are: steps left / e_j."""

    def numerator(self, view: View) -> Affine:
        return view.throughput.scaled(0.0).shifted(view.steps_left_J)

    def denominator(self, view: View) -> Affine:
        return view.throughput


class FinishTimeRatio(Fractional):
    """rho of each job: its completion time under these shares over that under an equal share of the cluster.

    rho_j = (a_j + r_j / e_j) / (D_j + r_j / e_j(equal share)), where a is the time since arrival, r the steps
    left, and D the time that an equal share would have taken for the steps done so far. Source: Themis
    (NSDI'20), section 3; Gavel (OSDI'20), section 4.2. It is stated over e_j, as the published program is: where
    that ends among optima depends on units.
    """

    def numerator(self, view: View) -> Affine:
        return _time_left(view, view.throughput, self.equal_share_s(view))

    def denominator(self, view: View) -> Affine:
        return view.throughput

    def equal_share_s(self, view: View) -> Floats:
        """Seconds from arrival to completion with an equal share: D_j + r_j / e_j(equal share)."""
        speed_J = view.equal_share_throughput_J
        alone_s_J = np.divide(view.steps_left_J, speed_J, out=np.zeros(view.J), where=speed_J > 0)
        return view.equal_share_s_J + alone_s_J


class CostRatio(Fractional):
    """mu of each job: its dollars under these shares over its dollars with an equal share of the cluster.

    mu_j = (spent_j + r_j (price.x)_j / e_j) / (K_j + r_j (price.z)_j / e_j(z)), where r is the steps left,
    (price.x)_j the dollars per second of what the job holds, spent its dollars so far, K those that equal shares
    would have cost for the steps done, and z an equal share. Where the price of a device that was held, or
    would have been, was not known, the past counts on neither side. Our form of the measure of shared-cloud cost
    fairness: the thesis has no price in what is still to pay.
    """

    def numerator(self, view: View) -> Affine:
        hours_J = view.steps_left_J / 3600.0
        spent_usd_J = np.where(view.priced_past_J, view.spent_usd_J, 0.0)
        return view.throughput.scaled(spent_usd_J).plus(view.usd_per_hour_of_job.scaled(hours_J))

    def denominator(self, view: View) -> Affine:
        speed_J, usd_J = view.equal_share_throughput_J, view.equal_share_usd_per_hour_J / 3600.0
        hourly_J = np.divide(view.steps_left_J * usd_J, speed_J, out=np.zeros(view.J), where=speed_J > 0)
        past_usd_J = np.where(view.priced_past_J, view.equal_share_usd_J, 0.0)
        return view.throughput.scaled(past_usd_J + hourly_J)


class ThesisCostRatio(Fractional):
    """The ratio of Algorithm 5.1 as printed: finish-time fairness with throughput per dollar for throughput.

    (a_j + r_j / e'_j) / (K_j + r_j / e'_j(z)), e'_j = sum_a T_ja x_ja / price_a, a the seconds since arrival, z an
    equal share, and K = D_j e_j(z) / e'_j(z) what the steps done would have taken so, D being the time with an
    equal share. It adds seconds to dollars, and dollars counted so are right only for a job that uses one type
    (see ``CostRatio``). K is the published sum over the steps as long as devices and prices stay what they are.
    """

    def numerator(self, view: View) -> Affine:
        worth_J = view.with_equal_share(1.0 / view.divisor_usd_A)
        steps_J = view.equal_share_s_J * view.equal_share_throughput_J + view.steps_left_J
        alone_J = np.divide(steps_J, worth_J, out=np.zeros(view.J), where=worth_J > 0)
        return _time_left(view, view.throughput_per_dollar, alone_J)

    def denominator(self, view: View) -> Affine:
        return view.throughput_per_dollar


def _time_left(view: View, speed: Affine, alone_J: Floats) -> Affine:
    """``(a speed + r) / alone``: over the speed, the time to completion beside that of being alone."""
    per_J = np.divide(1.0, alone_J, out=np.zeros(view.J), where=alone_J > 0)
    return speed.scaled(view.elapsed_s_J * per_J).shifted(view.steps_left_J * per_J)


@dataclass(frozen=True, eq=False, repr=False)
class Largest(Term):
    """The largest ratio of a fractional term: max_j (term)_j. It can be minimised, alone."""

    term: Fractional

    def __post_init__(self) -> None:
        if not isinstance(self.term, Fractional):
            raise PolicyError(
                f"{self.term!r} is no ratio",
                where=repr(self),
                expected="TimeLeft(), FinishTimeRatio(), CostRatio()",
            )

    def __repr__(self) -> str:
        return f"Largest({self.term!r})"


@dataclass(frozen=True, eq=False, repr=False)
class Number(Linear):
    """A plain number."""

    value: float

    def linear(self, view: View) -> Affine:
        return view.nothing.shifted(self.value)

    def __repr__(self) -> str:
        return digits(self.value)


@dataclass(frozen=True, eq=False, repr=False)
class Plus(Linear):
    """The sum of two terms, row by row; a total is added to every row."""

    left: Term
    right: Term

    def linear(self, view: View) -> Affine:
        left, right = linear(self.left, view), linear(self.right, view)
        if left.rows != right.rows and "total" not in (left.rows, right.rows):
            raise PolicyError(
                f"it has one row per {left.rows} on the left and one per {right.rows} on the right",
                where=repr(self),
                hint=f"Sum({self.left!r})",
            )
        return left.plus(right)

    def __repr__(self) -> str:
        right = repr(self.right)
        return f"{self.left!r} - {right[1:]}" if right.startswith("-") else f"{self.left!r} + {right}"


@dataclass(frozen=True, eq=False, repr=False)
class Times(Linear):
    """A term times a number."""

    factor: float
    term: Term

    def linear(self, view: View) -> Affine:
        return linear(self.term, view).scaled(self.factor)

    def __repr__(self) -> str:
        inner = f"({self.term!r})" if isinstance(self.term, Plus) else repr(self.term)
        if self.factor == -1.0:
            return f"-{inner}"
        return f"{digits(self.factor)} * {inner}"


@dataclass(frozen=True, eq=False, repr=False)
class Constraint:
    """A comparison of terms that must hold, in every row."""

    left: Term
    sense: str
    right: Term

    def __repr__(self) -> str:
        return f"{self.left!r} {self.sense} {self.right!r}"

    def __bool__(self) -> bool:
        raise PolicyError("a constraint is not true or false", where=repr(self), hint="two constraints in a list")

    def __and__(self, other: object) -> "Constraint":
        where, hint = f"{self!r} & {other!r}", f"[{self!r}, {other!r}]"
        raise PolicyError("constraints come in a list", where=where, hint=hint)


def linear(term: Term, view: View) -> Affine:
    """The rows of a term that must be linear here. Raises :class:`PolicyError` naming it otherwise."""
    if isinstance(term, Linear):
        return stated(term, "linear", view)
    if not isinstance(term, Term):
        raise no_term(term)
    raise PolicyError("it is not linear, so it cannot stand here", where=repr(term), hint=_instead(term))


def stated(term: Term, method: Literal["linear", "numerator", "denominator"], view: View) -> Affine:
    """What a term states on a snapshot.

    Raises :class:`PolicyError` where an author's term fails or states something that cannot be used. It names the
    term, what was wrong, and the author's line.
    """
    if is_ours(term):
        return getattr(term, method)(view)  # type: ignore[no-any-return]
    where, call = repr(term), f"{method}()"
    with blamed(where, call, getattr(term, method)) as heard:
        rows = getattr(term, method)(view)
    look = look_at_answer(getattr(term, method), heard)
    if not isinstance(rows, Affine):
        problem, hint = f"{call} returned {_thing(rows)}", f"{_expressed(rows)}; {look}"
        raise PolicyError(problem, where=where, expected="an expression of the view", hint=hint)
    if problem := _fault(rows, view) or (_negative(rows, view) if method == "denominator" else ""):
        raise PolicyError(f"{call} returned {problem}", where=where, hint=look)
    return rows


def no_term(value: object) -> PolicyError:
    """What to say of something that stands where a term is needed."""
    if isinstance(value, type) and issubclass(value, Term):
        return PolicyError(f"{value.__name__} is no term without brackets", hint=f"{value.__name__}()")
    return PolicyError(f"{value!r} is no term", expected="a term with rows, such as Throughput()")


def _fault(rows: Affine, view: View) -> str:
    """What is wrong with an author's expression, if anything."""
    names = _row_names(rows.rows, view)
    C, R = len(view.snapshot.configurations), len(names)
    factor_R = np.ones(R) if rows.factor_R is None else rows.factor_R
    if rows.base_RC.shape != (R, C) or rows.constant_R.shape != (R,) or factor_R.shape != (R,):
        seen = f"{rows.base_RC.shape[0]} rows over {rows.base_RC.shape[1]} configurations"
        return f"{seen}, where there are {R} rows (one per {rows.rows}) over {C}"
    wrong_R = ~(np.isfinite(rows.constant_R) & np.isfinite(factor_R))
    wrong_R[rows.base_RC.tocoo().row[~np.isfinite(rows.base_RC.data)]] = True
    return f"a number that is not finite, for {names[int(wrong_R.argmax())]}" if wrong_R.any() else ""


def _negative(rows: Affine, view: View) -> str:
    """Which row of a denominator may be negative, if any."""
    least_R = rows.matrix_RC.min(axis=1).toarray().ravel() if rows.base_RC.nnz else np.zeros(len(rows.constant_R))
    wrong_R = np.minimum(least_R, rows.constant_R) < 0
    names = _row_names(rows.rows, view)
    return f"what may be negative, for {names[int(wrong_R.argmax())]}" if wrong_R.any() else ""


def _row_names(kind: str, view: View) -> list[str]:
    if kind == "job":
        return [f"job {job.id}" for job in view.snapshot.jobs]
    return [f"type {name}" for name in view.snapshot.accelerators] if kind == "accelerator" else ["the total"]


def _expressed(value: object) -> str:
    """How to return this as an expression."""
    if isinstance(value, Term):
        return "view.throughput for Throughput(); or gavelx.policies.terms.linear(term, view)"
    if isinstance(value, np.ndarray | float | int):
        return "view.throughput.scaled(0.0).shifted(numbers), plain numbers as an expression"
    return "return view.throughput.scaled(...), or another expression of the view"


def _thing(value: object) -> str:
    """What something is, for a message."""
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with shape {value.shape}"
    return f"the term {value!r}" if isinstance(value, Term) else f"a {type(value).__name__}"


def _term(value: Term | float, where: str) -> Term:
    if isinstance(value, type) and issubclass(value, Term):
        raise no_term(value)
    return value if isinstance(value, Term) else Number(finite(value, where))


def digits(value: float) -> str:
    """A number with as few digits as it can be read from again.

    >>> digits(40.0), digits(1234567.5), digits(0.1)
    ('40', '1234567.5', '0.1')
    """
    return text if float(text := f"{value:g}") == value else repr(float(value))


def finite(value: object, where: str) -> float:
    """A finite number. Raises :class:`PolicyError`; ``where`` is the formula that it stands in."""
    expected = "a finite number"
    if isinstance(value, np.ndarray):
        hint = "a Linear term of your own, with view.throughput.scaled(array)"
        raise PolicyError(_thing(value), where=where, expected=expected, hint=hint)
    if isinstance(value, Constraint | Equality):
        raise PolicyError(f"{value!r} is a constraint, not a term", where=where, expected=expected)
    try:
        number = float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise PolicyError(f"{value!r:.60} is no finite number", where=f"{where:.100}", expected=expected)
    return number


def _ratio(above: object, below: object) -> PolicyError:
    problem, hint = "a ratio of terms is not linear", f"as a constraint, {above!r} >= 3 * {below!r}"
    if not isinstance(above, Term):
        problem, hint = "a number over a term is not linear", f"as a constraint, {below!r} >= {above!r}"
    ratios = "a ratio for each job is made small by Minimize(Largest(TimeLeft())), for instance"
    return PolicyError(problem, where=f"{above!r} / {below!r}", hint=f"{hint}; {ratios}")


def _strict(left: Term, sense: str, right: object) -> PolicyError:
    problem, hint = f"there is no constraint with {sense}: shares are real numbers", f"{left!r} {sense}= {right!r}"
    return PolicyError(problem, where=f"{left!r} {sense} {right!r}", hint=hint)


def _instead(term: Term) -> str:
    """Where a term that is not linear can stand."""
    if isinstance(term, Log):
        return f"Maximize(Sum({term!r}))"
    if isinstance(term, Largest):
        return f"Minimize({term!r}), alone; as a constraint, {term.term!r} <= a number"
    if isinstance(term, Fractional):
        return f"Minimize(Largest({term!r})); as a constraint, {term!r} <= a number"
    if isinstance(term, Worst):
        return f"{term!r} in Maximize(...), with a positive factor; as a constraint, {term.term!r} >= a number"
    return "a term of the built-in words, or a subclass of Linear"
