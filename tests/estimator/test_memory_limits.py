"""What was too large for a device is too large for less memory, and nothing else is said to be impossible."""

import pytest

from gavelx.estimator.memory_limits import CannotRun
from gavelx.files.data_sheets import load_data_sheets
from gavelx.measurements import Way
from gavelx.throughputs import Pairing, Setting

FAILED = Setting("LM (batch size 32)", "v100")
PAIR_FAILED = Pairing("A3C", "LM (batch size 32)", "v100")


def says(speed_of: dict[Way, float], way: Way) -> bool:
    return CannotRun(speed_of, load_data_sheets()).says(way)


@pytest.mark.parametrize("way", [
    Setting("LM (batch size 64)", "v100"),
    Setting("LM (batch size 32)", "k80"),
    Pairing("LM (batch size 64)", "A3C", "v100"),
    Pairing("A3C", "LM (batch size 32)", "k80"),
])  # fmt: skip
def test_as_hopeless(way: Way) -> None:
    assert says({FAILED: 0.0}, way)


@pytest.mark.parametrize("way", [
    Setting("LM (batch size 16)", "v100"),
    Setting("LM (batch size 64)", "a100-40gb"),
    Setting("LM (batch size 64)", "p100"),  # the same memory on another device
    Setting("LM (batch size 64)", "nobody knows"),
    Setting("LM (batch size 32)", "v100", 2),
    Setting("GPT (batch size 64)", "v100"),
    Setting("LM", "v100"),
])  # fmt: skip
def test_perhaps_it_runs(way: Way) -> None:
    assert not says({FAILED: 0.0}, way)


def test_a_pair_fails_in_either_order_and_says_nothing_of_one_alone() -> None:
    assert says({PAIR_FAILED: 0.0}, Pairing("LM (batch size 32)", "A3C", "v100"))
    assert says({PAIR_FAILED: 0.0}, Pairing("LM (batch size 64)", "A3C", "k80"))
    assert not says({PAIR_FAILED: 0.0}, Setting("LM (batch size 32)", "v100"))


@pytest.mark.parametrize("ran", [Setting("LM (batch size 128)", "v100"), Setting("LM (batch size 32)", "k80")])
def test_what_ran_with_as_much_speaks_for_another_reason(ran: Way) -> None:
    wanted = Setting("LM (batch size 256)", "v100")
    assert says({FAILED: 0.0, Setting("LM (batch size 16)", "v100"): 1.0}, wanted)
    assert not says({FAILED: 0.0, ran: 1.0}, wanted)
