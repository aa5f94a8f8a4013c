"""The slow reference itself, on cases that can be solved by hand."""

import numpy as np
import pytest

from tests.policies.reference import Instance, lexicographic_max_min, room_for_improvement


def instance(throughput_JA: list[list[float]], devices_A: list[int], scale_J: list[int]) -> Instance:
    ones_J = np.ones(len(scale_J))
    return Instance(np.array(throughput_JA), np.array(scale_J, dtype=float), ones_J, np.array(devices_A, float))


def test_one_job_alone_takes_its_fastest_type() -> None:
    # against half its time on each: (2 + 1) / 2
    assert lexicographic_max_min(instance([[2.0, 1.0]], [1, 1], [1])) == pytest.approx([2 / 1.5])


def test_two_alike_share_one_device() -> None:
    assert lexicographic_max_min(instance([[4.0], [4.0]], [1], [1, 1])) == pytest.approx([0.5, 0.5])


def test_a_second_level_is_raised_when_the_first_is_stuck() -> None:
    # jobs 0 and 1 can only use type 0, job 2 only type 1, where nobody competes with it
    levels = lexicographic_max_min(instance([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [1, 1], [1, 1, 1]))
    assert levels == pytest.approx([1.0, 1.0, 2.0])


def test_comparative_advantage() -> None:
    # each job has its own best type: 3 against (3 + 1) / 2
    assert lexicographic_max_min(instance([[3.0, 1.0], [1.0, 3.0]], [1, 1], [1, 1])) == pytest.approx([1.5, 1.5])


def test_a_gang_wider_than_the_type_gets_nothing_there() -> None:
    assert lexicographic_max_min(instance([[1.0], [1.0]], [2], [4, 1])) == pytest.approx([0.0, 1.0])


def test_idle_devices_leave_room() -> None:
    two = instance([[3.0, 1.0], [1.0, 3.0]], [1, 1], [1, 1])
    assert room_for_improvement(two, np.eye(2)) == pytest.approx(0.0, abs=1e-8)
    assert room_for_improvement(two, np.eye(2) / 2) == pytest.approx(1.5)
