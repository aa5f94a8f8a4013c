"""Model and batch size, parsed from the name of a job type."""

import math
import re
from typing import NamedTuple

_WORD = (
    r"(?:mini|micro|global|local|total|train|per[ _-]?(?:device|gpu))?[ _-]?(?:batch(?:[ _-]?size)?|bsz?|bz|mbs?)"
)
_BATCH = re.compile(
    rf"[\s,;:/@|._(\[-]+(?:{_WORD}|b)[ =:_-]*(\d+)(?!\w)[)\]]?"  # (batch size 20), -bs32, _b8, batch=64
    rf"|[\s,;:/@|._(\[-]+(\d+)[ _-]?{_WORD}(?!\w)[)\]]?"  # 64bs, batch behind its size
    rf"|^{_WORD}[ =:_-]*(\d+)(?!\d)[\s,;:/@|._-]+"  # bs64-resnet50
    r"|\s*[(\[](\d+)[)\]]"  # (32)
    r"|\s*@\s*(\d+)(?!\w)",  # resnet50@32
    re.IGNORECASE,
)
_ENDS = " ,;:/@|._-"


class JobName(NamedTuple):
    """``LM (batch size 20)`` is the model ``lm`` at a batch size of 20; NaN if the name has none."""

    model: str
    batch_size: float = math.nan


def read_name(job_type: str) -> JobName:
    """The batch size of a job type, and the model: the rest, the same for ``ResNet-50`` and ``resnet50``."""
    found = _BATCH.search(job_type)
    if found is None:
        return JobName(_model(job_type))
    size = float(next(filter(None, found.groups())))
    before, after = job_type[: found.start()].rstrip(_ENDS), job_type[found.end() :].lstrip(_ENDS)
    return JobName(_model(f"{before} {after}"), size if size > 0 else math.nan)


def _model(name: str) -> str:
    """The name in lower case, its words joined by hyphens; a number belongs to the word before it."""
    words = re.sub(r"[\s_-]+", "-", name.strip(_ENDS).lower())
    return re.sub(r"(?<=[a-z])-(?=\d)", "", words)
