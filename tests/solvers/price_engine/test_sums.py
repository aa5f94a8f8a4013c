"""Sums by prices against the plain program of all rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from gavelx.policies import load_policy
from gavelx.solvers.price_engine import sums
from gavelx.solvers.price_engine.replies import Sizes
from gavelx.solvers.price_engine.sums import solve_sums

Floats = np.ndarray
FEW = 6


@pytest.fixture(autouse=True, scope="module")
def _searches() -> object:
    """Small programs are searched, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "FEW", FEW)
        yield


def plain(value_GV: Floats, load_G: Floats, count_G: Floats, capacity_A: Floats, sizes: Sizes) -> float:
    """The optimum by one program over all rows."""
    G, V = value_GV.shape
    time = np.repeat(np.eye(G), V, axis=1)
    devices = np.zeros((len(capacity_A), G * V))
    for g in range(G):
        for v in range(V):
            devices[sizes.type_V[v], g * V + v] = load_G[g] * sizes.devices_V[v]
    worth = (np.maximum(value_GV, 0.0) * count_G[:, None]).ravel()
    found = linprog(-worth, np.vstack([time, devices]), np.concatenate([np.ones(G), capacity_A]))
    assert found.success
    return -float(found.fun)


@given(st.integers(0, 10_000), st.integers(1, 60), st.booleans(), st.booleans())
def test_the_sum_is_that_of_the_plain_program(seed: int, rows: int, ties: bool, sized: bool) -> None:
    random = np.random.default_rng(seed)
    types = int(random.integers(1, 5))
    sizes = Sizes(np.arange(types), np.ones(types))
    if sized:
        sizes = Sizes(np.repeat(np.arange(types), 2), np.tile([1.0, 3.0], types))
    shape = rows, len(sizes.type_V)
    value_GV = random.integers(-1, 4, shape).astype(float) if ties else random.normal(1.0, 1.0, shape)
    scale_G, count_G = random.integers(1, 4, rows).astype(float), random.integers(1, 5, rows).astype(float)
    capacity_A = random.integers(0, 2 + rows // 2, types).astype(float)
    load_G = count_G if sized else scale_G * count_G
    found = solve_sums(
        value_GV,
        scale_G=np.ones(rows) if sized else scale_G,
        count_G=count_G,
        capacity_A=capacity_A,
        sizes=sizes if sized else None,
    )
    best = plain(value_GV, load_G, count_G, capacity_A, sizes)
    assert found.value == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert found.bound == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert (found.share_GV >= 0).all()
    assert found.share_GV.sum(axis=1).max() <= 1 + 1e-12
    used_V = (load_G @ found.share_GV) * sizes.devices_V
    assert (np.bincount(sizes.type_V, used_V, types) <= capacity_A + 1e-9).all()


@pytest.mark.parametrize(
    "policy", ["max_sum_throughput", "min_cost", "fifo_program", "elastic(max_sum_throughput)"]
)
def test_a_policy_gets_the_same_either_way(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.instances import all_distinct, snapshot_of

    snapshot = snapshot_of(all_distinct(40, seed=3, types=4))
    by_price = load_policy(policy).allocate(snapshot).certificate
    monkeypatch.setattr(sums, "FEW", 1_000_000)
    monkeypatch.setattr("gavelx.solvers.price_engine.dense_program.FEW", 1_000_000)
    at_once = load_policy(policy).allocate(snapshot).certificate
    assert (by_price.objective, by_price.bound) == pytest.approx((at_once.objective, at_once.bound), rel=1e-9)
    assert at_once.path == "highs"
