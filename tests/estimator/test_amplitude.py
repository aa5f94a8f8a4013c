"""Amplitudes of slowdowns against those that made the data."""

import numpy as np
import pytest

from gavelx.estimator.amplitude import likely_amplitudes


def test_amplitudes_are_found_again() -> None:
    random, true_D = np.random.default_rng(0), np.array([0.5, 1.0, 2.0])
    device = np.repeat([0, 1, 2], 100)
    job = np.tile(np.arange(25), 12)
    slowdown = 0.1 * (job[:, None] == job[None, :]) * (device[:, None] == device[None, :])
    own = random.normal(0, np.sqrt(0.1), (3, 25))[device, job]
    y = true_D[device] * own + random.normal(0, 0.05, 300)
    found_D = likely_amplitudes(y, 0.05**2 * np.eye(300), slowdown, device, np.ones(3, bool))
    assert found_D == pytest.approx(true_D, rel=0.25)


def test_a_device_of_few_pairs_is_as_others_are_on_average() -> None:
    random, device = np.random.default_rng(1), np.repeat([0, 1], 100)
    y = random.normal(0, 0.3, 200) * np.where(device == 0, 1.0, 2.0)
    found_D = likely_amplitudes(y, 0.01 * np.eye(200), 0.1 * np.eye(200), device, np.array([True, True, False]))
    assert found_D[2] == 1.0 == pytest.approx(found_D[0] * found_D[1])
    assert found_D[0] < 0.85 and found_D[1] > 1.2
