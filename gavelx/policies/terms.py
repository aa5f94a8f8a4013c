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

from gavelx.errors import PolicyError
from gavelx.policies.view import View
from gavelx.solvers.statement import Affine


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
        return linear(self.term, view).total()

    def __repr__(self) -> str:
        return f"Sum({self.term!r})"


class SumThroughput(Linear):
    """Effective throughput of all jobs together, steps/s: sum_j e_j."""

    def linear(self, view: View) -> Affine:
        return view.throughput.total()


@dataclass(frozen=True, repr=False)
class Worst(Term):
    """The least row of a linear term: min_r (term)_r. Concave, so it can be made large but not small."""

    term: Term

    def __repr__(self) -> str:
        return f"Worst({self.term!r})"


class Fractional(Term):
    """A term with one ratio of two linear terms per job; ``Minimize(Largest(...))`` is its place."""

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
    (NSDI'20), section 3; Gavel (OSDI'20), section 4.2.
    """

    def numerator(self, view: View) -> Affine:
        return view.throughput.scaled(view.elapsed_s_J).shifted(view.steps_left_J)

    def denominator(self, view: View) -> Affine:
        speed_J = view.equal_share_throughput_J
        alone_s_J = np.divide(view.steps_left_J, speed_J, out=np.zeros(view.J), where=speed_J > 0)
        return view.throughput.scaled(view.equal_share_s_J + alone_s_J)


@dataclass(frozen=True, repr=False)
class Largest(Term):
    """The largest ratio of a fractional term: max_j (term)_j. It can be minimised, alone."""

    term: Fractional

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
    raise PolicyError(
        "it is not linear, so it cannot stand here",
        where=repr(term),
        hint="Worst(...) only as a summand with a positive factor of Maximize(...)",
    )


def _term(value: Term | float) -> Term:
    return value if isinstance(value, Term) else Number(float(value))
