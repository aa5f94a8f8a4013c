"""The one place that says with how many threads estimators compute: one.

Their matrices have a few hundred rows. Threads of a linear algebra library would wait for each other, and take ten
times the processor time.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import scipy.linalg  # noqa: F401  # its library must be loaded: a limit holds only for those that are
from threadpoolctl import threadpool_limits

P = ParamSpec("P")
R = TypeVar("R")


def one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function use one thread for linear algebra."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with threadpool_limits(1):
            return function(*args, **kwargs)

    return limited
