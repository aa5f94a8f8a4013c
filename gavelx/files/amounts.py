"""Named amounts in one word: ``checkpoint=10,restart=30``."""

import math
from collections.abc import Mapping

from gavelx.errors import OptionError, did_you_mean
from gavelx.files.csvs import NUMBER
from gavelx.files.texts import shown


def read_amounts(spec: str, highest: Mapping[str, float], *, where: str, form: str) -> dict[str, float]:
    """Read named amounts from ``spec``, each from 0 to the ``highest`` of its name.

    ``where`` is the option and ``form`` an example of it. Raises :class:`OptionError`.

    >>> read_amounts("restart=30", {"checkpoint": 100, "restart": 100}, where="--overheads", form="restart=9")
    {'restart': 30.0}
    """
    amounts: dict[str, float] = {}
    for part in spec.split(","):
        name, equals, text = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise OptionError(f"cannot read {shown(part)}", where=where, expected="NAME=NUMBER", hint=form)
        if name not in highest:
            raise OptionError(f"{shown(name)} is not known", where=where, hint=did_you_mean(name, highest))
        if name in amounts:
            raise OptionError(f"{name!r} is there twice", where=where, hint=form)
        amount = float(text) if NUMBER.fullmatch(text) else math.nan
        if not 0.0 <= amount <= highest[name]:
            expected = f"a number from 0 to {highest[name]:g}"
            raise OptionError(f"{shown(part.strip())} cannot be used", where=where, expected=expected, hint=form)
        amounts[name] = amount
    return amounts
