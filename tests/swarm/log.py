"""The log of a run: one line for each event and each command, the same for the same seed to the byte."""

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from gavelx.allocation import Allocation
from gavelx.snapshot import Snapshot


def line(time_s: float, what: Any) -> str:
    """An event or a command, in words."""
    return f"{time_s!r} {words(what)}"


def words(what: Any) -> str:
    """Every field of it; of a snapshot the jobs and their steps, of an allocation its shares."""
    match what:
        case Snapshot():
            steps = zip(what.jobs, what.steps_left_J.tolist(), strict=True)
            return words({job.id: steps_left for job, steps_left in steps})
        case Allocation():
            promises = what.promises()
            how = promises.configurations
            columns = (how.job, how.partner, how.type, how.devices, how.batch, promises.share_P)
            return words(list(zip(*(column.tolist() for column in columns), strict=True)))
        case np.ndarray():
            return repr(what.tolist())
        case dict():
            return "{" + ", ".join(f"{key!r}: {words(value)}" for key, value in what.items()) + "}"
        case tuple() | list():
            return "(" + ", ".join(words(one) for one in what) + ")"
    named = fields(what) if is_dataclass(what) else ()
    values = (f"{field.name}={words(getattr(what, field.name))}" for field in named)
    return f"{type(what).__name__}({', '.join(values)})" if named else repr(what)
