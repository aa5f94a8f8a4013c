"""Linear and second-order cone programs by the method of the published systems' solver, step by step as it does.

Where an optimum is not unique, the point that an interior-point solver ends at depends on where it begins and
how far it steps; to repeat a published schedule is to repeat those. This is the homogeneous self-dual embedding
with Mehrotra's predictor and corrector and the constants of ECOS: A. Domahidi, E. Chu and S. Boyd, "ECOS: an SOCP
solver for embedded systems" (European Control Conference 2013), section III; the first point is that of L.
Vandenberghe, "The CVXOPT linear and quadratic cone program solvers" (2010), section 5.3; the scaling of rows and
columns is D. Ruiz's (2001). Names are those of the papers.

Legend: V variables, L rows, E entries.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.published.solver.kernel import (
    AT_ONCE,
    DONE,
    GOES_ON,
    NO_INTERIOR,
    SINGULAR,
    Cones,
    Program,
    equilibrated,
    first_point,
    norm,
    some_steps,
)
from gavelx.published.solver.newton import pattern_of
from gavelx.published.solver.one_thread import one_thread
from gavelx.solvers.program.errors import OUT_OF_TIME, UnsolvedError
from gavelx.solvers.program.settings import time_is_up

Floats = NDArray[np.float64]
STEPS = 100
WHY_NOT = {GOES_ON: "iteration limit reached", SINGULAR: "a singular system", NO_INTERIOR: "no interior point"}


@one_thread()
def embedded_program(
    cost_V: Floats, matrix_LV: sparse.csr_array, limit_L: Floats, second_order: int = 0
) -> tuple[Floats, Floats]:
    """Minimise ``cost . v`` with ``limit - matrix @ v`` >= 0, its last rows in second-order cones, three by three.

    Returns v and the multipliers of the rows. Raises :class:`UnsolvedError`.
    """
    cones = Cones(len(limit_L) - 3 * second_order, second_order)
    G = matrix_LV.copy()
    G.sum_duplicates()
    G.eliminate_zeros()
    row_E, column_E = np.arange(len(limit_L)).repeat(np.diff(G.indptr)), G.indices.astype(np.int64)
    G_E, row_L, column_V = equilibrated(row_E, column_E, G.data, len(cost_V), cones)
    c, h = cost_V / column_V, limit_L / row_L
    sizes = max(1.0, norm(c)), max(1.0, norm(h))
    program = Program(c, h, *sizes, G_E, row_E, column_E, cones, pattern_of(G, cones))
    state, point = first_point(program)
    for _ in range(0, STEPS, AT_ONCE):
        if state == GOES_ON:
            if time_is_up():
                raise UnsolvedError(OUT_OF_TIME)
            state, point = some_steps(program, point)
    if state == DONE:
        return point.x / (point.tau * column_V), point.z / (point.tau * row_L)
    raise UnsolvedError(WHY_NOT[state])
