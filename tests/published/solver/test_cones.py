"""Nonnegative numbers and second-order cones: the scaling between two points, and how far it is to the border."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.published.solver.kernel import Cones, Scaling, by, depth, half, o, over, room, scaling, unit, whole

CONES = Cones(nonnegative=2, second_order=3)
directions = st.lists(st.floats(-1.0, 1.0), min_size=11, max_size=11).map(np.array)
depths = st.lists(st.floats(1e-3, 1e3), min_size=5, max_size=5).map(np.array)


def inside(direction: np.ndarray, deep: np.ndarray) -> np.ndarray:
    """A point so deep inside each cone."""
    point_K3 = direction[2:].reshape(3, 3).copy()
    point_K3[:, 0] = np.hypot(point_K3[:, 1], point_K3[:, 2]) + deep[2:]
    return np.concatenate([deep[:2], point_K3.ravel()])


points = st.builds(inside, directions, depths)


def scaled(s: np.ndarray, z: np.ndarray) -> Scaling:
    is_inside, W = scaling(CONES, s, z)
    assert is_inside
    return W


def close(ours: np.ndarray, theirs: np.ndarray) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6 * max(1.0, abs(theirs).max()))


@given(points, points, directions)
def test_it_takes_one_point_to_the_inverse_of_the_other(s: np.ndarray, z: np.ndarray, v: np.ndarray) -> None:
    W = scaled(s, z)
    close(by(W, z), W.lam)
    close(by(W, W.lam), s)
    close(by(W, by(W, whole(W, half(W, v)))), v)
    close(by(W, 0.25 * v), 0.25 * by(W, v))
    assert W.lam @ W.lam == pytest.approx(s @ z, rel=1e-6)


@given(points, points, directions)
def test_products_are_undone(s: np.ndarray, z: np.ndarray, v: np.ndarray) -> None:
    W = scaled(s, z)
    close(o(CONES, W.lam, over(W, v)), v)
    close(o(CONES, unit(CONES), v), v)


@given(points, points, directions)
def test_a_step_ends_at_the_border(s: np.ndarray, z: np.ndarray, d: np.ndarray) -> None:
    W = scaled(s, z)
    inverted = room(W, d)
    size = abs(W.lam).max() + abs(d).max() / max(inverted, 1e-3)
    if inverted > 1e-3:
        assert depth(CONES, W.lam + d / inverted).min() == pytest.approx(0.0, abs=1e-6 * size)
    else:
        assert depth(CONES, W.lam + 100.0 * d).min() > -1e-6 * abs(W.lam + 100.0 * d).max()


def test_a_point_outside_has_no_scaling() -> None:
    is_inside, _ = scaling(CONES, unit(CONES), -unit(CONES))
    assert not is_inside
