"""Linear programs by the interior-point method that the published systems' solver uses, step by step as it does.

Where an optimum is not unique, the point that an interior-point solver ends at depends on where it begins and
how far it steps; to repeat a published schedule is to repeat those. This is the homogeneous self-dual embedding
with Mehrotra's predictor and corrector and the constants of ECOS: A. Domahidi, E. Chu and S. Boyd, "ECOS: an SOCP
solver for embedded systems" (European Control Conference 2013), section III; the first point is that of L.
Vandenberghe, "The CVXOPT linear and quadratic cone program solvers" (2010), section 5.3; the scaling of rows and
columns is D. Ruiz's (2001). Only the cone of nonnegative numbers is here. Names are those of the papers.

Legend: V variables, L rows.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import SuperLU, splu

from gavelx.solvers.highs import OUT_OF_TIME, UnsolvedError
from gavelx.solvers.settings import left_s

Floats = NDArray[np.float64]
TOLERANCE, STEPS = 1e-8, 100
SCALINGS, TINY = 3, 1e-3
"""How often rows and columns are scaled; those that are smaller are left as they are."""
INSIDE, STEP = 0.99, (1e-6, 0.999)
"""Which part of the way to the border is gone, and the least and greatest step."""
CENTRING = (1e-4, 1.0)
REGULAR, REFINED = 1e-11, 1
"""What makes the equations regular, and how often their solution is refined."""
PIVOT = 0.01
"""A pivot on the diagonal is tiny if it is less than this part of the largest of its column."""


def embedded_program(cost_V: Floats, matrix_LV: sparse.csr_array, limit_L: Floats) -> tuple[Floats, Floats]:
    """Minimise ``cost . v`` with ``limit - matrix @ v`` >= 0. Returns v and the multipliers of the rows.

    Raises :class:`UnsolvedError`.
    """
    G, row_L, column_V = _equilibrated(matrix_LV)
    c, h, GT = cost_V / column_V, limit_L / row_L, G.T
    equations = _Equations(G)
    x, s, z = _first(equations, c, h)
    tau = kappa = 1.0
    size_x, size_z = max(1.0, _norm(c)), max(1.0, _norm(h))
    for _ in range(STEPS):
        if not left_s():
            raise UnsolvedError(OUT_OF_TIME)
        rx, rz, rt = -(GT @ z) - tau * c, s + G @ x - tau * h, kappa + c @ x + h @ z
        gap = float(s @ z)
        mu = (gap + kappa * tau) / (len(s) + 1)
        of_z = _norm(rz) / (size_z + _norm(x) + _norm(s))
        missed = max(of_z, _norm(rx) / (size_x + _norm(z))) / tau
        value = abs(c @ x) / tau
        if missed < TOLERANCE and (gap < TOLERANCE or gap < TOLERANCE * value):
            return x / (tau * column_V), z / (tau * row_L)
        W, lam = np.sqrt(s / z), np.sqrt(s * z)
        solve = equations.scaled_by(W)
        x1, z1 = solve(-c, h)
        slope = kappa / tau - c @ x1 - h @ z1
        x2, z2 = solve(rx, s - rz)
        dtau = float((rt - kappa + c @ x2 + h @ z2) / slope)
        dz = W * (z2 + dtau * z1)
        ds, dkappa = -dz - lam, -kappa - kappa / tau * dtau
        far = _step(lam, ds, dz, (tau, dtau), (kappa, dkappa))
        sigma = float(np.clip((1.0 - far) ** 3, *CENTRING))
        target = (lam * lam + ds * dz - sigma * mu) / lam
        bkappa = kappa * tau + dkappa * dtau - sigma * mu
        x2, z2 = solve((1.0 - sigma) * rx, W * target - (1.0 - sigma) * rz)
        dtau = float(((1.0 - sigma) * rt - bkappa / tau + c @ x2 + h @ z2) / slope)
        dx, dz = x2 + dtau * x1, z2 + dtau * z1
        ds, dkappa = -(target + W * dz), -(bkappa + kappa * dtau) / tau
        step = INSIDE * _step(lam, ds, W * dz, (tau, dtau), (kappa, dkappa))
        x, s, z = x + step * dx, s + step * W * ds, z + step * dz
        tau, kappa = float(tau + step * dtau), float(kappa + step * dkappa)
        if not (np.isfinite(x).all() and tau > TOLERANCE * kappa):
            raise UnsolvedError("no interior point")
    raise UnsolvedError("iteration limit reached")


def _norm(v: Floats) -> float:
    return float(np.linalg.norm(v))


def _equilibrated(matrix_LV: sparse.csr_array) -> tuple[sparse.csr_array, Floats, Floats]:
    """The matrix with rows and columns of about the same size, and what they were divided by."""
    G = matrix_LV.copy()
    G.eliminate_zeros()
    (L, V), entries = G.shape, (np.arange(G.shape[0]).repeat(np.diff(G.indptr)), G.indices)
    by = [np.ones(L), np.ones(V)]
    for _ in range(SCALINGS):
        size_E = np.sqrt(np.abs(G.data))
        for k, at_E in enumerate(entries):
            size = np.zeros(len(by[k]))
            np.maximum.at(size, at_E, size_E)
            size[size < TINY] = 1.0
            G.data *= (1.0 / size)[at_E]
            by[k] = by[k] * size
    return G, *by


def _first(equations: "_Equations", c: Floats, h: Floats) -> tuple[Floats, Floats, Floats]:
    """The shares with the least slack and the multipliers of least size, both moved inside."""
    solve = equations.scaled_by(np.ones(len(h)))
    x, minus_r = solve(np.zeros(len(c)), h)
    _, z = solve(-c, np.zeros(len(h)))
    return x, _inside(-minus_r), _inside(z)


def _inside(r: Floats) -> Floats:
    return r + 1.0 + max(-INSIDE, float((-r[r <= 0]).max(initial=-INSIDE)))


class _Equations:
    """``G' z = bx, G x - W^2 z = bz``, in variables scaled so that only 1 stands in the corner.

    They are quasidefinite, so any order of elimination will do: one with few new entries is found once, and left
    only where a pivot would be tiny.
    """

    def __init__(self, G: sparse.csr_array) -> None:
        (L, V), entries = G.shape, G.tocoo()
        self.entry_of = entries.row
        row_E, column_E, self.value_E = entries.row + V, entries.col, entries.data
        corner = np.arange(V + L)
        self.corner = np.concatenate([np.full(V, REGULAR), np.full(L, -1.0)])
        rows, columns = np.concatenate([row_E, column_E, corner]), np.concatenate([column_E, row_E, corner])
        self._lay_out(rows, columns)
        place = self._factors(np.ones(L), "MMD_AT_PLUS_A").perm_c
        self._lay_out(place[rows], place[columns])
        self.place, self.V, self.regular = place, V, np.zeros(V + L)
        self.regular[place[:V]] = REGULAR

    def _lay_out(self, rows: NDArray[np.integer], columns: NDArray[np.integer]) -> None:
        """Entries in these places."""
        self.order = np.lexsort((rows, columns))
        size = len(self.corner)
        starts = np.append(0, np.cumsum(np.bincount(columns, minlength=size)))
        self.matrix = sparse.csc_matrix((np.ones(len(rows)), rows[self.order], starts), shape=(size, size))

    def _factors(self, W: Floats, ordering: str) -> SuperLU:
        value_E = self.value_E / W[self.entry_of]
        self.matrix.data = np.concatenate([value_E, value_E, self.corner])[self.order]
        return splu(self.matrix, ordering, diag_pivot_thresh=PIVOT, panel_size=1, options={"SymmetricMode": True})

    def scaled_by(self, W: Floats) -> Callable[[Floats, Floats], tuple[Floats, Floats]]:
        """The function that solves them for ``bx, bz``, until ``scaled_by`` is called again."""
        factors, V = self._factors(W, "NATURAL"), self.V
        matrix, place, regular = self.matrix, self.place, self.regular

        def solve(bx: Floats, bz: Floats) -> tuple[Floats, Floats]:
            b = np.empty(len(place))
            b[place] = np.concatenate([bx, bz / W])
            v = factors.solve(b)
            for _ in range(REFINED):
                v += factors.solve(b - matrix @ v + regular * v)
            v = v[place]
            return v[:V], v[V:] / W

        return solve


def _step(lam: Floats, ds: Floats, dz: Floats, *others: tuple[float, float]) -> float:
    """How far it is to the border, in scaled variables."""
    least = min(float((ds / lam).min()), float((dz / lam).min()))
    far = 1.0 / max(-least, 1e-13)
    for value, change in others:
        if change < 0:
            far = min(far, -value / change)
    return float(np.clip(far, *STEP))
