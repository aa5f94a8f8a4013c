"""Arrays that can only be read: policies and terms of others see them.

One that is changed in place would be another for all who read it afterwards: the next term of the same program, or
the check of the answer.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

Value = TypeVar("Value")


class Fixed:
    """An object whose arrays stay read-only in another process: numpy does not send that along."""

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for value in state.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
        vars(self).update(state)


class fixed_property(cached_property[Value]):  # noqa: N801  (a decorator, as cached_property is)
    """``cached_property`` of an array that can only be read."""

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Value:  # type: ignore[override]
        value = super().__get__(instance, owner)
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
        return value
