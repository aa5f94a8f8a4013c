"""Proportional fairness by the interior point that eliminates jobs, against Clarabel's exponential cones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gavelx.policies import load_policy
from gavelx.snapshot import Snapshot
from gavelx.solvers.conic.logarithms import OwnLogs
from gavelx.solvers.conic.proportional import STEPS, ProportionalProgram
from tests.policies.strategies import snapshots


def hard(random: np.random.Generator, rows: int, types: int, each: float) -> tuple[NDArray[np.float64], ...]:
    """Ties, types of no use, equal rows, weights over six orders, few devices and plenty of them."""
    gain_GA = random.choice([0.0, 1.0, 2.0, random.uniform(0.1, 1e4)], (rows, types))
    gain_GA[:, 0] = random.uniform(0.5, 2.0, rows)
    weight_G, load_G = 10.0 ** random.uniform(-3, 3, rows), random.integers(1, 9, rows).astype(float)
    devices_A = np.ceil(random.uniform(0.0, each * rows, types))
    devices_A[0] += 1.0
    return gain_GA, weight_G, load_G, devices_A


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 30),
    types=st.integers(1, 5),
    each=st.sampled_from([0.3, 1.0, 4.0, 50.0]),
)
def test_value_and_bound_meet_whatever_the_data(seed: int, rows: int, types: int, each: float) -> None:
    gain_GA, weight_G, load_G, devices_A = hard(np.random.default_rng(seed), rows, types, each)
    found = ProportionalProgram(gain_GA, weight_G, load_G, devices_A).solve()
    assert (found.share_GA >= 0).all()
    assert found.share_GA.sum(axis=1).max() <= 1 + 1e-12
    assert (load_G @ found.share_GA <= devices_A * (1 + 1e-12)).all()
    reached = float((weight_G * np.log((gain_GA * found.share_GA).sum(axis=1))).sum())
    assert reached == pytest.approx(found.value, rel=1e-12, abs=1e-12 * weight_G.sum())
    assert 0 <= found.bound - found.value + 1e-12 * abs(found.value) <= 1e-9 * weight_G.sum()


def test_costs_do_not_lag_behind_products() -> None:
    """Where products were let vanish first, rounding won before the bound met the value in 3 of these 100."""
    for seed in range(100):
        random = np.random.default_rng(seed)
        rows, types, each = random.integers(1, 60), random.integers(1, 9), random.choice([0.05, 0.3, 1.0, 3.0])
        found = ProportionalProgram(*hard(random, int(rows), int(types), float(each))).solve()
        assert found.steps < STEPS, seed


@settings(max_examples=8)
@given(snapshot=snapshots(max_jobs=6, max_types=3))
@pytest.mark.parametrize("policy", ["nash_welfare", "strategy_proof"])
def test_speeds_are_those_of_the_cone_program(policy: str, snapshot: Snapshot) -> None:
    """Speeds in the optimum are unique; what is withheld from each job follows from them."""
    answer = load_policy(policy).allocate(snapshot)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OwnLogs, "of", staticmethod(lambda *_: None))
        other = load_policy(policy).allocate(snapshot)
    assert "interior point" not in other.certificate.path
    assert answer.throughput_J == pytest.approx(other.throughput_J, rel=2e-5, abs=1e-9)


def test_programs_without_a_row_are_as_if_it_were_not_there() -> None:
    random = np.random.default_rng(4)
    gain_GA, weight_G = random.uniform(0.5, 2.0, (12, 3)), random.uniform(1.0, 3.0, 12)
    load_G, devices_A = np.ones(12), np.array([1.0, 2.0, 1.0])
    program = ProportionalProgram(gain_GA, weight_G, load_G, devices_A)
    without_G, best_G = program.without(weight_G, load_G), gain_GA.max(axis=1)
    for g in range(12):
        keep = np.arange(12) != g
        alone = ProportionalProgram(gain_GA[keep], weight_G[keep], load_G[keep], devices_A).solve()
        assert without_G[g] == pytest.approx(alone.value - (weight_G * np.log(best_G))[keep].sum(), abs=1e-8)
    halved_G, half = program.without(weight_G / 2, load_G / 2), np.where(np.arange(12) == 5, 0.5, 1.0)
    alone = ProportionalProgram(gain_GA, weight_G * half, load_G * half, devices_A).solve()
    assert halved_G[5] == pytest.approx(alone.value - (weight_G * half * np.log(best_G)).sum(), abs=1e-8)
