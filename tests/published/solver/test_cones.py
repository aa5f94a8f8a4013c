"""Nonnegative numbers and second-order cones: the scaling between two points, and how far it is to the border."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.published.solver.cones import Cones, Scaling
from gavelx.solvers.program.errors import UnsolvedError

CONES = Cones(nonnegative=2, second_order=3)
directions = st.lists(st.floats(-1.0, 1.0), min_size=11, max_size=11).map(np.array)
depths = st.lists(st.floats(1e-3, 1e3), min_size=5, max_size=5).map(np.array)


def inside(direction: np.ndarray, depth: np.ndarray) -> np.ndarray:
    """A point so deep inside each cone."""
    point_N, point_K3 = CONES.split(direction.copy())
    point_N[:] = depth[:2]
    point_K3[:, 0] = np.hypot(point_K3[:, 1], point_K3[:, 2]) + depth[2:]
    return np.concatenate([point_N, point_K3.ravel()])


points = st.builds(inside, directions, depths)


def close(ours: np.ndarray, theirs: np.ndarray) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6 * max(1.0, abs(theirs).max()))


@given(points, points, directions)
def test_it_takes_one_point_to_the_inverse_of_the_other(s: np.ndarray, z: np.ndarray, v: np.ndarray) -> None:
    W = Scaling(CONES, s, z)
    close(W.by(z), W.lam)
    close(W.by(W.lam), s)
    close(W.by(W.by(W.whole(W.half(v)))), v)
    close(W.by(v, 0.25), 0.25 * W.by(v))
    assert W.lam @ W.lam == pytest.approx(s @ z, rel=1e-6)


@given(points, points, directions)
def test_products_are_undone(s: np.ndarray, z: np.ndarray, v: np.ndarray) -> None:
    W = Scaling(CONES, s, z)
    close(CONES.product(W.lam, W.over(v)), v)
    close(CONES.product(CONES.unit(), v), v)


@given(points, points, directions)
def test_a_step_ends_at_the_border(s: np.ndarray, z: np.ndarray, d: np.ndarray) -> None:
    W = Scaling(CONES, s, z)
    room = W.room(d)
    size = abs(W.lam).max() + abs(d).max() / max(room, 1e-3)
    if room > 1e-3:
        assert CONES.depth(W.lam + d / room).min() == pytest.approx(0.0, abs=1e-6 * size)
    else:
        assert CONES.depth(W.lam + 100.0 * d).min() > -1e-6 * abs(W.lam + 100.0 * d).max()


def test_a_point_outside_has_no_scaling() -> None:
    with pytest.raises(UnsolvedError):
        Scaling(CONES, CONES.unit(), -CONES.unit())
