"""Spelling of job types: case, blanks and punctuation do not matter, and "batch size" may be "bs".

>>> meant("resnet18-bs32", ["ResNet-18 (batch size 16)", "ResNet-18 (batch size 32)"])
'ResNet-18 (batch size 32)'
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cache, lru_cache
from itertools import takewhile

from gavelx.errors import did_you_mean
from gavelx.jobs import Job

_BATCH_SIZE = re.compile(r"batch[\W_]*size")
_PARTS = re.compile(r"\d+|[^\W\d_]")


@lru_cache(maxsize=10_000)
def key(name: str) -> tuple[str, ...]:
    """The key of a name, equal for all its spellings: its words, and its numbers as a whole.

    >>> key("LM (batch size 5)") == key("lm-bs5"), key("gpt-2 7") == key("gpt-27")
    (True, False)
    """
    return tuple(_PARTS.findall(_BATCH_SIZE.sub("bs", name.casefold())))


def meant(text: str, known: Collection[str]) -> str | None:
    """The known name that a user means: the same text, or else the only one with the same key; None if neither."""
    if text in known:
        return text
    same = _same(text, known)
    return same[0] if len(same) == 1 else None


def as_spelled(jobs: Iterable[Job], known: Collection[str]) -> tuple[Job, ...]:
    """The same jobs with their types spelled as in ``known``; a type that matches none stays as it is."""
    name_of = cache(lambda text: meant(text, known) or text)
    return tuple(
        job if (name := name_of(job.job_type)) == job.job_type else replace(job, job_type=name) for job in jobs
    )


def nearest(text: str, known: Collection[str]) -> str:
    """``did you mean ...?``, for a text that matches no name, or several."""
    near = close(text, known)
    return (
        did_you_mean(text, known, "gavelx throughputs show")
        if not near
        else "did you mean " + " or ".join(map(repr, near)) + "?"
    )


def close(text: str, known: Collection[str]) -> list[str]:
    """The names that are spelled nearly as a text, those that begin most alike first.

    >>> close("resnet19", ["A3C", "ResNet-50", "ResNet-18"]), close("mine", ["A3C", "ResNet-18"])
    (['ResNet-18', 'ResNet-50'], [])
    """
    if near := _same(text, known):
        return near
    keys: dict[Sequence[str], str] = {key(name): name for name in known}
    alike = get_close_matches(key(text), list(keys), n=len(keys) or 1, cutoff=0.6)
    alike.sort(key=lambda one: -_alike_from_start(key(text), one))
    return [keys[one] for one in alike[:2]]


def _alike_from_start(*two: Sequence[str]) -> int:
    """How many characters of two keys are the same before the first that differs."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(*map("".join, two), strict=False))))


def _same(text: str, known: Collection[str]) -> list[str]:
    wanted = key(text[:200])
    return [name for name in known if key(name) == wanted] if wanted else []
