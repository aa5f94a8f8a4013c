"""The kit of estimators catches planted faults, each by its own check, and passes a sound one."""

import itertools
import math
import random
from collections.abc import Iterable, Sequence

import pytest

from experiments.estimation.baselines.column_mean import ColumnMean
from gavelx.accelerators import DataSheets
from gavelx.measurements import Estimate, Measurement, Way
from gavelx.testing import EstimatorConformance, NonConformance


class Sound(ColumnMean):
    """A good estimator, to spoil."""


class Forgetful(Sound):
    """Estimates what was measured."""

    def estimate(self, wanted: Sequence[Way], level: float = 0.9) -> list[Estimate]:
        found = super().estimate(wanted, level)
        return [one._replace(steps_per_second=one.steps_per_second * 1.1, upper=one.upper * 1.2) for one in found]


class Optimist(Sound):
    """Says that jobs run where they cannot."""

    def observe(self, measurements: Iterable[Measurement]) -> None:
        super().observe(one for one in measurements if one.steps_per_second > 0)


class Stubborn(Sound):
    """Surer, the more often it is to be right."""

    def estimate(self, wanted: Sequence[Way], level: float = 0.9) -> list[Estimate]:
        return super().estimate(wanted, 1.0 - level)


class Dice(Sound):
    """Another answer every time."""

    def estimate(self, wanted: Sequence[Way], level: float = 0.9) -> list[Estimate]:
        factor = 1.0 + 1e-3 * random.SystemRandom().random()
        return [
            one._replace(upper=one.upper * factor) if one.origin == "estimated" else one
            for one in super().estimate(wanted, level)
        ]


class Absolute(Sound):
    """Knows how fast a job is, whatever it calls a step."""

    def complete(self, missing: Sequence[Way], level: float) -> list[Estimate | None]:
        return [Estimate(1.0, 0.5, 2.0, "estimated")] * len(missing)


class LastWord(Sound):
    """Goes by what it heard last."""

    def observe(self, measurements: Iterable[Measurement]) -> None:
        super().observe(measurements)
        self.last = next(iter(self._measurements))

    def complete(self, missing: Sequence[Way], level: float) -> list[Estimate | None]:
        factor = 1.0 + len(self.last.accelerator) + len(self.last.job_type) + 0.1 * len(self.last)
        return [one and one._replace(upper=one.upper * factor) for one in super().complete(missing, level)]


class Bragging(Sound):
    """Knows speeds without any measurement."""

    def estimate(self, wanted: Sequence[Way], level: float = 0.9) -> list[Estimate]:
        known = super().estimate(wanted, level)
        return known if self.speed_of else [Estimate(1.0, 0.5, 2.0, "estimated")] * len(wanted)


FAULTS = [
    (Forgetful, "test_what_was_measured_is_what_is_believed"),
    (Optimist, "test_what_was_measured_is_what_is_believed"),
    (Stubborn, "test_intervals_hold_their_middle_and_widen_with_the_level"),
    (Dice, "test_the_same_question_gets_the_same_answer"),
    (Absolute, "test_the_unit_of_steps_does_not_matter"),
    (LastWord, "test_the_order_of_measurements_does_not_matter"),
    (Bragging, "test_without_measurements_nothing_is_known"),
]
CHECKS = [name for name in dir(EstimatorConformance) if name.startswith("test_")]


def kit(made: type[Sound]) -> EstimatorConformance:
    class Kit(EstimatorConformance):
        examples = 25

        @staticmethod
        def estimator(data_sheets: DataSheets) -> Sound:
            return made(data_sheets)

    return Kit()


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "check"), FAULTS)
def test_each_fault_is_found(fault: type[Sound], check: str) -> None:
    with pytest.raises(NonConformance, match="Measured: "):
        getattr(kit(fault), check)()


@pytest.mark.parametrize("check", CHECKS)
def test_a_sound_one_passes(check: str) -> None:
    getattr(kit(Sound), check)()


def test_a_widening_one_is_found() -> None:
    class Timid(Sound):
        """The more it hears, the less sure it is."""

        def complete(self, missing: Sequence[Way], level: float) -> list[Estimate | None]:
            wide = math.exp(len(self.speed_of) ** 2 / 10)
            found = super().complete(missing, level)
            return [one and one._replace(lower=one.lower / wide, upper=one.upper * wide) for one in found]

    with pytest.raises(NonConformance, match="do not widen"):
        kit(Timid).test_more_measurements_do_not_widen_intervals_much()


def test_repetition_that_counts_is_found() -> None:
    class Credulous(Sound):
        """What is said twice is twice as true."""

        def complete(self, missing: Sequence[Way], level: float) -> list[Estimate | None]:
            heard = sum(1 for _ in itertools.chain.from_iterable(self._measurements.values()))
            return [one and one._replace(upper=one.upper + heard) for one in super().complete(missing, level)]

    with pytest.raises(NonConformance, match="twice does no harm"):
        kit(Credulous).test_the_same_measurements_twice_do_no_harm()
