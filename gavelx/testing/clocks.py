"""Checks with clocks: a policy does not read them, does not wait, and does not work for too long.

No check depends on the load of other programs. Waiting is the elapsed time minus the processor time of this
process and the time that it was ready to run; the processor time of an answer is measured relative to max-min
fairness on the same snapshot. The least of several tries counts.
"""

import datetime
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from gavelx.allocation import Allocation
from gavelx.policies import MaxMinFairness, Policy
from gavelx.policies.terms import Constraint, Term
from gavelx.snapshot import Snapshot
from gavelx.testing.checks import Checks, RefusedError, only_if
from gavelx.testing.invariance import LATER_S
from gavelx.testing.snapshots import of_size

SCHEDSTAT = Path("/proc/thread-self/schedstat")
TRIES = 4
WAIT_S = 0.1
"""Seconds of waiting that are allowed, in the best of all tries."""
LEAST_S = 0.002
"""Least seconds of processor time that an answer of max-min fairness counts as."""
SIZES = (8, 12, 16, 18, 20, 22, 24, 26, 28, 32, 48, 64)
"""Numbers of jobs, so close that a policy which tries every subset is found before it takes for ever."""
INSTANT_S = 1_800_000_020.0
"""Of the wall clock, when answers are asked for: some time from the next minute, by which a policy may go."""
CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
CALENDARS = ("localtime", "gmtime", "ctime")


class Clocks(Checks):
    """Checks of a policy's time: what it takes, and that it reads no clock."""

    def test_the_wall_clock_does_not_matter(self) -> None:
        """With all clocks a day, an hour, a minute and a second later, the answer is the same."""
        snapshot = of_size(6)
        with suppress(RefusedError):
            first, again = (self._asked_at(INSTANT_S + later_s, snapshot) for later_s in (0.0, LATER_S))
            self._check_alike(first, again, snapshot)

    def _asked_at(self, instant_s: float, snapshot: Snapshot) -> Allocation:
        """The answer when the wall clock says that it is this instant."""
        with clocks_later(self.make_policy(), instant_s - time.time()):
            return self.ask(snapshot)

    def _check_alike(self, first: Allocation, again: Allocation, snapshot: Snapshot) -> None:
        if first.share_C.tobytes() != again.share_C.tobytes():
            seen = f"the shares {first.share_C.tolist()} became {again.share_C.tolist()} by the clock"
            self.fail(
                "the wall clock does not matter", seen, snapshot, "snapshot.time_s is the time of the decision"
            )

    @only_if(lambda test: SCHEDSTAT.exists())  # only Linux tells waiting from standing in line
    def test_an_answer_waits_for_nothing(self) -> None:
        """No sleep, no network, no other program: the snapshot has everything that a policy needs."""
        snapshot = of_size(6)
        waited_s = self._least(partial(_waited_s, partial(self.ask, snapshot)), enough=WAIT_S)
        if waited_s > WAIT_S:
            seen = f"an answer waits for {waited_s:.2g} s in which it does not compute"
            self.fail(
                "an answer waits for nothing", seen, snapshot, "no time.sleep, no file or network, no process"
            )

    def test_an_answer_takes_no_longer_than_it_must(self) -> None:
        """For 8 to 64 jobs, at most ``patience`` times the processor time of max-min fairness."""
        for size in SIZES:
            snapshot = of_size(size)
            reference_s = self._least(partial(_worked_s, partial(MaxMinFairness().allocate, snapshot)))
            limit_s = self.patience * max(LEAST_S, reference_s)
            worked_s = self._least(partial(_worked_s, partial(self.ask, snapshot)), enough=limit_s)
            if worked_s > limit_s:
                seen = (
                    f"an answer for {size} jobs takes {worked_s:.2g} s of processor time, more than {limit_s:.2g}"
                )
                rule, hint = "an answer takes no longer than it must", "patience = 1000 in the test class"
                self.fail(rule, seen, snapshot, hint)

    def _least(self, measure: Callable[[], float], enough: float = 0.0) -> float:
        """The least of several tries, or the first that is small enough; 0 for a refusal."""
        least = np.inf
        for _ in range(TRIES):
            try:
                least = min(least, measure())
            except RefusedError:
                return 0.0
            if least <= enough:
                break
        return float(least)


def _worked_s(answer: Callable[[], object]) -> float:
    """Processor time of this process, all its threads together."""
    started_s = time.process_time()
    answer()
    return time.process_time() - started_s


def _waited_s(answer: Callable[[], object]) -> float:
    """Time in which neither this process worked nor this thread was ready to run."""
    started_s, line_s = time.perf_counter(), _in_line_s()
    worked_s = _worked_s(answer)
    return time.perf_counter() - started_s - worked_s - (_in_line_s() - line_s)


def _in_line_s() -> float:
    """Total time in which this thread was ready to run while others had the processor."""
    return int(SCHEDSTAT.read_text(encoding="ascii").split()[1]) / 1e9


@contextmanager
def clocks_later(policy: Policy, seconds: float) -> Iterator[None]:
    """Inside, all clocks that the policy's modules read by name, and those of ``time``, are ``seconds`` later.

    Its modules are those of its terms, and of the policies in it, as well.
    """
    others: dict[int, Any] = {id(datetime.datetime): _later_datetime(), id(datetime.date): _later_date()}
    for name in CLOCKS:
        real, offset = getattr(time, name), int(seconds * 1e9) if name.endswith("_ns") else seconds
        others[id(real)] = lambda real=real, offset=offset: real() + offset
    for name in CALENDARS:
        real = getattr(time, name)
        others[id(real)] = lambda at_s=None, real=real: real(time.time() if at_s is None else at_s)
    others[id(time.strftime)] = partial(_later_text, time.strftime)
    patches = []
    for module in {time, datetime, *_modules_of(policy)}:
        names = {name: others[id(value)] for name, value in vars(module).items() if id(value) in others}
        patches.append(mock.patch.multiple(module, **names) if names else None)
    started = [patch for patch in patches if patch is not None]
    for patch in started:
        patch.start()
    try:
        yield
    finally:
        for patch in reversed(started):
            patch.stop()


def _modules_of(policy: Policy) -> set[Any]:
    """The modules of a policy, of its terms, and of the policies that it is made of."""
    found, waiting = dict[int, Any](), list[Any]([policy])
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, list | tuple):
            waiting += thing
        elif isinstance(thing, Policy | Term | Constraint) and id(thing) not in found:
            found[id(thing)] = thing
            waiting += vars(thing).values()
    kinds = {kind for thing in found.values() for kind in type(thing).__mro__}
    modules = {sys.modules[kind.__module__] for kind in kinds if kind.__module__ in sys.modules}
    return {module for module in modules if module.__name__ not in sys.stdlib_module_names}


def _later_text(real: Callable[..., str], form: str, at: Any = None) -> str:
    """``strftime`` of the later clock."""
    return real(form, time.localtime() if at is None else at)


def _later_datetime() -> type[datetime.datetime]:
    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Later":
            return cls.fromtimestamp(time.time(), tz)

        @classmethod
        def utcnow(cls) -> "Later":
            return cls.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)

        @classmethod
        def today(cls) -> "Later":
            return cls.now()

    return Later


def _later_date() -> type[datetime.date]:
    class Later(datetime.date):
        @classmethod
        def today(cls) -> "Later":
            return cls.fromtimestamp(time.time())

    return Later
