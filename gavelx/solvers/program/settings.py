"""Which solver to use, and how long: settings that hold for every program solved inside ``with using(...)``.

They are no part of a program, so they are not handed down through policies and modifiers: a context variable
holds them. ``limited`` sets what one path of the portfolio may use; every solver asks ``left_s()``.

Time is processor time of the thread that solves. It stands still while other programs have the processor, so a
program that is solved in time on an idle machine is solved on a busy one.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

SolverName = Literal["auto", "highs", "clarabel", "ecos", "scs"]
SOLVERS: tuple[SolverName, ...] = get_args(SolverName)
HighsMethod = Literal["choose", "ipm"]


@dataclass(frozen=True)
class Settings:
    """``auto`` tries what fits the program, in order; any other name is the only solver tried.

    ``first`` is a solver of linear programs and ratios to be asked before ours; its answer passes the same check.
    ``lexicographic``: what the first optimum of a max-min program or of ratios leaves free is shared out as well;
    without it the objective alone is best, for those who want to know no more.
    ``reasons``: a program without an answer is told which constraint is to blame, which takes programs of its own.
    ``budget_s`` is the processor time that one program may take, over all paths that are tried for it.
    """

    solver: SolverName = "auto"
    budget_s: float = 60.0
    first: Callable[[Any], Any] | None = field(default=None, repr=False)
    lexicographic: bool = True
    reasons: bool = True


@dataclass(frozen=True)
class _Limits:
    """``began_s`` is on the wall clock, ``until_s`` in processor time of the thread, ``seconds`` in both."""

    began_s: float = 0.0
    seconds: float = float("inf")
    until_s: float = float("inf")
    method: HighsMethod = "choose"


DEFAULT, UNLIMITED = Settings(), _Limits()
_settings: ContextVar[Settings] = ContextVar("settings", default=DEFAULT)
_limits: ContextVar[_Limits] = ContextVar("limits", default=UNLIMITED)


def settings() -> Settings:
    """The settings in force."""
    return _settings.get()


@contextmanager
def using(chosen: Settings | None = None, **changes: object) -> Iterator[Settings]:
    """``with using(solver="ecos", budget_s=5): ...``, or with settings made before."""
    token = _settings.set(replace(chosen or settings(), **changes))  # type: ignore[arg-type]
    try:
        yield settings()
    finally:
        _settings.reset(token)


@contextmanager
def limited(seconds: float, method: HighsMethod = "choose") -> Iterator[None]:
    """Solvers that run inside stop after so many seconds of processor time; HiGHS works by this method."""
    token = _limits.set(_Limits(time.perf_counter(), seconds, time.thread_time() + seconds, method))
    try:
        yield
    finally:
        _limits.reset(token)


def left_s() -> float:
    """Seconds of processor time that are left to the solver at work; infinite without a limit."""
    return max(0.0, _limits.get().until_s - time.thread_time())


def time_is_up() -> bool:
    """Whether no processor time is left.

    Solvers ask it in every iteration. Until that many seconds have passed on the wall clock, which is cheap to
    read, the thread cannot have used them, and the system need not be asked.
    """
    limits = _limits.get()
    return time.perf_counter() - limits.began_s >= limits.seconds and left_s() == 0.0


def highs_method() -> HighsMethod:
    """How HiGHS is to work: as it chooses (by simplex), or by its interior-point method."""
    return _limits.get().method
