"""Terms: the words that objectives and constraints are made of.

A linear term states one row per job, per accelerator type, or a single total; `Sum` and `Worst` bring rows down
to one number. Terms add, subtract, scale, and compare into constraints::

    Worst(NormalizedThroughput()) - 0.01 * Cost()
    NormalizedThroughput() >= 0.9

To write your own, give a class one method, ``linear(view)``, that returns an expression of the view
(:class:`gavelx.policies.view.View`) or one made from it.

Legend: J jobs, A accelerator types, C configurations.
"""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gavelx.errors import PolicyError, ProgramError
from gavelx.policies.view import View
from gavelx.solvers.statement import Affine

Floats = NDArray[np.float64]


class Term:
    """Anything that can stand in an objective or a constraint."""

    def __add__(self, other: "Term | float") -> "Term":
        return Plus(self, _term(other))

    def __radd__(self, other: float) -> "Term":
        return Plus(_term(other), self)

    def __sub__(self, other: "Term | float") -> "Term":
        return Plus(self, -1.0 * _term(other))

    def __rsub__(self, other: float) -> "Term":
        return Plus(_term(other), -1.0 * self)

    def __mul__(self, factor: float) -> "Term":
        if isinstance(factor, Term):
            raise PolicyError(
                "a product of terms is not linear",
                where=f"{self!r} * {factor!r}",
                expected="a number times a term",
            )
        return Times(float(factor), self)

    __rmul__ = __mul__

    def __neg__(self) -> "Term":
        return Times(-1.0, self)

    def __ge__(self, bound: "Term | float") -> "Constraint":
        return Constraint(self, ">=", _term(bound))

    def __le__(self, bound: "Term | float") -> "Constraint":
        return Constraint(self, "<=", _term(bound))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


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


@dataclass(frozen=True, repr=False)
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


@dataclass(frozen=True, repr=False)
class Log(Term):
    """Logarithm of each row of a linear term, counted by priority, p_j log(term)_j; used as ``Sum(Log(...))``.

    Concave, so the sum can be made large but not small. Jobs that can run nowhere are left out.
    """

    term: Term

    def __repr__(self) -> str:
        return f"Log({self.term!r})"


@dataclass(frozen=True, repr=False)
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
        worth_J = view.with_equal_share(1.0 / view.usd_per_hour_A)
        steps_J = view.equal_share_s_J * view.equal_share_throughput_J + view.steps_left_J
        alone_J = np.divide(steps_J, worth_J, out=np.zeros(view.J), where=worth_J > 0)
        return _time_left(view, view.throughput_per_dollar, alone_J)

    def denominator(self, view: View) -> Affine:
        return view.throughput_per_dollar


def _time_left(view: View, speed: Affine, alone_J: Floats) -> Affine:
    """``(a speed + r) / alone``: over the speed, the time to completion beside that of being alone."""
    per_J = np.divide(1.0, alone_J, out=np.zeros(view.J), where=alone_J > 0)
    return speed.scaled(view.elapsed_s_J * per_J).shifted(view.steps_left_J * per_J)


@dataclass(frozen=True, repr=False)
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


@dataclass(frozen=True, repr=False)
class Number(Linear):
    """A plain number."""

    value: float

    def linear(self, view: View) -> Affine:
        return view.nothing.shifted(self.value)

    def __repr__(self) -> str:
        return f"{self.value:g}"


@dataclass(frozen=True, repr=False)
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


@dataclass(frozen=True, repr=False)
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
        return f"{self.factor:g} * {inner}"


@dataclass(frozen=True, repr=False)
class Constraint:
    """A comparison of terms that must hold, in every row."""

    left: Term
    sense: str
    right: Term

    def __repr__(self) -> str:
        return f"{self.left!r} {self.sense} {self.right!r}"

    def __bool__(self) -> bool:
        raise PolicyError("a constraint is not true or false", where=repr(self), hint="two constraints in a list")


def linear(term: Term, view: View) -> Affine:
    """The rows of a term that must be linear here. Raises :class:`PolicyError` naming it otherwise."""
    if isinstance(term, Linear):
        return term.linear(view)
    if not isinstance(term, Term):
        raise PolicyError(f"{term!r} is no term", expected="a term with rows, such as Throughput()")
    raise PolicyError("it is not linear, so it cannot stand here", where=repr(term), hint=_instead(term))


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


def _term(value: Term | float) -> Term:
    return value if isinstance(value, Term) else Number(float(value))
