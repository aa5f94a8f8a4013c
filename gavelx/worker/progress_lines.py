"""Progress in the output of a job that does not report its steps: ``step 120/5000``, a bar of tqdm, ``12 it/s``.

From the best kind of line that a job prints:

    steps      a word for steps and a number: ``step 120``, ``[iter 120 of 5000]``, ``global_step=120``
    bars       ``120/5000 [00:10<06:50, 11.9it/s]``, as tqdm prints them
    epochs     ``epoch 3/90``, also with a fraction (``'epoch': 0.34``)
    rates      ``11.9 it/s``, ``0.08 s/it``: steps are the rate times the time for which it was printed

A job may print several counts of a kind, such as a bar for training and one for validation; they are told apart by
their totals, and what counts is how much they rise. If the number goes on from the last line and only the total is
new, the count is the same. A count that begins anew is added to what was counted before (an epoch is over),
and one that goes back a little is ignored. Nothing that a job prints ends it: a line may lie.
"""

import math
import re
from dataclasses import dataclass, field
from typing import NamedTuple

LINE_MAX, LINES_MAX = 1024, 1000
"""Bytes of a line, and lines of a piece of output, that are looked at: more is no progress."""
SERIES_MAX = 16
COUNT_MAX, RATE_MAX = 1e12, 1e9
BEGAN_ANEW = 0.1
"""A count that falls below this part of what it was has begun anew."""
COMPLETE, ANEW_AFTER_ALL = 0.9, 0.5
"""So has one that had come so far, of its total, if it falls below the second part. (A countdown falls less.)"""
ANSI = re.compile(rb"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)?|[@-Z\\-_])")
NUMBER = r"(\d{1,13}(?:[,_]\d{3}){0,4}(?:\.\d{1,6})?)"
GAP = r"\s{0,4}"
OF = rf"(?:{GAP}(?:/|\bof\b){GAP}{NUMBER})?"
NEXT = rf"(?![\w.%]|{GAP}(?:it|iter|step)s?/s)"
STEPS = re.compile(
    rf"(?<![a-z])(?:global[ _-]?step|train[ _-]?step|steps?|iterations?|iters?|updates?)"
    rf"(?:['\"]?{GAP}[:=#]{GAP}|{GAP}\[{GAP}|\s{{1,4}}){NUMBER}{OF}{NEXT}"
)
BARS = re.compile(rf"(?<![\w./]){NUMBER}/{NUMBER}{GAP}\[\d{{1,4}}:\d\d")
EPOCHS = re.compile(rf"(?<![a-z])epochs?(?:['\"]?{GAP}[:=#]{GAP}|{GAP}\[{GAP}|\s{{1,4}}){NUMBER}{OF}(?![\w%])")
RATES = re.compile(
    rf"(?<![\w.-])(\d{{1,13}}(?:\.\d{{1,9}})?(?:e[+-]?\d{{1,3}})?){GAP}"
    r"(?:(it|iter|iters|iterations|step|steps|batch|batches)/(?:s|sec|second)|s(?:ec)?/(it|iter|step|batch))(?![a-z])"
)
HINT = re.compile(rb"(?i)step|iter|epoch|update|\d/\d|/s|s/|sec/")
KINDS = (("steps", STEPS), ("bars", BARS), ("epochs", EPOCHS))


class Progress(NamedTuple):
    """Steps done, as far as the output says, and the last step by its own word; 0 where it says none."""

    steps: float = 0.0
    total: float = 0.0


@dataclass
class _Count:
    """One count that a job prints, and how much it has risen in all."""

    last: float = 0.0
    risen: float = 0.0
    anew: bool = False

    def add(self, value: float, total: float) -> None:
        if value >= self.last:
            self.risen += value - self.last
        elif value <= max(1.0, self._anew_below(total)):
            self.risen, self.anew = self.risen + value, True
        else:
            return
        self.last = value

    def _anew_below(self, total: float) -> float:
        return self.last * (ANEW_AFTER_ALL if 0.0 < COMPLETE * total <= self.last else BEGAN_ANEW)


@dataclass
class ProgressLines:
    """Reads output piece by piece; :meth:`progress` is what it says so far."""

    _rest: bytes = b""
    _counts: dict[str, dict[float, _Count]] = field(default_factory=dict)
    _latest: dict[str, float] = field(default_factory=dict)
    _rate: float = 0.0
    _rate_s: float = math.inf
    _by_rate: float = 0.0

    def read(self, text: bytes, now_s: float) -> None:
        """One more piece of output, which came until now."""
        pieces = re.split(rb"[\r\n]+", self._rest + text)
        self._rest = pieces.pop()[-LINE_MAX:]
        for line in list(filter(HINT.search, pieces))[-LINES_MAX:]:
            self._line(line, now_s)
        if len(self._rest) < LINE_MAX and b"\x1b" not in self._rest[-16:]:
            self._last_line(now_s)

    def _last_line(self, now_s: float) -> None:
        """A bar of tqdm is progress before its line ends; the number after a word may be half of one."""
        if self._rest.endswith(b"]") and BARS.search(_plain(self._rest)):
            self._line(self._rest, now_s)

    def skip(self) -> None:
        """Some output was left out: the line that was not complete never will be."""
        self._rest = b""

    def progress(self) -> Progress:
        """By the best kind of line that was seen."""
        for kind, _ in KINDS:
            if counts := self._counts.get(kind):
                total = (
                    next(iter(counts)) if len(counts) == 1 and not any(c.anew for c in counts.values()) else 0.0
                )
                return Progress(min(COUNT_MAX, sum(count.risen for count in counts.values())), total)
        return Progress(min(COUNT_MAX, self._by_rate))

    def _line(self, line: bytes, now_s: float) -> None:
        text = _plain(line)
        for kind, pattern in KINDS:
            for match in pattern.finditer(text):
                self._count(kind, _number(match[1]), _number(match[2]) if match[2] else 0.0)
        if (rate := RATES.search(text)) is not None:
            self._goes(_number(rate[1]), per_step=rate[2] is None, now_s=now_s)

    def _count(self, kind: str, value: float, total: float) -> None:
        """A count that is beyond its own total is none."""
        if value > COUNT_MAX or total > COUNT_MAX or 0.0 < total < value:
            return
        counts = self._counts.setdefault(kind, {})
        before = self._latest.get(kind, total)
        if total not in counts and before in counts and counts[before].last <= value:
            counts[total] = counts.pop(before)
        if total in counts or len(counts) < SERIES_MAX:
            counts.setdefault(total, _Count()).add(value, total)
            self._latest[kind] = total

    def _goes(self, rate: float, *, per_step: bool, now_s: float) -> None:
        """The job says how fast it is; until now it was as fast as it said before."""
        if per_step:
            rate = 1.0 / rate if rate > 0.0 else math.inf
        if not 0.0 <= rate <= RATE_MAX:
            return
        self._by_rate += self._rate * max(0.0, now_s - self._rate_s)
        self._rate, self._rate_s = rate, now_s


def _plain(line: bytes) -> str:
    """A line without colours, in lower case; of a long one the beginning and the end."""
    if len(line) > LINE_MAX:
        line = line[: LINE_MAX // 2] + b" " + line[-LINE_MAX // 2 :]
    return ANSI.sub(b"", line).decode("ascii", "replace").lower()


def _number(text: str) -> float:
    return float(text.replace(",", "").replace("_", ""))
