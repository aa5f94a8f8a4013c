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
    found_D = likely_amplitudes(y, 0.05**2 * np.eye(300), slowdown, device, 3)
    assert found_D == pytest.approx(true_D, rel=0.25)


def test_a_device_without_pairs_keeps_one() -> None:
    y = np.random.default_rng(1).normal(0, 0.3, 40)
    found_D = likely_amplitudes(y, 0.01 * np.eye(40), 0.1 * np.eye(40), np.zeros(40, int), 2)
    assert found_D[1] == 1.0
    assert found_D[0] == pytest.approx(np.sqrt(0.8), rel=0.25)
