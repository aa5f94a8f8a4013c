"""A measured or estimated speed of one way to run, and its uncertainty."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from gavelx.throughputs import Pairing, Setting

Way = Setting | Pairing
"""A way to run of which a table holds one speed: a job type alone in a setting, or beside a partner."""


@dataclass(frozen=True)
class Measurement:
    """A measured speed: which way to run, for how long, and how exactly.

    * ``steps_per_second`` of the whole job; 0 means that it was tried and cannot run there (out of memory, say);
    * ``relative_error``: standard error over speed; 0 if it was not given;
    * ``seconds``: time over which steps were counted; ``measured_at``: end of that time, in UTC; ``source``:
      origin of the measurement.
    """

    way: Way
    steps_per_second: float
    relative_error: float = 0.0
    seconds: float = 0.0
    measured_at: str = ""
    source: str = ""


class Estimate(NamedTuple):
    """An estimated speed in steps/s: the middle, and the lower and upper end of its interval.

    All three are NaN if it is unknown (``origin`` is ``unknown``), and 0 if the job cannot run there.
    """

    steps_per_second: float
    lower: float
    upper: float
    origin: Literal["measured", "estimated", "unknown"]
