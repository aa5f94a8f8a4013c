"""Shortest remaining time first as a program: the best of all that is possible."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.configuration import ConfigurationSet
from gavelx.errors import PolicyError
from gavelx.policies import SrtfProgram
from gavelx.promises import Promises
from gavelx.snapshot import Snapshot
from tests.policies.test_goodput import best_by_trying, devices, snapshot_of


def with_left(hours: list[float], v100s: int) -> Snapshot:
    """Jobs that have so many hours left on one v100."""
    snapshot = snapshot_of([1.0] * len(hours), {"v100": v100s})
    return snapshot.replace(steps_left_J=3600.0 * np.array(hours))


@given(
    st.lists(st.floats(0.01, 100.0), min_size=1, max_size=3),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([0.25, 0.5, 1.0]),
)
def test_no_other_answer_is_worth_more(hours: list[float], v100s: int, power: float) -> None:
    snapshot = with_left(hours, v100s)
    table, speed_C = snapshot.configurations, snapshot.configurations.throughput_M
    allocation = SrtfProgram(power).allocate(snapshot)

    def cost(j: int, c: int) -> float:
        return -float((speed_C[c] / hours[j]) ** power) if int(table.devices_C[c]) in (1, 2, 4, 8) else 1e9

    assert allocation.certificate.objective == pytest.approx(-best_by_trying(snapshot, cost, 0.0), rel=1e-5)
    assert SrtfProgram(power).gain(snapshot, allocation.share_C) == pytest.approx(allocation.certificate.objective)


def test_the_shortest_has_most_and_a_large_power_gives_it_all() -> None:
    snapshot = with_left([1.0, 4.0], 6)
    assert devices(SrtfProgram().allocate(snapshot)) == [4, 2]
    assert devices(SrtfProgram(power=4.0).allocate(with_left([1.0, 4.0], 8))) == [8]


def test_a_job_that_is_nearly_done_is_left_alone() -> None:
    """A restart would take it longer than what is left."""
    now = ConfigurationSet.alone(np.array([0]), np.array([0]), np.array([2]))
    held = {"promised": Promises(("v100",), now, np.ones(1)), "running_J": np.array([0])}
    assert devices(SrtfProgram().allocate(with_left([0.01], 8).replace(**held))) == [2]
    assert devices(SrtfProgram().allocate(with_left([10.0], 8).replace(**held))) == [8]


def test_options_that_make_no_sense_are_refused() -> None:
    for options in ({"power": 0.0}, {"restart_s": -1.0}, {"interval_s": 0.0}, {"power": float("nan")}):
        with pytest.raises(PolicyError, match="expected power and interval_s above 0"):
            SrtfProgram(**options)
