"""The factor of the learning rate: its goal by each rule, and how it gets there."""

import pytest

from gavelx.training.rates import Rates


def factors(rates: Rates, ratio: float, samples: list[float], efficiency: float = 1.0) -> list[float]:
    return [rates.update(ratio, efficiency, at) for at in samples]


@pytest.mark.parametrize(
    ("rule", "goal"), [("linear", 4.0), ("square_root", 2.0), ("adascale", 3.0), ("none", 1.0)]
)
def test_each_rule_has_its_goal(rule: str, goal: float) -> None:
    assert factors(Rates(rule), 4.0, [0.0], efficiency=0.75) == [goal]


def test_a_doubling_takes_a_warm_up_and_a_larger_one_longer() -> None:
    assert factors(Rates("linear", warmup=100.0), 2.0, [0.0, 50.0, 100.0, 200.0]) == [1.0, 1.5, 2.0, 2.0]
    assert factors(Rates("linear", warmup=100.0), 4.0, [0.0, 100.0, 200.0]) == [1.0, 2.5, 4.0]


def test_two_doublings_take_as_long_as_one_fourfold_growth() -> None:
    rates = Rates("linear", warmup=100.0)
    assert factors(rates, 2.0, [1000.0, 1100.0]) == [1.0, 2.0]
    assert factors(rates, 4.0, [1100.0, 1150.0, 1200.0]) == [2.0, 3.0, 4.0]


def test_a_smaller_factor_is_there_at_once() -> None:
    rates = Rates("linear", warmup=100.0)
    factors(rates, 4.0, [0.0, 200.0])
    assert factors(rates, 2.0, [200.0]) == [2.0]
    assert factors(rates, 2.0, [250.0]) == [2.0]


def test_the_warm_up_goes_on_after_a_restart() -> None:
    rates, again = Rates("linear", warmup=100.0), Rates("linear", warmup=100.0)
    factors(rates, 4.0, [0.0, 100.0])
    again.load_state_dict(rates.state_dict())
    assert factors(again, 4.0, [150.0]) == factors(rates, 4.0, [150.0]) == [3.25]
