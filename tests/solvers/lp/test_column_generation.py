"""Few columns first: the optimum of all of them, whatever it began with."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from gavelx.allocation import Allocation
from gavelx.policies import Maximize, NormalizedThroughput, Sum, Throughput, Worst, load_policy, packed
from gavelx.snapshot import Snapshot
from gavelx.solvers import using
from gavelx.solvers.lp import column_generation
from gavelx.solvers.lp.column_generation import ColumnGeneration
from gavelx.solvers.lp.highs import LinearProgram
from gavelx.solvers.program.errors import UnsolvedError
from tests.policies.strategies import snapshots


def drawn(seed: int, K: int, V: int, *, needs: bool) -> dict[str, Any]:
    """Limits on what is used; with ``needs``, some rows ask for more than none of it."""
    random = np.random.default_rng(seed)
    matrix_KV = random.random((K, V)) * (random.random((K, V)) < 0.2)
    in_need_K = needs & (random.random(K) < 0.4)
    return {
        "objective_V": random.normal(0.5, 1.0, V),
        "lower_V": np.zeros(V),
        "upper_V": np.where(random.random(V) < 0.1, 0.0, np.inf),
        "matrix_KV": sparse.csr_array(np.vstack([matrix_KV, np.ones(V)])),
        "lower_K": np.append(np.where(in_need_K, random.random(K) * 0.3, -np.inf), -np.inf),
        "upper_K": np.append(np.where(in_need_K, np.inf, 1.0), 5.0),
    }


def solved(program: LinearProgram) -> tuple[np.ndarray, np.ndarray] | str:
    try:
        return program.solve()
    except UnsolvedError as error:
        return error.status


def agree(sifted: ColumnGeneration, whole: LinearProgram, objective_V: np.ndarray, parts: dict[str, Any]) -> None:
    """The same best value; shares that keep the limits; multipliers with which no variable would gain."""
    one, other = solved(sifted), solved(whole)
    if isinstance(other, str):
        assert one == other
        return
    assert not isinstance(one, str), one
    (value_V, multiplier_K), (best_V, _) = one, other
    assert objective_V @ value_V == pytest.approx(objective_V @ best_V, rel=1e-9, abs=1e-9)
    used_K = parts["matrix_KV"] @ value_V
    assert (used_K <= parts["upper_K"] + 1e-9).all() and (used_K >= parts["lower_K"] - 1e-9).all()
    assert (value_V >= 0).all() and (value_V <= parts["upper_V"]).all()
    gain_V = objective_V - multiplier_K @ parts["matrix_KV"]
    assert (gain_V[parts["upper_V"] > 0] <= 1e-8).all()


@given(
    seed=st.integers(0, 2**32),
    K=st.integers(1, 8),
    V=st.integers(1, 120),
    first=st.integers(1, 30),
    data=st.data(),
)
def test_the_optimum_of_all_columns(seed: int, K: int, V: int, first: int, data: st.DataObject) -> None:
    parts = drawn(seed, K, V, needs=data.draw(st.booleans(), "needs"))
    primal = data.draw(st.booleans(), "primal")
    sifted = ColumnGeneration(first_V=np.arange(V) < first, primal=primal, **parts)
    whole = LinearProgram(primal=primal, **parts)
    agree(sifted, whole, parts["objective_V"], parts)
    random = np.random.default_rng(seed)
    objective_V = random.normal(0.0, 1.0, V)
    for program in (sifted, whole):
        program.set_objective(objective_V)
    agree(sifted, whole, objective_V, parts)
    row, lower = int(random.integers(K)), float(random.random())
    parts["lower_K"][row], parts["upper_K"][row] = lower, np.inf
    for program in (sifted, whole):
        program.set_lower(row, lower)
    agree(sifted, whole, objective_V, parts)
    with_row = parts["matrix_KV"].tolil()
    with_row[row, 0] = 2.0
    parts["matrix_KV"] = with_row.tocsr()
    for program in (sifted, whole):
        program.set_coefficient(row, 0, 2.0)
    agree(sifted, whole, objective_V, parts)


def test_most_columns_never_reach_the_solver() -> None:
    parts = drawn(7, 20, 20_000, needs=False)
    sifted = ColumnGeneration(first_V=np.arange(20_000) < 20, **parts)
    agree(sifted, LinearProgram(**parts), parts["objective_V"], parts)
    assert sifted.columns < 2_000


RATIOS = ("makespan", "finish_time_fairness")
TRADED = Maximize(Worst(NormalizedThroughput()) + 0.01 * Sum(Throughput()))


def same_objective(one: Allocation, other: Allocation) -> None:
    """Both have none where no job can run."""
    a, b = one.certificate.objective, other.certificate.objective
    assert a is b is None or a == pytest.approx(b, rel=1e-8, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["max_min_fairness", *RATIOS, "max_sum_throughput", TRADED], ids=str)
@given(snapshot=snapshots(min_jobs=1, max_jobs=8, extras=True))
def test_policies_whose_programs_are_sifted_answer_the_same(name: str | Maximize, snapshot: Snapshot) -> None:
    policy = packed(load_policy(name) if isinstance(name, str) else name)
    whole = policy.allocate(snapshot)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_generation, "MANY", 0)
        patch.setattr(column_generation, "MANY_A_ROW", 0)
        sifted = policy.allocate(snapshot)
    same_objective(sifted, whole)
    if name in ("max_min_fairness", *RATIOS):  # of the others the optimum is not unique
        np.testing.assert_allclose(sifted.throughput_J, whole.throughput_J, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", RATIOS)
@given(snapshot=snapshots(min_jobs=1, max_jobs=8, extras=True))
def test_the_first_level_alone_is_as_good(name: str, snapshot: Snapshot) -> None:
    for policy in (load_policy(name), packed(load_policy(name))):
        whole = policy.allocate(snapshot)
        with using(lexicographic=False):
            first = policy.allocate(snapshot)
        same_objective(first, whole)
