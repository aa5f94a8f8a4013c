"""Elasticity: the sizes in which a job may run, and what changes with them.

Written as text, in a trace or on a command line::

    workers:1-8             1 to 8 devices, the same training on each number of them
    workers:1-8/16          the same, in 16 parts (logical workers)
    workers:1-8/16/mixed    the same, on devices of several types at once too
    batch:1-8/64-512        1 to 8 devices, and 64 (as submitted) to 512 samples an update
    batch:1-8/32-64-512     the same, 64 as submitted and 32 at least
    batch:1-8/64-512/none   the same, with this rule for the learning rate
"""

import re
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, cast, get_args

from gavelx.errors import UserError

Changes = Literal["workers", "batch"]
Rates = Literal["linear", "square_root", "adascale", "none"]
RATES: tuple[Rates, ...] = get_args(Rates)
MIXED = "mixed"
DEVICES_MOST = 65536
BATCH_MOST = 2**31 - 1
EXPECTED = "workers:1-8, batch:1-8/64-512, or nothing"
_TEXT = re.compile(
    r"(?P<what>\w+):(?P<least>\d{1,10})-(?P<most>\d{1,10})"
    r"(?:/(?P<numbers>\d{1,10}(?:-\d{1,10}){0,2}))?(?:/(?P<rates>\w+))?"
)


@dataclass(frozen=True, slots=True)
class Elastic:
    """What may change while a job runs.

    * ``what``: ``workers``: the number of devices alone, with the same samples in each update; ``batch``: the
      batch size as well;
    * ``least``, ``most``: devices;
    * ``parts``: logical workers, of which each device runs some (``workers``); 0: as few as will do for each
      number of devices to have some, and for the submitted number to have equally many;
    * ``batch``: samples in an update as submitted, on all devices together; ``batch_least``, ``batch_most``: the
      least and most that an update may have (``batch``);
    * ``rates``: how the learning rate follows the batch size;
    * ``mixed``: the parts may run on devices of several accelerator types at once (``workers``). Kernels differ
      between types, so such a job does not keep its bits.

    Raises :class:`UserError` for ranges that make no sense.
    """

    what: Changes
    least: int = 1
    most: int = 1
    parts: int = 0
    batch: int = 0
    batch_least: int = 0
    batch_most: int = 0
    rates: Rates = "linear"
    mixed: bool = False

    def __post_init__(self) -> None:
        if self.what not in get_args(Changes):
            raise self._mistake(f"{self.what!r:.40} is not known", "workers or batch")
        if not 1 <= self.least <= self.most <= DEVICES_MOST:
            raise self._mistake(
                f"{self.least} to {self.most} devices are no range", f"1 <= least <= most <= {DEVICES_MOST}"
            )
        if self.rates not in RATES:
            raise self._mistake(f"rule {self.rates!r:.40} is not known", "one of " + ", ".join(RATES))
        if self.what == "workers":
            if self.batch or self.batch_least or self.batch_most:
                raise self._mistake("with workers the batch size stays", "batch:... to change it")
            if self.parts and not self.most <= self.parts <= DEVICES_MOST:
                expected = f"a part for each device, and at most {DEVICES_MOST}"
                raise self._mistake(f"{self.parts} parts for {self.most} devices", expected)
        elif self.parts or self.mixed:
            what = "parts" if self.parts else "mixed devices"
            raise self._mistake(f"{what} are for workers:...", "batch:1-8/64-512, without them")
        elif not 1 <= self.batch_least <= self.batch <= self.batch_most <= BATCH_MOST:
            sizes = f"{self.batch_least} to {self.batch_most} samples, {self.batch} as submitted"
            raise self._mistake(f"{sizes}, are no range", f"1 <= least <= submitted <= most <= {BATCH_MOST}")

    @staticmethod
    def _mistake(problem: str, expected: str) -> UserError:
        return UserError(problem, where="elasticity", expected=expected)

    @staticmethod
    def of(text: str) -> "Elastic":
        """The elasticity that a text describes. Raises :class:`UserError` for one that it cannot read."""
        if (found := _TEXT.fullmatch(text.strip())) is None:
            raise Elastic._mistake(f"{text!r:.60} cannot be read", EXPECTED)
        what, rates = found["what"], found["rates"] or "linear"
        least, most = int(found["least"]), int(found["most"])
        numbers = [int(number) for number in (found["numbers"] or "").split("-") if number]
        if what == "workers":
            if len(numbers) > 1 or found["rates"] not in {None, MIXED}:
                problem = f"{text!r:.60} says more than devices, parts and {MIXED}"
                raise Elastic._mistake(problem, f"workers:1-8/16, or workers:1-8/16/{MIXED}")
            parts, mixed = numbers[0] if numbers else 0, found["rates"] == MIXED
            return Elastic("workers", least, most, parts=parts, mixed=mixed)
        if what == "batch" and len(numbers) < 2:
            raise Elastic._mistake(f"{text!r:.60} has no range of batch sizes", "batch:1-8/64-512")
        batch_least, batch, batch_most = (numbers[0], *numbers) if len(numbers) == 2 else numbers or (0, 0, 0)
        return Elastic(
            cast(Changes, what),
            least,
            most,
            batch=batch,
            batch_least=batch_least,
            batch_most=batch_most,
            rates=cast(Rates, rates),
        )

    def __str__(self) -> str:
        """The text that :meth:`of` reads."""
        devices = f"{self.what}:{self.least}-{self.most}"
        if self.what == "workers":
            return devices + (f"/{self.parts}" if self.parts else "") + (f"/{MIXED}" if self.mixed else "")
        own = f"{self.batch}-" if self.batch_least != self.batch else ""
        sizes = f"/{self.batch_least}-{own}{self.batch_most}"
        return devices + sizes + (f"/{self.rates}" if self.rates != "linear" else "")

    @property
    def widths(self) -> list[int]:
        """Numbers of devices at which the speed is worth knowing: doubled from the least, and the most."""
        doubled = (self.least << n for n in range(self.most.bit_length()))
        return [*(devices for devices in doubled if devices < self.most), self.most]

    def around(self, scale_factor: int) -> "Elastic":
        """The same for a job of so many devices, which it may have in any case."""
        least, most = min(self.least, scale_factor), max(self.most, scale_factor)
        return replace(self, least=least, most=most)

    def parts_of(self, scale_factor: int) -> int:
        """The parts of a job that was submitted for so many devices."""
        return self.parts or scale_factor * ceil(self.most / scale_factor)
