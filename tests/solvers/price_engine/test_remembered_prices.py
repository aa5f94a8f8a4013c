"""The prices of the last answer make the next search short, and change nothing else."""

import numpy as np
import pytest

from benchmarks.instances import Instance, all_distinct, snapshot_of
from gavelx.allocation import Allocation
from gavelx.memory import Memory
from gavelx.policies import load_policy
from gavelx.solvers.price_engine.dense_program import MEMORY

JOBS, TYPES = 600, 4
EVERY = all_distinct(JOBS, seed=5, types=TYPES)


def asked(instance: Instance, memory: Memory | None = None) -> Allocation:
    return load_policy("max_min_fairness").allocate(snapshot_of(instance).replace(memory=memory or {}))


@pytest.mark.parametrize("left", [1, 6, 60, 400])
def test_jobs_get_the_same_with_prices_from_before(left: int) -> None:
    before, instance = asked(EVERY), EVERY.where(np.arange(JOBS) >= left)
    warm, cold = asked(instance, before.memory), asked(instance)
    assert warm.throughput_J == pytest.approx(cold.throughput_J, rel=1e-9)
    assert warm.certificate.objective == pytest.approx(cold.certificate.objective, rel=1e-9)
    assert warm.certificate.bound == pytest.approx(cold.certificate.bound, rel=1e-9)


def test_one_job_less_is_one_round() -> None:
    warm = asked(EVERY.where(np.arange(JOBS) > 0), asked(EVERY).memory)
    assert warm.certificate.path == "prices, 1 rounds"


@pytest.mark.parametrize(
    "wrong",
    [
        np.ones(TYPES + 3) * JOBS,
        np.array([1.0, 0.0, 0.0, 0.0, 0.5, 0.5, JOBS]),
        np.array([1e300, 1.0, 1e-300, 1.0, 1e9, 1.0, JOBS]),
        np.array([1.0, 1.0, 1.0, 1.0, 0.0, 1e-9, JOBS]),
        np.ones(3),
        np.ones(TYPES + 1) * JOBS,
        np.zeros(TYPES + 3),
        np.full(TYPES + 3, np.nan),
        np.full(TYPES + 3, -1.0),
        np.ones((2, 2), dtype=bool),
    ],
)
def test_wrong_prices_cost_time_and_nothing_else(wrong: np.ndarray) -> None:
    warm, cold = asked(EVERY, {MEMORY: wrong}), asked(EVERY)
    assert warm.throughput_J == pytest.approx(cold.throughput_J, rel=1e-9)
    assert warm.certificate.bound == pytest.approx(warm.certificate.objective, rel=1e-8)


def test_few_rows_remember_nothing() -> None:
    assert not asked(EVERY.where(np.arange(JOBS) < 50)).memory
