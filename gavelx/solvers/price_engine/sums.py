"""The largest sum over very many different rows: a linear objective, by moving the prices of the few types.

At prices p a row takes the column with the largest ``value - load price``, or idles if all are negative. So any
prices prove a bound, ``p.W + sum_g max_v (value_gv - load_g p_v)^+``, and the least one is the optimum (strong
duality). Within a small box around prices nearly all rows have one choice left; only the others enter a linear
program, in which devices can be bought at the upper edge of the box and sold at the lower one. Its multipliers
make the bound as small as it can be in the box, so that the next box, around them, is lower. Where nothing is
bought and nothing sold, the program's optimum is that of all rows.

The first prices are those of a sample of the rows with its part of the devices, found in the same way.

Source: the box that of R. Marsten, W. Hogan and J. Blankenship, "The boxstep method for large-scale optimization"
(Operations Research 23, 1975).

Legend: G rows (jobs, or classes of identical ones), A accelerator types, V columns (types, or sizes on types),
K rows in a program, E shares in it.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.lp.highs import LinearProgram
from gavelx.solvers.price_engine.replies import Floats, Ints, Sizes
from gavelx.solvers.program.errors import UnsolvedError

Bools = NDArray[np.bool_]
FEW = 300
"""Rows up to which there is no search but one program."""
THINNING = 16
"""A sample is this part of the rows."""
LARGEST = 20_000
"""The most rows of one program; the box is made smaller until no more have a choice."""
ROUNDS = 100
DUST = 1e-3
"""Part of the mean price that is the least width of a price: zero prices can rise, too."""
NOTHING = 1e-10
"""Part of a type's devices that may be bought or sold by rounding."""


@dataclass(frozen=True, eq=False)
class Sums:
    """``value``: the sum that these shares reach; no shares reach more than ``bound``. One more device is worth
    ``price_A``; ``rounds`` programs were solved."""

    share_GV: Floats
    value: float
    bound: float
    price_A: Floats
    rounds: int


@dataclass(frozen=True, eq=False)
class _Rows:
    """What a full share of a column is worth, in how many equal jobs, and the devices that it takes."""

    value_VG: Floats
    count_G: Floats
    load_G: Floats
    devices_A: Floats
    type_V: Ints
    devices_V: Floats

    def __len__(self) -> int:
        return len(self.count_G)

    def gains(self, price_A: Floats) -> Floats:
        """What a job gains by each column at these prices, V x G."""
        each_G = self.load_G / self.count_G
        return self.value_VG - (price_A[self.type_V] * self.devices_V)[:, None] * each_G

    def bound(self, price_A: Floats) -> float:
        most_G = np.maximum(self.gains(price_A).max(axis=0), 0.0)
        return float((price_A * self.devices_A).sum() + (self.count_G * most_G).sum())

    def used(self, share_GV: Floats) -> Floats:
        use_V = np.einsum("G,GV->V", self.load_G, share_GV) * self.devices_V
        return np.bincount(self.type_V, use_V, len(self.devices_A)).astype(float)

    def worth(self, share_GV: Floats) -> float:
        return float(np.einsum("G,VG,GV->", self.count_G, self.value_VG, share_GV))

    def sample(self, rng: np.random.Generator) -> "_Rows":
        """Part of the rows, with its part of the devices."""
        index = np.sort(rng.choice(len(self), max(FEW, len(self) // THINNING), replace=False))
        part = self.load_G[index].sum() / self.load_G.sum()
        return replace(
            self,
            value_VG=self.value_VG[:, index],
            count_G=self.count_G[index],
            load_G=self.load_G[index],
            devices_A=self.devices_A * part,
        )


def solve_sums(
    value_GV: Floats,
    *,
    scale_G: Floats,
    count_G: Floats,
    capacity_A: Floats,
    sizes: Sizes | None = None,
    seed: int = 0,
) -> Sums:
    """Maximise ``sum_g count_g value_g . x_g`` with ``sum_v x_gv <= 1`` and the devices of each type.

    A share of a column of value 0 or less stays 0. With ``sizes`` the columns are these, and their devices take
    the place of the scale. Raises :class:`UnsolvedError` if bound and value do not meet.
    """
    type_V = np.arange(len(capacity_A)) if sizes is None else sizes.type_V
    devices_V = np.ones(len(capacity_A)) if sizes is None else sizes.devices_V
    value_VG = np.ascontiguousarray(np.where(capacity_A[type_V] > 0, value_GV, 0.0).T)
    rows = _Rows(value_VG, count_G, scale_G * count_G, np.maximum(capacity_A, 0.0), type_V, devices_V)
    share_GV, price_A, rounds = _search(rows, np.random.default_rng(seed))
    part_A = np.minimum(1.0, rows.devices_A / np.maximum(rows.used(share_GV), 1e-300))
    share_GV = share_GV / np.maximum(share_GV.sum(axis=1), 1.0)[:, None] * part_A[type_V]
    return Sums(share_GV, rows.worth(share_GV), rows.bound(price_A), price_A, rounds)


def _search(rows: _Rows, rng: np.random.Generator) -> tuple[Floats, Floats, int]:
    """Shares, prices and the number of programs: box after box, until nothing is bought or sold."""
    if not (rows.value_VG > 0).any():
        return np.zeros(rows.value_VG.T.shape), np.zeros(len(rows.devices_A)), 0
    if len(rows) <= FEW:
        everything = np.full(len(rows.devices_A), np.inf)
        return *_step(rows, np.zeros(len(everything)), everything)[:2], 1
    sample = rows.sample(rng)
    price_A, rounds = _search(sample, rng)[1:]
    size = 1.0 / np.sqrt(len(sample))
    for number in range(1, ROUNDS + 1):
        mean = float((price_A * rows.devices_A).sum() / rows.devices_A.sum())
        width_A = np.maximum(price_A, max(DUST * mean, 1e-300))
        while _choices(rows, price_A, size * width_A)[1].sum() > LARGEST:
            size /= 3.0
        share_GV, price_A, inside = _step(rows, price_A, size * width_A)
        if inside:
            return share_GV, price_A, rounds + number
    raise UnsolvedError("bound and value did not meet")


def _choices(rows: _Rows, price_A: Floats, width_A: Floats) -> tuple[Bools, Bools]:
    """The columns that each row may take while prices move by at most their widths, and rows with a choice."""
    gain_VG = rows.gains(price_A)
    reach_VG = (width_A[rows.type_V] * rows.devices_V)[:, None] * (rows.load_G / rows.count_G)
    sure_G = np.maximum((gain_VG - reach_VG).max(axis=0), 0.0)
    may_VG = (gain_VG + reach_VG >= sure_G) & (rows.value_VG > 0)
    return may_VG, may_VG.sum(axis=0) + (sure_G == 0.0) > 1


def _step(rows: _Rows, price_A: Floats, width_A: Floats) -> tuple[Floats, Floats, bool]:
    """Shares and prices that are best in the box, and whether they are so outside it as well."""
    may_VG, free_G = _choices(rows, price_A, width_A)
    share_GV = (may_VG & ~free_G).T.astype(float)
    unit = float(rows.load_G.mean())
    room_A, free = rows.devices_A - rows.used(share_GV), np.flatnonzero(free_G)
    k, v = np.nonzero(may_VG[:, free].T)
    g, E, K, A = free[k], len(k), len(free), len(price_A)
    boxed = bool(np.isfinite(width_A).all())
    low_A, high_A = np.maximum(price_A - width_A, 0.0), price_A + width_A
    trades = np.tile(K + np.arange(A), 2 * boxed)
    values = [np.ones(E), rows.load_G[g] * rows.devices_V[v] / unit, np.repeat([-1.0, 1.0], A)[: len(trades)]]
    places = [np.concatenate([k, K + rows.type_V[v], trades])]
    columns = np.concatenate([np.arange(E), np.arange(E), E + np.arange(len(trades))])
    worth_E = rows.count_G[g] * rows.value_VG[v, g]
    money = 1.0 / float(worth_E.max(initial=1e-300))
    program = LinearProgram(
        objective_V=np.concatenate([worth_E, *([-high_A * unit, low_A * unit] if boxed else [])]) * money,
        lower_V=np.zeros(E + len(trades)),
        upper_V=np.concatenate([np.ones(E), np.full(len(trades), np.inf)]),
        matrix_KV=sparse.csc_array((np.concatenate(values), (places[0], columns)), shape=(K + A, E + len(trades))),
        lower_K=np.full(K + A, -np.inf),
        upper_K=np.concatenate([np.ones(K), room_A / unit]),
        primal=not boxed,
    )
    value_E, multiplier_K = program.solve()
    share_GV[g, v] = np.maximum(value_E[:E], 0.0)
    traded_A = np.abs(value_E[E:].reshape(-1, A) * unit)
    outside = boxed and bool((traded_A * [np.ones(A), low_A > 0] > NOTHING * rows.devices_A).any())
    return share_GV, np.maximum(multiplier_K[K:], 0.0) / (unit * money), not outside
