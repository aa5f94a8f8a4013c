"""The interior point compiled, and as it is: the same bits."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

SOLVE = """
from gavelx.published.solver.embedding import embedded_program
from gavelx.published.solver.kernel import IS_COMPILED
from tests.published.solver.test_interior import program, ratios

print(IS_COMPILED)
for seed in range(6):
    for second_order, stated in ((0, program(seed)), *((jobs, ratios(seed, jobs)) for jobs in (1, 3, 12, 60))):
        print(*(part.tobytes().hex() for part in embedded_program(*stated, second_order=second_order)))
"""


def answers(compiled: str) -> list[str]:
    environment = os.environ | {"GAVELX_COMPILED": compiled}
    done = subprocess.run(
        [sys.executable, "-c", SOLVE], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
def test_a_compiler_changes_no_bit() -> None:
    (is_compiled, *theirs), (is_not, *ours) = answers("1"), answers("0")
    assert (is_compiled, is_not) == ("True", "False")
    assert len(ours) == 30
    assert theirs == ours
