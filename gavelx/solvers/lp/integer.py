"""A linear program in which some variables are whole numbers, by the branch and cut of HiGHS.

Legend: V variables, K constraints.
"""

from typing import NamedTuple

import numpy as np
from highspy import HighsModelStatus, HighsVarType
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.lp.highs import highs_lp, new_highs, said
from gavelx.solvers.program.errors import OUT_OF_TIME, UnsolvedError
from gavelx.solvers.program.settings import time_is_up

Floats = NDArray[np.float64]
GAP = 1e-6
FEASIBLE = 2
"""What HiGHS calls a solution that satisfies all constraints."""


class IntegerSolution(NamedTuple):
    """An answer in whole numbers, its cost, and the least cost that any answer can have."""

    value_V: Floats
    cost: float
    bound: float


def solve_integer(
    cost_V: Floats,
    bounds_V: tuple[Floats, Floats],
    matrix_KV: sparse.csr_array,
    bounds_K: tuple[Floats, Floats],
    whole_V: NDArray[np.bool_],
) -> IntegerSolution:
    """Minimise ``cost_V . v`` with the variables ``whole_V`` integral, while there is time (`time_is_up`).

    Out of time, the best answer found so far is given with the bound proven so far. Raises :class:`UnsolvedError`
    where there is no answer, or none was found.
    """
    lp = highs_lp(cost_V, bounds_V, matrix_KV, bounds_K)
    lp.integrality_ = [HighsVarType.kInteger if whole else HighsVarType.kContinuous for whole in whole_V]
    if time_is_up():
        raise UnsolvedError(OUT_OF_TIME)
    highs = new_highs()
    for option, value in {"mip_rel_gap": GAP, "mip_feasibility_tolerance": 1e-9}.items():
        highs.setOptionValue(option, value)
    highs.passModel(lp)
    highs.run()
    info, status = highs.getInfo(), highs.getModelStatus()
    if status != HighsModelStatus.kOptimal and info.primal_solution_status != FEASIBLE:
        raise UnsolvedError(said(highs, status))
    return IntegerSolution(
        np.array(highs.getSolution().col_value), info.objective_function_value, info.mip_dual_bound
    )
