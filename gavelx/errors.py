"""Exceptions. There are three kinds of failure.

A *user's mistake* is a :class:`UserError`: it names the place (file, row, column, option or term), the value seen,
the value expected and what to try. The command line prints it as one message; the exit status is 2.

*Our own failure* is a :class:`SolverError` (no solver reached a certified answer) or an assertion (a broken
invariant): exit status 1.

A *worker dying* is neither: it is an event, and the mechanism has an answer for it.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class GavelxError(Exception):
    """The root of every exception that gavelx raises on purpose."""


class UserError(GavelxError):
    """An input of the user cannot be used.

    ``where`` names the file, row and column, the option or the term; ``problem`` says what was seen;
    ``expected`` what would be right; ``hint`` what to try.
    """

    def __init__(self, problem: str, *, where: str = "", expected: str = "", hint: str = "") -> None:
        self.problem, self.where, self.expected, self.hint = problem, where, expected, hint
        super().__init__(self.message())

    def message(self) -> str:
        """The one line that a user reads."""
        text = f"{self.where}: {self.problem}" if self.where else self.problem
        if self.expected:
            text += f"; expected {self.expected}"
        if self.hint:
            text += f"{'' if text.endswith('?') else '.'} Try: {self.hint}"
        return text


class InputFileError(UserError):
    """A file is missing, unreadable, or has contents that cannot be used."""


class OptionError(UserError):
    """The value of a command-line option cannot be used."""


class PolicyError(UserError):
    """A policy cannot be found, loaded or stated."""


class ProgramError(PolicyError):
    """A user's program has no solution (infeasible, unbounded, not convex); ``where`` names the term."""


class WorkloadError(UserError):
    """Jobs and cluster do not fit: a job that can run nowhere, or a type without known throughputs."""


class SharesError(AssertionError):
    """Shares that are not a feasible allocation; ``problem`` and ``expected`` say why.

    The code that computed them is wrong. It is an assertion, because that code may be ours.
    """

    def __init__(self, problem: str, expected: str) -> None:
        self.problem, self.expected = problem, expected
        super().__init__(problem, expected)

    def __str__(self) -> str:
        return f"{self.problem}; expected {self.expected}"


class SolverError(GavelxError):
    """No solver reached an answer that passes its check. This is our failure, not the user's."""


LISTED_MOST, LISTED_FEW = 8, 4
"""Lists of names that are longer than this are cut to the nearest few."""


def did_you_mean(word: str, known: Iterable[str], listed_by: str = "") -> str:
    """``did you mean 'fifo'?``; if no known word is near, :func:`one_of` them.

    >>> did_you_mean("fifoo", ["fifo", "isolated"])
    "did you mean 'fifo'?"
    """
    known = list(known)
    near = get_close_matches(word, known, n=2, cutoff=0.5)
    if near:
        return "did you mean " + " or ".join(repr(name) for name in near) + "?"
    return one_of(known, listed_by, word)


def one_of(known: Iterable[str], listed_by: str = "", word: str = "") -> str:
    """All known words; of many, those nearest to ``word``, how many there are, and the command that lists them.

    >>> one_of(["fifo", "isolated"]), one_of(map(str, range(1000)), "gavelx numbers", "999.5")
    ('one of fifo, isolated', 'one of 999, 995, 99, 95, ... (1,000 in all: gavelx numbers)')
    """
    known = list(dict.fromkeys(known))
    if len(known) <= LISTED_MOST:
        return "one of " + ", ".join(known)
    shown = get_close_matches(word, known, n=LISTED_FEW, cutoff=0.3) or known[:LISTED_FEW]
    listed = f": {listed_by}" if listed_by else ""
    return f"one of {', '.join(shown)}, ... ({len(known):,} in all{listed})"
