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

from gavelx.published.solver.cones import Cones, Scaling
from gavelx.published.solver.newton import Equations, dot, norm
from gavelx.published.solver.one_thread import one_thread
from gavelx.solvers.program.errors import OUT_OF_TIME, UnsolvedError
from gavelx.solvers.program.settings import time_is_up

Floats = NDArray[np.float64]
TOLERANCE, STEPS = 1e-8, 100
ALMOST = 5e-5
"""How far off a point may be that no step leads on from."""
SCALINGS, TINY = 3, 1e-3
"""How often rows and columns are scaled; those that are smaller are left as they are."""
INSIDE, STEP = 0.99, (1e-6, 0.999)
"""Which part of the way to the border is gone, and the least and greatest step."""
CENTRING = (1e-4, 1.0)


@one_thread()
def embedded_program(
    cost_V: Floats, matrix_LV: sparse.csr_array, limit_L: Floats, second_order: int = 0
) -> tuple[Floats, Floats]:
    """Minimise ``cost . v`` with ``limit - matrix @ v`` >= 0, its last rows in second-order cones, three by three.

    Returns v and the multipliers of the rows. Raises :class:`UnsolvedError`.
    """
    cones = Cones(len(limit_L) - 3 * second_order, second_order)
    G, row_L, column_V = _equilibrated(matrix_LV, cones)
    c, h = cost_V / column_V, limit_L / row_L
    (L, V), row_E, column_E = G.shape, np.arange(len(h)).repeat(np.diff(G.indptr)), G.indices
    equations = Equations(G, cones)
    x, s, z = _first(equations, c, h)
    tau, kappa, unit = 1.0, 1.0, cones.unit()
    size_x, size_z = max(1.0, norm(c)), max(1.0, norm(h))
    for _ in range(STEPS):
        if time_is_up():
            raise UnsolvedError(OUT_OF_TIME)
        GTz = np.bincount(column_E, G.data * z[row_E], V)  # quicker than a sparse product where it is small
        Gx = np.bincount(row_E, G.data * x[column_E], L)
        rx, rz, rt = -GTz - tau * c, s + Gx - tau * h, kappa + dot(c, x) + dot(h, z)
        gap = dot(s, z)
        mu = (gap + kappa * tau) / (cones.degree + 1)
        of_z = norm(rz) / (size_z + norm(x) + norm(s))
        missed = max(of_z, norm(rx) / (size_x + norm(z))) / tau
        off = max(missed, gap / max(1.0, abs(dot(c, x)) / tau))
        point = x / (tau * column_V), z / (tau * row_L)
        if off < TOLERANCE:
            return point
        try:
            W = Scaling(cones, s, z)
        except UnsolvedError:
            if off < ALMOST:
                return point
            raise
        solve = equations.scaled_by(W)
        x1, z1 = solve(-c, h)
        slope = kappa / tau - dot(c, x1) - dot(h, z1)
        x2, z2 = solve(rx, s - rz)
        dtau = (rt - kappa + dot(c, x2) + dot(h, z2)) / slope
        dz = W.by(z2 + dtau * z1)
        ds, dkappa = -dz - W.lam, -kappa - kappa / tau * dtau
        far = _step(W, ds, dz, (tau, dtau), (kappa, dkappa))
        sigma = float(np.clip((1.0 - far) ** 3, *CENTRING))
        target = W.over(cones.product(W.lam, W.lam) + cones.product(ds, dz) - sigma * mu * unit)
        bkappa = kappa * tau + dkappa * dtau - sigma * mu
        x2, z2 = solve((1.0 - sigma) * rx, W.by(target) - (1.0 - sigma) * rz)
        dtau = ((1.0 - sigma) * rt - bkappa / tau + dot(c, x2) + dot(h, z2)) / slope
        dx, dz = x2 + dtau * x1, z2 + dtau * z1
        scaled_dz = W.by(dz)
        ds, dkappa = -(target + scaled_dz), -(bkappa + kappa * dtau) / tau
        step = INSIDE * _step(W, ds, scaled_dz, (tau, dtau), (kappa, dkappa))
        x, s, z = x + step * dx, s + W.by(ds, step), z + step * dz
        tau, kappa = float(tau + step * dtau), float(kappa + step * dkappa)
        if not (np.isfinite(x).all() and tau > TOLERANCE * kappa):
            raise UnsolvedError("no interior point")
    raise UnsolvedError("iteration limit reached")


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
            size = np.sqrt(size if k else cones.alike(size))
            size[size < TINY] = 1.0
            G.data *= (1.0 / size)[at_E]
            by[k] *= size
    return G, *by


def _first(equations: Equations, c: Floats, h: Floats) -> tuple[Floats, Floats, Floats]:
    """The shares with the least slack and the multipliers of least size, both moved inside."""
    cones, unit = equations.cones, equations.cones.unit()
    solve = equations.scaled_by(Scaling(cones, unit, unit))
    x, minus_r = solve(np.zeros(len(c)), h)
    _, z = solve(-c, np.zeros(len(h)))
    return x, _inside(cones, -minus_r), _inside(cones, z)


def _inside(cones: Cones, r: Floats) -> Floats:
    depth, unit = cones.depth(r), cones.unit()
    return r + unit + max(-INSIDE, float((-depth[depth <= 0]).max(initial=-INSIDE))) * unit


def _step(W: Scaling, ds: Floats, dz: Floats, *others: tuple[float, float]) -> float:
    """How far it is to the border, in scaled variables."""
    far = 1.0 / max(W.room(ds), W.room(dz), 1e-13)
    for value, change in others:
        if change < 0:
            far = min(far, -value / change)
    return float(np.clip(far, *STEP))
