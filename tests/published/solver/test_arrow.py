"""Symmetric systems in blocks: what a dense solution gives, whatever way they hang together."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from gavelx.published.solver.arrow import LARGEST, arrow_of, joined, parts
from gavelx.published.solver.kernel import Arrow, factored, solution

BLOCKS = st.lists(st.integers(1, 6), min_size=0, max_size=30)


def hubs_and_blocks(sizes: list[int], hubs: int, density: float, seed: int) -> np.ndarray:
    """Blocks of these sizes that meet only in hubs, in mixed order; the diagonal keeps it regular."""
    random, size = np.random.default_rng(seed), sum(sizes) + hubs
    matrix, start = np.zeros((size, size)), 0
    for n in sizes:
        matrix[start : start + n, start : start + n] = random.normal(size=(n, n))
        start += n
    border = random.normal(size=(size, hubs)) * (random.random((size, hubs)) < density)
    matrix[:, size - hubs :] = border
    matrix = matrix + matrix.T + np.diag(random.choice([-1.0, 1.0], size) * 20.0 * np.sqrt(size))
    order = random.permutation(size)
    return matrix[np.ix_(order, order)]


def solver_of(matrix: np.ndarray) -> tuple[Arrow, Callable[[np.ndarray], np.ndarray]]:
    entries = sparse.coo_array(matrix)
    arrow = arrow_of(entries.row.astype(np.int64), entries.col.astype(np.int64), len(matrix))
    is_regular, factors = factored(arrow, entries.data)
    assert is_regular
    return arrow, lambda b: solution(arrow, factors, b)


@given(sizes=BLOCKS, hubs=st.integers(0, 4), density=st.sampled_from([0.0, 0.3, 1.0]), seed=st.integers(0, 999))
def test_it_solves_what_a_dense_solver_does(sizes: list[int], hubs: int, density: float, seed: int) -> None:
    matrix = hubs_and_blocks(sizes or [1], hubs, density, seed)
    b = np.random.default_rng(seed).normal(size=len(matrix))
    _, solve = solver_of(matrix)
    np.testing.assert_allclose(solve(b), np.linalg.solve(matrix, b), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(solve(2.0 * b), 2.0 * solve(b), rtol=1e-12)


@pytest.mark.parametrize("most", [1, 4, 200])
def test_only_those_who_meet_most_are_hubs(most: int) -> None:
    """One hub for a hundred blocks; none where nobody meets anybody; all where everybody meets everybody."""
    one = hubs_and_blocks([3] * 100, 1, 1.0, most)
    assert len(solver_of(one)[0].hubs) == 1
    assert len(solver_of(np.diag(np.arange(1.0, 1.0 + most)))[0].hubs) == 0
    size = LARGEST + most
    whole = np.random.default_rng(0).normal(size=(size, size)) + 4.0 * size * np.eye(size)
    whole += whole.T
    arrow, solve = solver_of(whole)
    assert len(arrow.hubs) == size
    np.testing.assert_allclose(solve(np.ones(size)), np.linalg.solve(whole, np.ones(size)), rtol=1e-9)


def test_blocks_alike_are_solved_alike_to_the_last_bit() -> None:
    """Jobs alike get shares alike, which the published mechanism would take apart otherwise."""
    block = np.array([[2.0, 0.3, 1.0], [0.3, -1.0, 0.7], [1.0, 0.7, 3.0]])
    matrix = np.zeros((301, 301))
    matrix[:300, :300] = np.kron(np.eye(100), block)
    matrix[300, :300] = matrix[:300, 300] = np.tile([0.1, 0.2, 0.3], 100)
    matrix[300, 300] = -1.0
    x_B3 = solver_of(matrix)[1](np.ones(301))[:300].reshape(100, 3)
    assert (x_B3 == x_B3[0]).all()


@pytest.mark.parametrize("where", ["block", "hubs"])
def test_a_singular_system_is_not_solved(where: str) -> None:
    matrix = hubs_and_blocks([2] * 40, 1, 1.0, 3) if where == "block" else np.ones((2 * LARGEST, 2 * LARGEST))
    if where == "block":
        hub = int(np.argmax((matrix != 0).sum(axis=1)))
        some = (hub + 1) % len(matrix)
        other = next(u for u in np.flatnonzero(matrix[some]) if u not in (some, hub))
        matrix[np.ix_([some, other], [some, other])] = 1.0
    with pytest.raises(AssertionError):
        solver_of(matrix)


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=30), st.sets(st.integers(0, 19)))
def test_parts_are_those_that_scipy_finds(pairs: list[tuple[int, int]], hubs: set[int]) -> None:
    u, v = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    is_hub_U = np.isin(np.arange(20), list(hubs))
    assert joined(u, v, is_hub_U).tolist() == parts(u, v, is_hub_U).tolist()
