"""Tests for authors of estimators: one class to subclass."""

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NoReturn

from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import strategies as st

from gavelx.accelerators import DataSheets
from gavelx.estimator import Estimator
from gavelx.estimator.names import read_name
from gavelx.files.data_sheets import load_data_sheets
from gavelx.measurements import Estimate, Measurement, Way
from gavelx.testing.checks import NonConformance
from gavelx.throughputs import Pairing, Setting

UNIT = 1000.0
CLOSE = 1e-6


class EstimatorConformance:
    """Everything that is expected of an estimator, as tests. Subclass it and name the estimator::

        class TestMine(EstimatorConformance):
            estimator = MyEstimator

    pytest then checks, on generated tables, what must hold for every estimator: measured speeds and zeros are
    returned unchanged, intervals contain their middle and widen with the level, units, order and repetition do not
    matter, and unknown names do no harm.

    * ``estimator``: a class or function that makes one, given the data sheets of devices;
    * ``examples``: generated tables per check; ``tolerance``: relative, between answers that should be equal.
    """

    estimator: Callable[[DataSheets], Estimator]
    examples = 10
    tolerance = 1e-5

    def make_estimator(self) -> Estimator:
        """The estimator under test, anew."""
        return type(self).estimator(load_data_sheets())

    def ask(
        self, measurements: Sequence[Measurement], wanted: Sequence[Way], level: float = 0.9
    ) -> dict[Way, Estimate]:
        """The estimates of a new estimator after these measurements."""
        estimator = self.make_estimator()
        estimator.observe(measurements)
        return dict(zip(wanted, estimator.estimate(wanted, level), strict=True))

    def for_all(self, check: Callable[["Table"], None]) -> None:
        """Run a check on ``examples`` generated tables, at once."""

        def drawn(table: Table) -> None:
            __tracebackhide__ = True
            check(table)

        drawn.__name__ = f"{type(self).__name__}_{check.__name__}"
        quietly = settings(
            max_examples=self.examples,
            deadline=None,
            report_multiple_bugs=False,
            phases=[phase for phase in settings().phases if phase is not Phase.explain],
            verbosity=Verbosity.quiet,  # our own message has the table
            suppress_health_check=list(HealthCheck),
        )
        __tracebackhide__ = True
        quietly(given(tables())(drawn))()

    def test_what_was_measured_is_what_is_believed(self) -> None:
        """A measured speed takes precedence over an estimate, and a job that cannot run (0) stays at 0."""

        def check(table: Table) -> None:
            answers = self.ask(table.measured, [one.way for one in table.measured])
            for one in table.measured:
                speed, lower, upper, origin = answers[one.way]
                if not (
                    math.isclose(speed, one.steps_per_second, rel_tol=self.tolerance) and origin == "measured"
                ):
                    self.fail("what was measured is believed", f"{one} became {answers[one.way]}", table)
                if one.steps_per_second == 0 and (lower, upper) != (0.0, 0.0):
                    self.fail("zero stays zero", f"{one} became {answers[one.way]}", table)

        self.for_all(check)

    def test_intervals_hold_their_middle_and_widen_with_the_level(self) -> None:
        """0 < lower <= estimate <= upper, and an interval at a higher level is no narrower."""

        def check(table: Table) -> None:
            half, most = (self.ask(table.measured, table.wanted, level) for level in (0.5, 0.95))
            for way, narrow in half.items():
                wide = most[way]
                if narrow.origin == "unknown" or narrow.steps_per_second == 0:
                    continue
                if not all(
                    0 < one.lower <= one.steps_per_second <= one.upper < math.inf for one in (narrow, wide)
                ):
                    self.fail("intervals are ordered and positive", f"{way}: {narrow}, {wide}", table)
                if wide.upper < narrow.upper * (1 - CLOSE) or wide.lower > narrow.lower * (1 + CLOSE):
                    self.fail("a higher level is no narrower", f"{way}: {narrow} at 50 %, {wide} at 95 %", table)

        self.for_all(check)

    def test_more_measurements_do_not_widen_intervals_much(self) -> None:
        """With twice as many measurements, intervals are no wider on the whole, up to a factor of three."""

        def check(table: Table) -> None:
            half = table.measured[::2]
            wanted = [way for way in table.wanted if way not in {one.way for one in table.measured}]
            little, much = self.ask(half, wanted), self.ask(table.measured, wanted)
            widths = [
                tuple(math.log(one.upper / one.lower) for one in (little[way], much[way]))
                for way in wanted
                if min(little[way].steps_per_second, much[way].steps_per_second) > 0
            ]
            before, after = (sum(column) for column in zip(*widths, strict=True)) if widths else (0.0, 0.0)
            if after > 3.0 * before:
                seen = f"mean log(upper / lower) {before / len(widths):.3g} became {after / len(widths):.3g}"
                self.fail("more measurements do not widen intervals much", seen, table)

        self.for_all(check)

    def test_the_unit_of_steps_does_not_matter(self) -> None:
        """A model that counts its steps by the thousand is estimated by the thousand; others are unchanged.

        A model has one unit, so an estimator may compare its batch sizes.
        """

        def check(table: Table) -> None:
            model = read_name(table.measured[0].way.job_type).model
            scaled = [
                replace(one, steps_per_second=one.steps_per_second * UNIT)
                if read_name(one.way.job_type).model == model
                else one
                for one in table.measured
            ]
            other = {
                way: _scaled(one, 1 / UNIT if read_name(way.job_type).model == model else 1.0)
                for way, one in self.ask(scaled, table.wanted).items()
            }
            self._same(self.ask(table.measured, table.wanted), other, "the unit of steps does not matter", table)

        self.for_all(check)

    def test_the_order_of_measurements_does_not_matter(self) -> None:
        """In another order, and in two calls instead of one."""

        def check(table: Table) -> None:
            shuffled = list(table.measured)
            Random(1).shuffle(shuffled)
            estimator = self.make_estimator()
            estimator.observe(shuffled[::2])
            estimator.estimate(table.wanted)
            estimator.observe(shuffled[1::2])
            other = dict(zip(table.wanted, estimator.estimate(table.wanted, 0.9), strict=True))
            self._same(self.ask(table.measured, table.wanted), other, "the order does not matter", table)

        self.for_all(check)

    def test_the_same_measurements_twice_do_no_harm(self) -> None:
        """Repeated measurements do not change the estimates."""

        def check(table: Table) -> None:
            once = self.ask(table.measured, table.wanted)
            twice = self.ask([*table.measured, *table.measured], table.wanted)
            self._same(once, twice, "measuring the same twice does no harm", table)

        self.for_all(check)

    def test_the_same_question_gets_the_same_answer(self) -> None:
        """To the last digit, from one estimator asked again and from a new one; in any order."""

        def check(table: Table) -> None:
            estimator = self.make_estimator()
            estimator.observe(table.measured)
            first, again = (estimator.estimate(table.wanted) for _ in range(2))
            other = self.make_estimator()
            other.observe(table.measured)
            if not repr(first) == repr(again) == repr(other.estimate(table.wanted)):
                self.fail("the same question gets the same answer", "it was another one", table)
            backwards = dict(zip(table.wanted[::-1], estimator.estimate(table.wanted[::-1]), strict=True))
            asked = dict(zip(table.wanted, first, strict=True))
            self._same(asked, backwards, "the order of questions does not matter", table)

        self.for_all(check)

    def test_names_that_nobody_knows_do_no_harm(self) -> None:
        """Devices and job types without measurements or data sheets: some estimate, and others are unchanged."""

        def check(table: Table) -> None:
            job, other = table.measured[0].way.job_type, "Nobody's Model (batch size 7)"
            strange: list[Way] = [
                Setting(job, "a device of tomorrow"),
                Setting(other, "k80"),
                Setting(job, table.measured[0].way.accelerator, 128, False),
                Pairing(job, other, "a device of tomorrow"),
                Pairing(other, job, table.measured[0].way.accelerator),
            ]
            answers = self.ask(table.measured, [*table.wanted, *strange])
            for way in strange:
                one = answers[way]
                ordered = 0 <= one.lower <= one.steps_per_second <= one.upper < math.inf
                if not ordered and one.origin != "unknown":
                    self.fail("unknown names get a sound answer", f"{way}: {one}", table)
            before = self.ask(table.measured, table.wanted)
            after = {way: answers[way] for way in table.wanted}
            self._same(before, after, "unknown names do no harm to others", table)

        self.for_all(check)

    def test_without_measurements_nothing_is_known(self) -> None:
        """No measurement, no speed; and no question, no answer."""

        def check(table: Table) -> None:
            for way, one in self.ask([], table.wanted).items():
                if one.origin != "unknown" or not all(math.isnan(value) for value in one[:3]):
                    self.fail("without measurements nothing is known", f"{way}: {one}", table)
            if self.ask(table.measured, []):
                self.fail("no question, no answer", "there was one", table)

        self.for_all(check)

    def _same(self, one: Mapping[Way, Estimate], two: Mapping[Way, Estimate], rule: str, table: "Table") -> None:
        for way, before in one.items():
            after = two[way]
            same = before.origin == after.origin and all(
                math.isclose(a, b, rel_tol=self.tolerance) or (math.isnan(a) and math.isnan(b))
                for a, b in zip(before[:3], after[:3], strict=True)
            )
            if not same:
                self.fail(rule, f"{way}: {before} became {after}", table)

    def fail(self, rule: str, seen: str, table: "Table") -> NoReturn:
        """Raise :class:`NonConformance` with what was seen and the measurements that show it."""
        __tracebackhide__ = True
        rows = [[*one.way, one.steps_per_second] for one in table.measured]
        name = getattr(type(self).estimator, "name", "") or repr(type(self).estimator)
        raise NonConformance(f"{name}: {rule}. Seen: {seen}\nMeasured: {json.dumps(rows)}")


class Table:
    """A generated table: its measurements, and all ways to run to estimate."""

    def __init__(self, measured: Sequence[Measurement], wanted: Sequence[Way]) -> None:
        self.measured, self.wanted = list(measured), list(wanted)

    def __repr__(self) -> str:
        return f"Table({len(self.measured)} measured of {len(self.wanted)})"


@st.composite
def tables(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Table:
    """Few job types on few devices, alone and in pairs: a law with noise, of which some speeds were measured."""
    random = Random(draw(st.integers(0, 2**32 - 1)))
    models = draw(
        st.lists(st.sampled_from(["LM", "ResNet-50", "A3C", "model x"]), min_size=1, max_size=3, unique=True)
    )
    sizes = [f" (batch size {2**exponent})" for exponent in range(3, 3 + draw(st.integers(1, 2)))]
    jobs = [model + size for model in models for size in sizes]
    devices = draw(
        st.lists(st.sampled_from(["k80", "v100", "a100", "chip-7"]), min_size=1, max_size=3, unique=True)
    )
    shapes = [(1, True), *draw(st.sampled_from([[], [(4, True)], [(1, False), (8, True), (8, False)]]))]
    level = {name: random.gauss(0.0, 1.0) for name in (*jobs, *devices)}
    ways: list[Way] = [Setting(job, device, *shape) for job in jobs for device in devices for shape in shapes]
    if draw(st.booleans()):
        ways += [Pairing(a, b, device) for a, b in itertools.product(jobs, jobs) for device in devices]
    zero_share = draw(st.sampled_from([0.0, 0.0, 0.2]))
    measured = []
    for way in ways:
        log = level[way.job_type] + level[way.accelerator] + random.gauss(0.0, 0.2)
        log += -0.6 if isinstance(way, Pairing) else 0.8 * math.log(way.scale_factor)
        measured.append(Measurement(way, 0.0 if random.random() < zero_share else math.exp(log)))
    random.shuffle(measured)
    share = draw(st.floats(0.1, 0.9))
    return Table(measured[: max(1, round(share * len(measured)))], ways)


def _scaled(one: Estimate, factor: float) -> Estimate:
    return Estimate(one.steps_per_second * factor, one.lower * factor, one.upper * factor, one.origin)
