"""Cones that an interior point stays inside of: nonnegative numbers, then second-order cones of three rows each.

A row of the first is at least 0; three rows (x, y, z) of the others have ``y^2 + z^2 <= x^2`` and x >= 0. What an
interior-point method asks of them, and the names, are in L. Vandenberghe, "The CVXOPT linear and quadratic cone
program solvers" (2010): the product ``u o v``, its unit e, and Nesterov and Todd's scaling W of two points, with
``W z = W^-1 s = lambda``. ECOS, which is followed here, takes the same.

Legend: L rows, N rows that are nonnegative numbers, K second-order cones.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gavelx.solvers.program.errors import UnsolvedError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Cones:
    """So many nonnegative numbers, and so many second-order cones after them."""

    nonnegative: int
    second_order: int = 0

    @property
    def degree(self) -> int:
        return self.nonnegative + self.second_order

    def unit(self) -> Floats:
        """e, with ``e o v = v``."""
        return np.concatenate([np.ones(self.nonnegative), np.tile([1.0, 0.0, 0.0], self.second_order)])

    def split(self, v: Floats) -> tuple[Floats, Floats]:
        """What is of the nonnegative numbers (N), and of the second-order cones (K, 3)."""
        return v[: self.nonnegative], v[self.nonnegative :].reshape(-1, 3)

    def depth(self, v: Floats) -> Floats:
        """How far each cone's part is inside it; negative outside."""
        v_N, v_K3 = self.split(v)
        return np.concatenate([v_N, v_K3[:, 0] - np.hypot(v_K3[:, 1], v_K3[:, 2])])

    def product(self, u: Floats, v: Floats) -> Floats:
        """``u o v``: number by number, and ``(u.v, u_0 v_1 + v_0 u_1)``."""
        if not self.second_order:
            return u * v
        (u_N, u_K3), (v_N, v_K3) = self.split(u), self.split(v)
        both_K3 = u_K3[:, :1] * v_K3 + v_K3[:, :1] * u_K3
        both_K3[:, 0] = (u_K3 * v_K3).sum(axis=1)
        return np.concatenate([u_N * v_N, both_K3.ravel()])

    def alike(self, size_L: Floats) -> Floats:
        """One size for all rows of a cone: their sum."""
        size_N, size_K3 = self.split(size_L)
        return np.concatenate([size_N, size_K3.sum(axis=1).repeat(3)])


class Scaling:
    """W of two points inside the cones. Raises :class:`UnsolvedError` where one is not inside.

    In a second-order cone W is ``H D H'``: axes H, at right angles, and how much it stretches along each. Near the
    border those differ by many orders of magnitude, and W written out would lose the smallest.
    """

    def __init__(self, cones: Cones, s: Floats, z: Floats) -> None:
        if not (cones.depth(s).min() > 0.0 and cones.depth(z).min() > 0.0):
            raise UnsolvedError("no interior point")
        self.cones = cones
        (s_N, s_K3), (z_N, z_K3) = cones.split(s), cones.split(z)
        self.W_N = np.sqrt(s_N / z_N)
        self.axes_K33, self.stretch_K3 = _nesterov_todd(s_K3, z_K3)
        self.half_K33 = self.axes_K33.transpose(0, 2, 1) / self.stretch_K3[:, :, None]
        self.lam = np.concatenate([np.sqrt(s_N * z_N), self._along(z_K3)])
        self._determinant_K = _determinant(cones.split(self.lam)[1])
        if not self._determinant_K.all():
            raise UnsolvedError("no interior point")

    def by(self, v: Floats, part: float = 1.0) -> Floats:
        """``W v``, or so large a part of it."""
        if not self.cones.second_order:
            return part * self.W_N * v
        v_N, v_K3 = self.cones.split(v)
        return np.concatenate([part * self.W_N * v_N, part * self._along(v_K3)])

    def half(self, v: Floats) -> Floats:
        """``V' v``, where ``V V' = W^-2``: the inverse along the axes, not turned back."""
        if not self.cones.second_order:
            return v / self.W_N
        v_N, v_K3 = self.cones.split(v)
        return np.concatenate([v_N / self.W_N, np.einsum("kij,kj->ki", self.half_K33, v_K3).ravel()])

    def whole(self, v: Floats) -> Floats:
        """``V v``."""
        if not self.cones.second_order:
            return v / self.W_N
        v_N, v_K3 = self.cones.split(v)
        return np.concatenate([v_N / self.W_N, np.einsum("kji,kj->ki", self.half_K33, v_K3).ravel()])

    def over(self, v: Floats) -> Floats:
        """The u with ``lambda o u = v``."""
        if not self.cones.second_order:
            return np.asarray(v / self.lam)
        (lam_N, lam_K3), (v_N, v_K3) = self.cones.split(self.lam), self.cones.split(v)
        first_K, rest_K2 = lam_K3[:, 0], lam_K3[:, 1:]
        along_K = (rest_K2 * v_K3[:, 1:]).sum(axis=1)
        u_K = (first_K * v_K3[:, 0] - along_K) / self._determinant_K
        u_K2 = (v_K3[:, 1:] - u_K[:, None] * rest_K2) / first_K[:, None]
        return np.concatenate([v_N / lam_N, np.column_stack([u_K, u_K2]).ravel()])

    def room(self, d: Floats) -> float:
        """Which part of d it is from lambda to the border, inverted; not positive if the border is never met."""
        d_N, d_K3 = self.cones.split(d)
        nearest = -float((d_N / self.lam[: self.cones.nonnegative]).min(initial=np.inf))
        inside_K, size_K1, unit_K3 = self._inside
        if not len(unit_K3):
            return nearest
        d_K3 = d_K3[inside_K]
        first_K1 = (unit_K3 * d_K3 * (1.0, -1.0, -1.0)).sum(axis=1, keepdims=True)
        rest_K2 = d_K3[:, 1:] - (first_K1 + d_K3[:, :1]) / (unit_K3[:, :1] + 1.0) * unit_K3[:, 1:]
        far_K1 = (np.sqrt((rest_K2**2).sum(axis=1, keepdims=True)) - first_K1) / size_K1
        return max(nearest, float(far_K1.max()))

    @cached_property
    def _inside(self) -> tuple[NDArray[np.bool_], Floats, Floats]:
        """The second-order cones that lambda is inside of, its size in those, and its direction.

        Rounding may put it outside of one, as it does in ECOS.
        """
        inside_K = self._determinant_K > 0.0
        size_K1 = np.sqrt(self._determinant_K[inside_K])[:, None]
        return inside_K, size_K1, self.cones.split(self.lam)[1][inside_K] / size_K1

    def _along(self, v_K3: Floats) -> Floats:
        """``H D H' v`` in each second-order cone."""
        on_axes_K3 = np.einsum("kji,kj->ki", self.axes_K33, v_K3)
        return np.asarray(np.einsum("kij,kj->ki", self.axes_K33, self.stretch_K3 * on_axes_K3)).ravel()


def _nesterov_todd(s_K3: Floats, z_K3: Floats) -> tuple[Floats, Floats]:
    """The axes of W in each cone, in columns, and how much it stretches along each."""
    if not len(s_K3):
        return np.empty((0, 3, 3)), s_K3
    of_s_K1, of_z_K1 = _determinant(s_K3)[:, None], _determinant(z_K3)[:, None]
    one_s_K3, one_z_K3, size_K1 = (
        s_K3 / np.sqrt(of_s_K1),
        z_K3 / np.sqrt(of_z_K1),
        np.sqrt(np.sqrt(of_s_K1 / of_z_K1)),
    )
    w_K3 = one_s_K3 + one_z_K3 * (1.0, -1.0, -1.0)
    w_K3 /= np.sqrt(2.0 + 2.0 * (one_s_K3 * one_z_K3).sum(axis=1))[:, None]
    across_K = np.hypot(w_K3[:, 1], w_K3[:, 2])
    y_K = np.divide(w_K3[:, 1], across_K, out=np.ones(len(w_K3)), where=across_K > 0)
    z_K = np.divide(w_K3[:, 2], across_K, out=np.zeros(len(w_K3)), where=across_K > 0)
    half_K, none_K, long_K = np.full(len(w_K3), np.sqrt(0.5)), np.zeros(len(w_K3)), w_K3[:, 0] + across_K
    axes = [[half_K, half_K * y_K, half_K * z_K], [half_K, -half_K * y_K, -half_K * z_K], [none_K, -z_K, y_K]]
    return np.asarray(axes).transpose(2, 1, 0), size_K1 * np.column_stack(
        [long_K, 1.0 / long_K, np.ones(len(w_K3))]
    )


def _determinant(v_K3: Floats) -> Floats:
    rest_K = np.hypot(v_K3[:, 1], v_K3[:, 2])
    return np.asarray((v_K3[:, 0] - rest_K) * (v_K3[:, 0] + rest_K))
