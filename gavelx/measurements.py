"""What was measured, and what is believed: one speed in one way to run, and how sure it is."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from gavelx.throughputs import Pairing, Setting

Way = Setting | Pairing
"""A way to run of which a table holds one speed: a job type alone in a setting, or beside a partner."""


@dataclass(frozen=True)
class Measurement:
    """So many steps/s were seen: where, for how long, how exactly.

    * ``steps_per_second`` of the whole job; 0 says that it was tried and cannot run there (out of memory, say);
    * ``relative_error``: the standard error of it, relative to it; 0 where nobody said;
    * ``seconds``: how long steps were counted; ``measured_at``: when that ended, in UTC; ``source``: whose it is.
    """

    way: Way
    steps_per_second: float
    relative_error: float = 0.0
    seconds: float = 0.0
    measured_at: str = ""
    source: str = ""


class Estimate(NamedTuple):
    """What is believed about a speed, in steps/s: the middle, and an interval that holds it as often as it says.

    All three are NaN where nothing can be said (``origin`` is ``unknown``), and 0 where it cannot run.
    """

    steps_per_second: float
    lower: float
    upper: float
    origin: Literal["measured", "estimated", "unknown"]
