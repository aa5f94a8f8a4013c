import subprocess
import sys

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
