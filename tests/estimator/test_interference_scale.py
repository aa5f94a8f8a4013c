"""Amplitudes of slowdowns against those that made the data, and what is foretold of devices without pairs."""

import numpy as np
import pytest

from gavelx.estimator.interference_scale import foretold_amplitudes, likely_amplitudes

NAN = np.nan


def test_amplitudes_are_found_again() -> None:
    random, true_D = np.random.default_rng(0), np.array([0.5, 1.0, 2.0])
    device = np.repeat([0, 1, 2], 100)
    job = np.tile(np.arange(25), 12)
    slowdown = 0.1 * (job[:, None] == job[None, :]) * (device[:, None] == device[None, :])
    own = random.normal(0, np.sqrt(0.1), (3, 25))[device, job]
    y = true_D[device] * own + random.normal(0, 0.05, 300)
    found_D = likely_amplitudes(y, 0.05**2 * np.eye(300), slowdown, device, np.ones(3, bool))
    assert np.exp(found_D) == pytest.approx(true_D, rel=0.25)


def test_a_device_of_few_pairs_says_nothing_of_its_own() -> None:
    random, device = np.random.default_rng(1), np.repeat([0, 1], 100)
    y = random.normal(0, 0.3, 200) * np.where(device == 0, 1.0, 2.0)
    found_D = likely_amplitudes(y, 0.01 * np.eye(200), 0.1 * np.eye(200), device, np.array([True, True, False]))
    assert np.isnan(found_D[2]) and found_D[0] == pytest.approx(-found_D[1])
    assert found_D[0] < -0.16 and found_D[1] > 0.18


def test_what_is_known_is_foretold_exactly() -> None:
    mean_D, doubt_D = foretold_amplitudes(np.array([0.3, NAN, -0.3]), np.array([0.5, 0.0, -0.5]))
    assert mean_D[[0, 2]] == pytest.approx([0.3, -0.3]) and doubt_D[[0, 2]] == pytest.approx([0.0, 0.0], abs=1e-7)


def test_faster_devices_are_foretold_larger_amplitudes_and_far_ones_with_more_doubt() -> None:
    known_D, speed_D = np.array([-0.2, 0.2, NAN, NAN, NAN]), np.array([-0.5, 0.5, 0.0, 1.0, 3.0])
    mean_D, doubt_D = foretold_amplitudes(known_D, speed_D)
    assert mean_D[2] == pytest.approx(0.0) and mean_D[2] < mean_D[3] < mean_D[4]
    assert 0.0 < doubt_D[2] < doubt_D[3] < doubt_D[4]


def test_where_no_pair_is_known_at_all_the_amplitude_is_what_the_speed_makes_it() -> None:
    mean_D, doubt_D = foretold_amplitudes(np.array([NAN, NAN]), np.array([0.0, 1.0]))
    assert mean_D == pytest.approx([0.0, 0.5]) and (doubt_D >= 0.5).all()
