"""Rows that cannot change in a box of prices and levels: what is said of them is what all rows would say."""

import numpy as np
import pytest

from gavelx.asking import ask
from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.snapshot import Snapshot
from gavelx.solvers.price_engine.levels import gains, rows_of
from gavelx.solvers.price_engine.narrowed import MANY, Box, Narrowed
from gavelx.solvers.price_engine.prices import prove, widths
from gavelx.solvers.price_engine.replies import Floats, LinearNeed, Rows, Sizes
from gavelx.throughputs import Setting, Throughputs

G = MANY + 500


def rows(seed: int, kind: str) -> Rows:
    """Jobs on five types, of which each can use most; some saturate early, and some have floors."""
    rng = np.random.default_rng(seed)
    types = 5
    gain_GA = rng.uniform(0.2, 1.0, (G, types)) * (rng.uniform(size=(G, types)) < 0.8)
    gain_GA[:, 0] += 0.1
    sizes = None
    if kind == "sizes":
        gain_GA = np.concatenate([gain_GA, 1.7 * gain_GA], axis=1)
        sizes = Sizes(np.tile(np.arange(types), 2), np.repeat([1.0, 2.0], types))
    capacity_A = np.full(types, G / 16.0)
    gain_VG, best_G = gains(gain_GA, capacity_A, sizes)
    floor_G = (
        np.where(rng.uniform(size=G) < 0.3, rng.uniform(0.0, 0.5, G), 0.0) if kind == "floors" else np.zeros(G)
    )
    constant_G = rng.uniform(-0.2, 0.2, G) if kind == "constants" else np.zeros(G)
    need = LinearNeed(constant_G, rng.uniform(0.5, 5.0, G), best_G, floor_G * best_G)
    return rows_of(gain_VG, rng.integers(1, 4, G).astype(float), capacity_A, need, sizes)


def inside(box: Box, rng: np.random.Generator) -> tuple[Floats, float]:
    """Prices and a level somewhere in the box, often at its edge."""
    low_A, high_A = box.edges_A
    at_A = np.clip(rng.uniform(-0.3, 1.3, len(low_A)), 0.0, 1.0)
    return low_A + at_A * (high_A - low_A), float(rng.choice([*box.levels, rng.uniform(*box.levels)]))


def narrowed(table: Rows, size: float) -> Narrowed:
    prices = prove(table, np.linspace(1.0, 2.0, table.A), 0.5)
    width_A = widths(prices.price_A, table.devices_A)
    return Narrowed.to(Box(prices.price_A, width_A, prices.upper, prices.level_width, size), table)


@pytest.mark.parametrize("kind", ["plain", "floors", "constants", "sizes"])
@pytest.mark.parametrize("size", [1e-4, 5e-3])
@pytest.mark.parametrize("seed", range(3))
def test_few_rows_and_two_sums_cost_what_all_rows_cost(seed: int, size: float, kind: str) -> None:
    table, rng = rows(seed, kind), np.random.default_rng(seed)
    near = narrowed(table, size)
    assert len(near.rows) < len(table), "nothing was left out"
    for _ in range(10):
        price_A, level = inside(near.box, rng)
        assert near.excess(price_A, level) == pytest.approx(table.excess(price_A, level), rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("types", [1, 2])
def test_thousands_of_different_jobs_that_all_run_on_one_type_only(types: int) -> None:
    """No row is near a tie."""
    names = ["v100", "k80"][:types]
    speeds = {Setting(f"job {i}", names[i % types]): 1.0 + i / 100 for i in range(G)}
    jobs = [Job(i, f"job {i}", 100.0) for i in range(G)]
    snapshot = Snapshot.of(jobs, Cluster.of(dict.fromkeys(names, 4)), Throughputs(speeds))
    allocation = ask(load_policy("max_min_fairness"), snapshot)
    assert allocation.certificate.path.startswith("prices")
    assert allocation.share_JA.sum(axis=1) == pytest.approx(4.0 * types / G, rel=1e-6)


@pytest.mark.parametrize("kind", ["plain", "floors", "constants", "sizes"])
def test_shares_of_all_rows_are_those_that_are_cheapest(kind: str) -> None:
    table, rng = rows(7, kind), np.random.default_rng(7)
    near = narrowed(table, 1e-3)
    for _ in range(5):
        price_A, level = inside(near.box, rng)
        few_KV = near.rows.cheapest(price_A, level)
        used_A = table.used(near.shares(level, few_KV))
        others_A = near.others(level)[0]
        assert used_A == pytest.approx(others_A + near.rows.used(few_KV), rel=1e-11)
        cheapest_A = table.used(table.cheapest(price_A, level))
        assert (used_A * price_A).sum() == pytest.approx((cheapest_A * price_A).sum(), rel=1e-11)


def test_outside_the_box_all_rows_are_asked() -> None:
    table = rows(1, "plain")
    near = narrowed(table, 1e-3)
    price_A, level = near.box.price_A, near.box.level
    for there in ((price_A * 1.5, level), (price_A, level * 0.9), (price_A[::-1].copy(), level)):
        assert near.excess(*there) == table.excess(*there)


def test_a_box_with_all_rows_in_question_leaves_none_out() -> None:
    table = rows(2, "plain")
    near = narrowed(table, 10.0)
    assert near.rows is table
    assert near.excess(near.box.price_A, near.box.level) == table.excess(near.box.price_A, near.box.level)
