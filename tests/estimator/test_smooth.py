"""The plain process finds smooth tables again, and opinions are pooled as densities are."""

import itertools
import math

import numpy as np
import pytest

from gavelx.accelerators import NO_DATA_SHEETS
from gavelx.estimator.completion import Completion
from gavelx.estimator.effects import Space
from gavelx.estimator.smooth import PooledLeftOut, Smooth, pooled
from gavelx.measurements import Measurement, Way
from gavelx.throughputs import Pairing, Setting

SIZES, WIDTHS = (8, 16, 32, 64, 128, 256), (1, 2, 4, 8)


def smooth_table(seed: int) -> dict[Way, float]:
    """Logarithms that are smooth in batch size and number of devices, for each model on each device."""
    random, logs = np.random.default_rng(seed), dict[Way, float]()
    for model, device in itertools.product("ab", ("x", "y")):
        level, power, half = random.normal(), random.uniform(0.5, 1.0), math.exp(random.normal(3, 1))
        for size, width in itertools.product(SIZES, WIDTHS):
            way = Setting(f"{model} (batch size {size})", device, width)
            logs[way] = level + power * math.log(width) + math.log(size / (size + half)) + random.normal(0, 0.01)
    return logs


def fitted(logs: dict[Way, float], known: list[Way]) -> tuple[Space, Smooth]:
    space = Space(list(logs), NO_DATA_SHEETS)
    cells = space.cells(known)
    y_N = np.array([logs[way] for way in known]) - cells.prior_N
    return space, Smooth.of(space, cells, y_N, np.zeros(len(known)))


def test_a_smooth_table_is_found_again_from_a_third_of_it() -> None:
    logs = smooth_table(1)
    known, hidden = list(logs)[::3], [way for n, way in enumerate(logs) if n % 3]
    space, smooth = fitted(logs, known)
    wanted = space.cells(hidden)
    mean_M, sd_M = smooth.ask(space, wanted, space.cells(known))
    off_M = mean_M + wanted.prior_N - np.array([logs[way] for way in hidden])
    assert np.median(np.abs(off_M)) < 0.03
    assert 0.8 <= np.mean(np.abs(off_M) < 1.645 * sd_M) <= 1.0


def test_pairs_are_not_looked_at() -> None:
    logs = smooth_table(2)
    pair = Pairing("a (batch size 8)", "b (batch size 8)", "x")
    known = list(logs)[::3]
    _, without = fitted(logs, known)
    _, smooth = fitted({**logs, pair: 5.0}, [pair, *known])
    assert smooth.theta == pytest.approx(without.theta)
    assert (smooth.at_n == np.arange(1, len(known) + 1)).all()


def test_nothing_alone_is_nothing_to_say() -> None:
    pair = Pairing("a", "b", "x")
    _, smooth = fitted({pair: 1.0}, [pair])
    assert not len(smooth.at_n)


def test_the_pool_is_the_geometric_mean_of_both_densities_and_wider_where_they_differ() -> None:
    where = np.array([True, False])
    mean, sd = pooled((np.array([1.0, 5.0]), np.array([0.5, 2.0])), (np.array([3.0]), np.array([1.0])), where)
    x = np.linspace(-3.0, 6.0, 20001)
    log = -(((x - 1.0) / 0.5) ** 2) / 4 - ((x - 3.0) / 1.0) ** 2 / 4
    density = np.exp(log) / np.exp(log).sum()
    assert mean[0] == pytest.approx((x * density).sum(), abs=1e-4)
    apart = 0.8 * (mean[0] - 1.0) ** 2 + 0.2 * (mean[0] - 3.0) ** 2  # precisions are 4 and 1
    assert sd[0] == pytest.approx(math.sqrt(((x - mean[0]) ** 2 * density).sum() + apart), abs=1e-4)
    assert (mean[1], sd[1]) == (5.0, 2.0), "without a second opinion the first one stands"


def test_two_equal_opinions_are_no_surer_than_one() -> None:
    one = np.array([1.0]), np.array([0.3])
    mean, sd = pooled(one, one, np.array([True]))
    assert (mean[0], sd[0]) == pytest.approx((1.0, 0.3))


def test_cells_left_out_of_both_are_pooled_where_both_know_them() -> None:
    logs = smooth_table(3)
    known = list(logs)[::3]
    _, smooth = fitted(logs, known)
    left_out, none = smooth.solved.left_out(), np.full(len(known), -1)
    both = PooledLeftOut(left_out, left_out, np.arange(len(known)))
    first = PooledLeftOut(left_out, left_out, none)
    some = np.array([0, 3, 4])
    for pool in (both, first):  # two equal opinions, or one alone
        assert pool.each().error_N == pytest.approx(left_out.each().error_N)
        assert pool.together(some).sd_N == pytest.approx(left_out.together(some).sd_N)


def test_estimates_do_not_depend_on_the_unit_of_steps() -> None:
    logs = smooth_table(4)
    known, hidden = list(logs)[::4], list(logs)[1:9:3]

    def asked(unit: float) -> list[float]:
        estimator = Completion(NO_DATA_SHEETS)
        estimator.observe(Measurement(way, unit * math.exp(logs[way])) for way in known)
        return [one.steps_per_second / unit for one in estimator.estimate(hidden)]

    assert asked(1e3) == pytest.approx(asked(1.0), rel=1e-4)


def test_the_search_has_come_to_an_end_that_does_not_depend_on_the_last_bits() -> None:
    """Kernels of processors add in other orders, which moves the logarithms that are fitted to."""
    logs = smooth_table(5)
    known = list(logs)[::3]
    _, smooth = fitted(logs, known)
    for seed in range(3):
        random = np.random.default_rng(seed)
        nudged = {way: log * (1 + 1e-13 * random.normal()) for way, log in logs.items()}
        _, other = fitted(nudged, known)
        assert (other.theta == smooth.theta).all()
