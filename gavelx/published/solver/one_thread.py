"""One thread of BLAS for many small matrices: others would only wait, at full speed.

The number of threads is of the whole process, so it is set when the first of those who want this comes, and as
it was when the last one goes, whatever threads of Python they come from.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


class _Guests:
    """Who wants one thread at present, and what restores the number that there was."""

    def __init__(self) -> None:
        self.lock, self.count = Lock(), 0
        self.limit: Any = None

    def come(self) -> None:
        with self.lock:
            self.count += 1
            if self.count == 1:
                self.limit = _libraries().limit(limits=1)

    def go(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                self.limit.restore_original_limits()


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


_guests = _Guests()


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it, or in a function with it as a decorator, numerical libraries use a single thread."""
    _guests.come()
    try:
        yield
    finally:
        _guests.go()
