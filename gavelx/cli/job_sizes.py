"""The sizes of a job, as typed after ``submit``: ``--workers 1:8``, ``--parts 8 --mixed``, ``--batch 64:512``."""

import re

from gavelx.elastic import Elastic
from gavelx.errors import OptionError, UserError

_RANGE = re.compile(r"(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?")


def job_sizes(workers: str, batch: str = "", parts: int = 0, *, mixed: bool = False) -> tuple[int, Elastic | None]:
    """The devices of a job as submitted, and the other sizes in which it may run, if any.

    ``LEAST:MOST`` begins with what is submitted, ``LEAST:SUBMITTED:MOST`` says it. A job in parts is elastic even
    on one number of devices: its bits are those of its parts. Raises :class:`OptionError`.

    >>> job_sizes("4")
    (4, None)
    >>> job_sizes("1:2:8", "")[0], str(job_sizes("1:2:8", "")[1])
    (2, 'workers:1-8')
    >>> str(job_sizes("1:8", "64:512")[1])
    'batch:1-8/64-512'
    >>> [str(job_sizes(workers, parts=8)[1]) for workers in ("1:8", "4")]
    ['workers:1-8/8', 'workers:4-4/8']
    >>> str(job_sizes("1:8", parts=16, mixed=True)[1])
    'workers:1-8/16/mixed'
    """
    least, devices, most = _range(workers, "--workers", "4, or 1:8 for a job that may change its size")
    try:
        if batch and parts:
            raise UserError("beside --batch", expected="one of both, for parts keep an update as it is")
        if mixed and (batch or least == most == 1):
            raise UserError(
                f"beside --workers {workers}" + (" --batch" if batch else ""), expected="--workers 1:8"
            )
        if batch:
            smallest, samples, largest = _range(batch, "--batch", "64:512, the samples in an update")
            elastic = Elastic("batch", least, most, batch=samples, batch_least=smallest, batch_most=largest)
            return devices, elastic
        elastic = Elastic("workers", least, most, parts=parts, mixed=mixed)
        return devices, elastic if least < most or parts or mixed else None
    except UserError as error:
        option = "--mixed" if mixed else "--parts" if parts else "--batch" if batch else "--workers"
        raise OptionError(error.problem, where=option, expected=error.expected) from None


def _range(text: str, option: str, expected: str) -> tuple[int, int, int]:
    """Least, submitted and most."""
    if (found := _RANGE.fullmatch(text.strip())) is None:
        raise OptionError(f"cannot read {text!r:.60}", where=option, expected=expected)
    numbers = [int(number) for number in found.groups() if number is not None]
    least, submitted, most = numbers[0], numbers[1] if len(numbers) == 3 else numbers[0], numbers[-1]
    if not 1 <= least <= submitted <= most:
        raise OptionError(f"{text} is no range", where=option, expected=expected)
    return least, submitted, most
