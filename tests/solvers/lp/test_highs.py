import gc
import subprocess
import sys

import numpy as np
import pytest
from highspy import Highs
from scipy import sparse

from gavelx.solvers.lp import highs
from gavelx.solvers.lp.highs import LinearProgram

SOLVES = """
import numpy as np
from scipy import sparse
from gavelx.solvers.lp.highs import LinearProgram
from gavelx.solvers.lp.integer import solve_integer

one, none, most = np.ones(2), np.zeros(2), np.array([1.5])
matrix = sparse.csr_array(one[None])
program = LinearProgram(
    objective_V=one, lower_V=none, upper_V=one, matrix_KV=matrix, lower_K=np.zeros(1), upper_K=most
)
assert program.solve()[0].sum() == 1.5
assert solve_integer(-one, (none, one), matrix, (np.zeros(1), most), np.array([True, True])).cost == -1
"""


def test_the_solver_prints_nothing() -> None:
    """Not even its banner, which it prints once a process: so in a process of its own."""
    ran = subprocess.run([sys.executable, "-c", SOLVES], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "")


def random_program(seed: int) -> tuple[LinearProgram, Highs]:
    """Shares of ten jobs on three types, and the solver that it works with."""
    rng = np.random.default_rng(seed)
    limits = sparse.csr_array(np.vstack([np.eye(10).repeat(3, axis=1), rng.random((3, 30))]))
    program = LinearProgram(
        objective_V=rng.random(30) * 10.0 ** float(rng.integers(-6, 7)),
        lower_V=np.zeros(30),
        upper_V=np.ones(30),
        matrix_KV=limits,
        lower_K=np.full(13, -np.inf),
        upper_K=np.append(np.ones(10), rng.random(3)),
        primal=bool(seed % 2),
    )
    return program, program._highs


def test_the_solver_of_a_program_that_is_gone_remembers_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()  # programs of other tests give theirs back when they are found to be gone
    monkeypatch.setattr(highs, "_spare", [])
    answers = []
    for seed in range(20):
        program, _ = random_program(seed)
        answers.append(program.solve())
        del program
        highs._spare.clear()  # so each of these has a new one
    other, used = random_program(0)
    other.solve()
    used.setOptionValue("primal_feasibility_tolerance", 1e-3)  # as the last resort of a hard program does
    del other
    for seed, answer in enumerate(answers):
        program, again = random_program(seed)
        assert again is used
        assert again.getOptionValue("primal_feasibility_tolerance")[1] == highs.TOLERANCE
        for now, before in zip(program.solve(), answer, strict=True):
            np.testing.assert_array_equal(now, before)
        del program, again


def test_a_solver_is_never_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highs, "_spare", [])
    first, second = random_program(1), random_program(2)
    assert first[1] is not second[1]
    del first
    assert random_program(3)[1] is not second[1]
