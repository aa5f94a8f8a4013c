"""Linear and second-order cone programs by the method of the published systems' solver, step by step as it does.

Where an optimum is not unique, the point that an interior-point solver ends at depends on where it begins and
how far it steps; to repeat a published schedule is to repeat those. This is the homogeneous self-dual embedding
with Mehrotra's predictor and corrector and the constants of ECOS: A. Domahidi, E. Chu and S. Boyd, "ECOS: an SOCP
solver for embedded systems" (European Control Conference 2013), section III; the first point is that of L.
Vandenberghe, "The CVXOPT linear and quadratic cone program solvers" (2010), section 5.3; the scaling of rows and
columns is D. Ruiz's (2001). Names are those of the papers.

Legend: V variables, L rows, E entries.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.arrow import Arrow
from gavelx.solvers.cones import Cones, Scaling
from gavelx.solvers.highs import OUT_OF_TIME, UnsolvedError
from gavelx.solvers.settings import left_s

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
TOLERANCE, STEPS = 1e-8, 100
ALMOST = 5e-5
"""How far off a point may be that no step leads on from."""
SCALINGS, TINY = 3, 1e-3
"""How often rows and columns are scaled; those that are smaller are left as they are."""
INSIDE, STEP = 0.99, (1e-6, 0.999)
"""Which part of the way to the border is gone, and the least and greatest step."""
CENTRING = (1e-4, 1.0)
REGULAR, REFINED, ROUNDING = 7e-8, 9, 1e-14
"""What makes the equations regular, how often their solution is refined at most, and where that ends."""


def embedded_program(
    cost_V: Floats, matrix_LV: sparse.csr_array, limit_L: Floats, second_order: int = 0
) -> tuple[Floats, Floats]:
    """Minimise ``cost . v`` with ``limit - matrix @ v`` >= 0, its last rows in second-order cones, three by three.

    Returns v and the multipliers of the rows. Raises :class:`UnsolvedError`.
    """
    cones = Cones(len(limit_L) - 3 * second_order, second_order)
    G, row_L, column_V = _equilibrated(matrix_LV, cones)
    c, h, GT = cost_V / column_V, limit_L / row_L, G.T
    equations = _Equations(G, cones)
    x, s, z = _first(equations, c, h)
    tau, kappa, unit = 1.0, 1.0, cones.unit()
    size_x, size_z = max(1.0, _norm(c)), max(1.0, _norm(h))
    for _ in range(STEPS):
        if not left_s():
            raise UnsolvedError(OUT_OF_TIME)
        rx, rz, rt = -(GT @ z) - tau * c, s + G @ x - tau * h, kappa + c @ x + h @ z
        gap = float(s @ z)
        mu = (gap + kappa * tau) / (cones.degree + 1)
        of_z = _norm(rz) / (size_z + _norm(x) + _norm(s))
        missed = max(of_z, _norm(rx) / (size_x + _norm(z))) / tau
        off = max(missed, gap / max(1.0, float(abs(c @ x)) / tau))
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
        slope = kappa / tau - c @ x1 - h @ z1
        x2, z2 = solve(rx, s - rz)
        dtau = float((rt - kappa + c @ x2 + h @ z2) / slope)
        dz = W.by(z2 + dtau * z1)
        ds, dkappa = -dz - W.lam, -kappa - kappa / tau * dtau
        far = _step(W, ds, dz, (tau, dtau), (kappa, dkappa))
        sigma = float(np.clip((1.0 - far) ** 3, *CENTRING))
        target = W.over(cones.product(W.lam, W.lam) + cones.product(ds, dz) - sigma * mu * unit)
        bkappa = kappa * tau + dkappa * dtau - sigma * mu
        x2, z2 = solve((1.0 - sigma) * rx, W.by(target) - (1.0 - sigma) * rz)
        dtau = float(((1.0 - sigma) * rt - bkappa / tau + c @ x2 + h @ z2) / slope)
        dx, dz = x2 + dtau * x1, z2 + dtau * z1
        scaled_dz = W.by(dz)
        ds, dkappa = -(target + scaled_dz), -(bkappa + kappa * dtau) / tau
        step = INSIDE * _step(W, ds, scaled_dz, (tau, dtau), (kappa, dkappa))
        x, s, z = x + step * dx, s + W.by(ds, step), z + step * dz
        tau, kappa = float(tau + step * dtau), float(kappa + step * dkappa)
        if not (np.isfinite(x).all() and tau > TOLERANCE * kappa):
            raise UnsolvedError("no interior point")
    raise UnsolvedError("iteration limit reached")


def _norm(v: Floats) -> float:
    return float(np.linalg.norm(v))


def _equilibrated(matrix_LV: sparse.csr_array, cones: Cones) -> tuple[sparse.csr_array, Floats, Floats]:
    """The matrix with rows and columns of about the same size, and what they were divided by."""
    G = matrix_LV.copy()
    G.sum_duplicates()
    G.eliminate_zeros()
    (L, V), entries = G.shape, (np.arange(G.shape[0]).repeat(np.diff(G.indptr)), G.indices)
    by = [np.ones(L), np.ones(V)]
    for _ in range(SCALINGS):
        size_LV = abs(G)
        for k, at_E in enumerate(entries):
            size = size_LV.max(axis=1 - k).toarray()
            size = np.sqrt(size if k else cones.alike(size))
            size[size < TINY] = 1.0
            G.data *= (1.0 / size)[at_E]
            by[k] = by[k] * size
    return G, *by


def _first(equations: "_Equations", c: Floats, h: Floats) -> tuple[Floats, Floats, Floats]:
    """The shares with the least slack and the multipliers of least size, both moved inside."""
    cones, unit = equations.cones, equations.cones.unit()
    solve = equations.scaled_by(Scaling(cones, unit, unit))
    x, minus_r = solve(np.zeros(len(c)), h)
    _, z = solve(-c, np.zeros(len(h)))
    return x, _inside(cones, -minus_r), _inside(cones, z)


def _inside(cones: Cones, r: Floats) -> Floats:
    depth, unit = cones.depth(r), cones.unit()
    return r + unit + max(-INSIDE, float((-depth[depth <= 0]).max(initial=-INSIDE))) * unit


class _Equations:
    """``G' z = bx, G x - W^2 z = bz``, in variables scaled so that only 1 stands in the corner.

    With ``V V' = W^-2`` they are ``G' V v = bx, V' G x - v = V' bz`` and ``z = V v``. A row of one entry is a
    bound: its v is put into the other equations. V' mixes the three rows of a second-order cone, so each has the
    entries of all; ``mixed`` makes them. Regular equations are solved, and the solution refined.
    """

    def __init__(self, G: sparse.csr_array, cones: Cones) -> None:
        (_, V), N, self.cones = G.shape, cones.nonnegative, cones
        is_bound_L = np.diff(G.indptr) == 1
        is_bound_L[N:] = False
        self.bound, self.kept = np.flatnonzero(is_bound_L), np.flatnonzero(~is_bound_L)
        bounds, alone, together = G[self.bound], G[np.flatnonzero(~is_bound_L[:N])].tocoo(), G[N:].tocoo()
        self.bounded, self.bounding = bounds.indices, bounds.data
        self.row_of, self.value_E = self.kept[alone.row], alone.data
        rows, columns, self.mixed = _mixed(together)
        row_E = np.concatenate([alone.row, alone.shape[0] + rows]) + V
        column_E = np.concatenate([alone.col, columns])
        corner, self.V = np.arange(V + len(self.kept)), V
        rows, columns = np.concatenate([row_E, column_E, corner]), np.concatenate([column_E, row_E, corner])
        self.arrow = Arrow(rows, columns, len(corner))
        self.order = np.lexsort((columns, rows))
        ends = np.cumsum(np.bincount(rows, minlength=len(corner)))
        self.matrix = sparse.csr_array((np.ones(len(rows)), columns[self.order], np.append(0, ends)))

    def scaled_by(self, W: Scaling) -> Callable[[Floats, Floats], tuple[Floats, Floats]]:
        """The function that solves them for ``bx, bz``, until ``scaled_by`` is called again."""
        V, matrix, bound, bounded, kept = self.V, self.matrix, self.bound, self.bounded, self.kept
        of_bound = self.bounding / W.W_N[bound]
        value_E = np.concatenate([self.value_E / W.W_N[self.row_of], self.mixed @ W.half_K33.ravel()])
        corner = np.concatenate([np.bincount(bounded, of_bound**2, V), np.full(len(kept), -1.0)])
        matrix.data = np.concatenate([value_E, value_E, corner])[self.order]
        corner[:V] += REGULAR
        solved = self.arrow.factored(np.concatenate([value_E, value_E, corner]))

        def solve(bx: Floats, bz: Floats) -> tuple[Floats, Floats]:
            bv = W.half(bz)
            b = np.concatenate([bx + np.bincount(bounded, of_bound * bv[bound], V), bv[kept]])
            v = refined(solved, matrix, b)
            bv[kept], bv[bound] = v[V:], of_bound * v[bounded] - bv[bound]
            return v[:V], W.whole(bv)

        return solve


def refined(solved: Callable[[Floats], Floats], matrix: sparse.csr_array, b: Floats) -> Floats:
    """The solution for a matrix of one that is nearly the same, as long as it gets better."""
    v = solved(b)
    left = b - matrix @ v
    missed, enough = _norm(left), ROUNDING * (1.0 + _norm(b))
    for _ in range(REFINED):
        if missed <= enough:
            break
        better = v + solved(left)
        left = b - matrix @ better
        before, missed = missed, _norm(left)
        if not missed < before:
            break
        v = better
    return v


def _mixed(G: sparse.coo_array) -> tuple[Ints, Ints, sparse.csr_array]:
    """Where ``V' G`` has entries, and the matrix that makes them of those of V', cone by cone."""
    (rows, V), of_cone, third = G.shape, G.row // 3 * 3, np.arange(3)
    place = (of_cone + third[:, None]) * V + G.col
    factor = of_cone * 3 + 3 * third[:, None] + G.row % 3
    found, at = np.unique(place, return_inverse=True)
    value = np.tile(G.data, 3)
    made = sparse.csr_array((value, (at.ravel(), factor.ravel())), shape=(len(found), 3 * rows))
    return found // V, found % V, made


def _step(W: Scaling, ds: Floats, dz: Floats, *others: tuple[float, float]) -> float:
    """How far it is to the border, in scaled variables."""
    far = 1.0 / max(W.room(ds), W.room(dz), 1e-13)
    for value, change in others:
        if change < 0:
            far = min(far, -value / change)
    return float(np.clip(far, *STEP))
