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
    DONE,
    GOES_ON,
    NO_INTERIOR,
    SINGULAR,
    Cones,
    Program,
    first_point,
    next_point,
    norm,
)
from gavelx.published.solver.newton import pattern_of
from gavelx.published.solver.one_thread import one_thread
from gavelx.solvers.program.errors import OUT_OF_TIME, UnsolvedError
from gavelx.solvers.program.settings import time_is_up

Floats = NDArray[np.float64]
STEPS = 100
SCALINGS, TINY = 3, 1e-3
"""How often rows and columns are scaled; those that are smaller are left as they are."""
WHY_NOT = {GOES_ON: "iteration limit reached", SINGULAR: "a singular system", NO_INTERIOR: "no interior point"}


@one_thread()
def embedded_program(
    cost_V: Floats, matrix_LV: sparse.csr_array, limit_L: Floats, second_order: int = 0
) -> tuple[Floats, Floats]:
    """Minimise ``cost . v`` with ``limit - matrix @ v`` >= 0, its last rows in second-order cones, three by three.

    Returns v and the multipliers of the rows. Raises :class:`UnsolvedError`.
    """
    cones = Cones(len(limit_L) - 3 * second_order, second_order)
    G, row_L, column_V = _equilibrated(matrix_LV, cones)
    row_E, column_E = np.arange(len(limit_L)).repeat(np.diff(G.indptr)), G.indices.astype(np.int64)
    c, h = cost_V / column_V, limit_L / row_L
    sizes = max(1.0, norm(c)), max(1.0, norm(h))
    program = Program(c, h, *sizes, G.data, row_E, column_E, cones, pattern_of(G, cones))
    state, point = first_point(program)
    for _ in range(STEPS):
        if state == GOES_ON:
            if time_is_up():
                raise UnsolvedError(OUT_OF_TIME)
            state, point = next_point(program, point)
    if state == DONE:
        return point.x / (point.tau * column_V), point.z / (point.tau * row_L)
    raise UnsolvedError(WHY_NOT[state])


def _equilibrated(matrix_LV: sparse.csr_array, cones: Cones) -> tuple[sparse.csr_array, Floats, Floats]:
    """The matrix with rows and columns of about the same size, and what they were divided by."""
    G = matrix_LV.copy()
    G.sum_duplicates()
    G.eliminate_zeros()
    entries = np.arange(G.shape[0]).repeat(np.diff(G.indptr)), G.indices
    by = [np.ones(n) for n in G.shape]
    for _ in range(SCALINGS):
        size_E = abs(G.data)
        for k, at_E in enumerate(entries):
            size = np.zeros(G.shape[k])
            np.maximum.at(size, at_E, size_E)
            size = np.sqrt(size if k else _alike(cones, size))
            size[size < TINY] = 1.0
            G.data *= (1.0 / size)[at_E]
            by[k] *= size
    return G, *by


def _alike(cones: Cones, size_L: Floats) -> Floats:
    """One size for all rows of a cone: their sum."""
    size_N, size_K3 = np.split(size_L, [cones.nonnegative])
    return np.concatenate([size_N, size_K3.reshape(-1, 3).sum(axis=1).repeat(3)])
