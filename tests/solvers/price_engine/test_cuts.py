"""First prices by cuts: what they prove is near the best, and prices that fail are taken back."""

import numpy as np
import pytest

from gavelx.solvers.price_engine import cuts
from gavelx.solvers.price_engine.cuts import prices_by_cuts
from gavelx.solvers.price_engine.levels import gains, rows_of
from gavelx.solvers.price_engine.prices import Start, prove
from gavelx.solvers.price_engine.replies import LinearNeed, RatioNeed, Rows, Sizes
from gavelx.solvers.price_engine.search import find_level
from gavelx.solvers.program.errors import UnsolvedError


def rows(seed: int, kind: str, devices: float, G: int = 150, sizes: int = 6) -> Rows:
    """Jobs in several sizes on three types, of which one is twenty times as fast as another."""
    rng = np.random.default_rng(seed)
    width_S = np.arange(1.0, sizes + 1.0)
    fast_GA = np.array([20.0, 4.0, 1.0]) * rng.uniform(0.3, 3.0, (G, 3))
    gain_GV = (fast_GA[..., None] * width_S ** rng.uniform(0.2, 0.95, (G, 3))[..., None]).reshape(G, -1)
    columns = Sizes(np.arange(3).repeat(sizes), np.tile(width_S, 3))
    capacity_A = np.maximum(sizes, np.round(devices * G * np.array([0.2, 0.3, 0.5])))
    gain_VG, best_G = gains(gain_GV, capacity_A, columns)
    if kind == "ratio":
        need = RatioNeed(rng.uniform(0, 1e4, G), 10.0 ** rng.uniform(2, 5, G), np.full(G, 1e3), best_G)
    else:
        need = LinearNeed(np.zeros(G), rng.uniform(0.5, 2.0, G), best_G, np.full(G, -np.inf))
    return rows_of(gain_VG, np.ones(G), capacity_A, need, columns)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("devices", [0.25, 1.0, 3.0])
@pytest.mark.parametrize("kind", ["ratio", "level"])
def test_the_first_prices_prove_almost_the_best_level(kind: str, devices: float, seed: int) -> None:
    table = rows(seed, kind, devices)
    cap = float(np.median(table.need.cap_G))
    best = find_level(table, start=Start(np.ones(3)), level=cap).prices
    equal = prove(table, np.ones(3), cap)
    start, reach = prices_by_cuts(table, cap)
    assert (level := start.level) is not None
    assert level == pytest.approx(prove(table, start.price_A, cap).upper, rel=1e-3)
    assert best.upper - 1e-6 * abs(best.upper) <= level <= equal.upper
    assert level - best.upper <= 0.05 * (equal.upper - best.upper)
    assert 2.0 * cuts.NEAR <= reach <= 2.0 * cuts.FAR


def test_where_the_small_program_fails_the_best_prices_so_far_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def gives_up(*_: object) -> None:
        raise UnsolvedError("no optimum")

    monkeypatch.setattr(cuts, "_mixture", gives_up)
    table = rows(0, "level", 1.0)
    start, _ = prices_by_cuts(table, 1.0)
    assert (np.diff(start.price_A) < 0).all()  # as fast as the types are
    assert start.level == pytest.approx(prove(table, start.price_A, 1.0).upper, rel=1e-3)


@pytest.mark.parametrize("kind", ["ratio", "level"])
def test_what_all_rows_use_is_what_their_cheapest_shares_take(kind: str) -> None:
    table = rows(3, kind, 1.0)
    prices = prove(table, np.array([3.0, 2.0, 1.0]), 1.0)
    use_A, rise_A = table.usage(prices.price_A, prices.upper)
    assert use_A == pytest.approx(table.used(table.cheapest(prices.price_A, prices.upper)))
    step = 1e-7 * abs(prices.upper)
    more_A = table.used(table.cheapest(prices.price_A, prices.upper + step))
    assert (more_A - use_A) / step == pytest.approx(rise_A, rel=1e-3, abs=1e-3 * float(np.abs(rise_A).max()))
