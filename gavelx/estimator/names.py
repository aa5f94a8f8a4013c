"""Model and batch size, parsed from the name of a job type."""

import math
import re
from typing import NamedTuple

_BATCH = re.compile(
    r"[\s,;/_(\[-]+(?:mini|global|local)?[ _-]?(?:batch(?:[ _-]?size)?|bsz?|mbs?|b)[ =:_-]*(\d+)(?!\w)[)\]]?"
    r"|\s*[(\[](\d+)[)\]]",
    re.IGNORECASE,
)
"""``(batch size 20)``, ``-bs32``, ``_b8``, ``, batch=64`` or ``(32)``."""


class JobName(NamedTuple):
    """``LM (batch size 20)`` is the model ``lm`` at a batch size of 20; NaN if the name has none."""

    model: str
    batch_size: float = math.nan


def read_name(job_type: str) -> JobName:
    """The batch size of a job type, and the model: the rest of its name."""
    found = _BATCH.search(job_type)
    if found is None:
        return JobName(job_type.strip().lower())
    size = float(found[1] or found[2])
    model = job_type[: found.start()] + job_type[found.end() :]
    return JobName(model.strip(" ,;:/_-").lower(), size if size > 0 else math.nan)
