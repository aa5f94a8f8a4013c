"""The largest sum over very many different rows: a linear objective, by moving the prices of the few types.

At prices p a row takes the column with the largest ``value - load price``, or idles if all are negative. So any
prices prove a bound, ``p.W + sum_g max_v (value_gv - load_g p_v)^+``, and the least one is the optimum (strong
duality). Within a small box around prices nearly all rows have one choice left; only the others enter a linear
program, in which devices can be bought at the upper edge of the box and sold at the lower one. Its multipliers
make the bound as small as it can be in the box, so that the next box, around them, is lower. Where nothing is
bought and nothing sold, the program's optimum is that of all rows.

The first prices are those of a sample of the rows with its part of the devices, found in the same way.

Where rows must have a speed of their own at least, they choose between `corners` in place of columns.

Source: the box that of R. Marsten, W. Hogan and J. Blankenship, "The boxstep method for large-scale optimization"
(Operations Research 23, 1975).

Legend: G rows (jobs, or classes of identical ones), A accelerator types, V columns (types, or sizes on types),
W choices (columns, or corners), K rows in a program, E shares in it.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.lp.highs import LinearProgram
from gavelx.solvers.price_engine.corners import Corners
from gavelx.solvers.price_engine.replies import Floats, Ints, Sizes
from gavelx.solvers.program.errors import UnsolvedError

Bools = NDArray[np.bool_]
FEW = 300
"""Rows up to which there is no search but one program."""
THINNING = 16
"""A sample is this part of the rows."""
LARGEST = 20_000
"""The most rows of one program; the box is made smaller until no more have a choice."""
ROUNDS = 30
"""After so many boxes there is hardly any room between what rows must have and the devices."""
DUST = 1e-3
"""Part of the mean price that is the least width of a price: zero prices can rise, too."""
NOTHING = 1e-10
"""Part of a type's devices that may be bought or sold by rounding."""
LEAST = 1e-12
"""The least box, as a part of the prices."""


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
    """What a full share of a column is worth, in how many equal jobs, and the devices that it takes.

    Each job chooses a column, or nothing, or one of its ``corners`` if there are some.
    """

    value_VG: Floats
    count_G: Floats
    load_G: Floats
    devices_A: Floats
    type_V: Ints
    devices_V: Floats
    corners: Corners | None = None

    def __len__(self) -> int:
        return len(self.count_G)

    def costs(self, price_A: Floats) -> Floats:
        """What a column costs a job at these prices, V x G."""
        return np.asarray((price_A[self.type_V] * self.devices_V)[:, None] * (self.load_G / self.count_G))

    def of_choices(self, each_VG: Floats, none: float = 0.0) -> Floats:
        """What is so of each choice, W x G, from what is so of full shares of columns; ``none`` of no choice."""
        if (corners := self.corners) is None:
            return each_VG
        first_WG = corners.first_WG * each_VG[corners.first_W]
        return np.where(corners.may_WG, first_WG + corners.second_WG * each_VG[corners.second_W], none)

    def gains(self, price_A: Floats) -> Floats:
        """What a job gains by each choice at these prices, W x G."""
        return self.of_choices(self.value_VG - self.costs(price_A), -np.inf)

    @property
    def may_WG(self) -> Bools:
        """Which choices a row can have, and would not leave for nothing at any prices."""
        return self.value_VG > 0 if self.corners is None else self.corners.may_WG

    def least_gain(self) -> float:
        """What a job gains that takes none of the choices."""
        return 0.0 if self.corners is None else -np.inf

    def bound(self, price_A: Floats) -> float:
        most_G = np.maximum(self.gains(price_A).max(axis=0), self.least_gain())
        return float((price_A * self.devices_A).sum() + (self.count_G * most_G).sum())

    def columns(self, w_E: Ints, g_E: Ints) -> list[tuple[Ints, Floats]]:
        """The columns of these choices of rows, and the parts that they take of each."""
        if (corners := self.corners) is None:
            return [(w_E, np.ones(len(w_E)))]
        return [
            (corners.first_W[w_E], corners.first_WG[w_E, g_E]),
            (corners.second_W[w_E], corners.second_WG[w_E, g_E]),
        ]

    def shares(self, w_E: Ints, g_E: Ints, part_E: Floats) -> Floats:
        """The shares, G x V, of rows that take such parts of these choices."""
        share_GV = np.zeros(self.value_VG.T.shape)
        for v_E, each_E in self.columns(w_E, g_E):
            np.add.at(share_GV, (g_E, v_E), part_E * each_E)
        return share_GV

    def used(self, share_GV: Floats) -> Floats:
        use_V = np.einsum("G,GV->V", self.load_G, share_GV) * self.devices_V
        return np.bincount(self.type_V, use_V, len(self.devices_A)).astype(float)

    def worth(self, share_GV: Floats) -> float:
        return float(np.einsum("G,VG,GV->", self.count_G, self.value_VG, share_GV))

    @property
    def worth_of_a_device(self) -> float:
        """What rows could gain if each had its best column, over all devices."""
        most_G = np.abs(self.value_VG).max(axis=0)
        return max(float((self.count_G * most_G).sum() / self.devices_A.sum()), 1e-300)

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
            corners=self.corners and self.corners.sample(index),
        )


def solve_sums(
    value_GV: Floats,
    *,
    scale_G: Floats,
    count_G: Floats,
    capacity_A: Floats,
    sizes: Sizes | None = None,
    gain_GV: Floats | None = None,
    floor_G: Floats | None = None,
    seed: int = 0,
) -> Sums:
    """Maximise ``sum_g count_g value_g . x_g`` with ``sum_v x_gv <= 1`` and the devices of each type.

    A share of a column of value 0 or less stays 0. With ``sizes`` the columns are these, and their devices take
    the place of the scale. With ``floor_G`` it must be that ``gain_g . x_g >= floor_g`` as well.
    Raises :class:`UnsolvedError` if bound and value do not meet.
    """
    type_V = np.arange(len(capacity_A)) if sizes is None else sizes.type_V
    devices_V = np.ones(len(capacity_A)) if sizes is None else sizes.devices_V
    value_VG = np.ascontiguousarray(np.where(capacity_A[type_V] > 0, value_GV, 0.0).T)
    corners = None
    if gain_GV is not None and floor_G is not None:
        gain_VG = np.ascontiguousarray(np.where(capacity_A[type_V] > 0, gain_GV, 0.0).T)
        corners = Corners.of(value_VG, gain_VG, floor_G)
        if not corners.may_WG.any(axis=0).all():
            raise UnsolvedError("a row cannot reach its floor")
    devices_A = np.maximum(capacity_A, 0.0)
    rows = _Rows(value_VG, count_G, scale_G * count_G, devices_A, type_V, devices_V, corners)
    share_GV, price_A, rounds = _search(rows, np.random.default_rng(seed))
    part_A = np.minimum(1.0, rows.devices_A / np.maximum(rows.used(share_GV), 1e-300))
    share_GV = share_GV / np.maximum(share_GV.sum(axis=1), 1.0)[:, None] * part_A[type_V]
    return Sums(share_GV, rows.worth(share_GV), rows.bound(price_A), price_A, rounds)


def _search(rows: _Rows, rng: np.random.Generator) -> tuple[Floats, Floats, int]:
    """Shares, prices and the number of programs: box after box, until nothing is bought or sold."""
    if rows.corners is None and not (rows.value_VG > 0).any():
        return np.zeros(rows.value_VG.T.shape), np.zeros(len(rows.devices_A)), 0
    if len(rows) <= FEW:
        everything = np.full(len(rows.devices_A), np.inf)
        return *_step(rows, np.zeros(len(everything)), everything)[:2], 1
    price_A, rounds, size = _first_prices(rows, rng)
    for number in range(1, ROUNDS + 1):
        mean = float((price_A * rows.devices_A).sum() / rows.devices_A.sum())
        width_A = np.maximum(price_A, DUST * max(mean, DUST * rows.worth_of_a_device))
        while _choices(rows, price_A, size * width_A)[1].sum() > LARGEST:
            size /= 3.0
            if size < LEAST:
                raise UnsolvedError("too many rows are at a tie")
        share_GV, price_A, inside = _step(rows, price_A, size * width_A)
        if inside:
            return share_GV, price_A, rounds + number
    raise UnsolvedError("bound and value did not meet")


def _first_prices(rows: _Rows, rng: np.random.Generator) -> tuple[Floats, int, float]:
    """Those of a sample, the number of programs, and the size of the first box around them."""
    sample = rows.sample(rng)
    try:
        return *_search(sample, rng)[1:], 1.0 / np.sqrt(len(sample))
    except UnsolvedError:  # what its rows must have does not fit its part of the devices
        return np.zeros(len(rows.devices_A)), 0, 1.0


def _choices(rows: _Rows, price_A: Floats, width_A: Floats) -> tuple[Bools, Bools]:
    """The choices that each row may take while prices move by at most their widths, and rows with several."""
    may_WG = rows.may_WG
    if np.isinf(width_A).all():
        return may_WG, np.asarray(may_WG.any(axis=0))
    gain_WG, reach_WG = rows.gains(price_A), rows.of_choices(rows.costs(width_A))
    sure_G = np.maximum((gain_WG - reach_WG).max(axis=0), rows.least_gain())
    may_WG = may_WG & (gain_WG + reach_WG >= sure_G)
    may_idle_G = sure_G == rows.least_gain()  # which is no choice, or a corner
    return may_WG, may_WG.sum(axis=0) + may_idle_G > 1


def _step(rows: _Rows, price_A: Floats, width_A: Floats) -> tuple[Floats, Floats, bool]:
    """Shares and prices that are best in the box, and whether they are so outside it as well."""
    may_WG, free_G = _choices(rows, price_A, width_A)
    w, g = np.nonzero(may_WG & ~free_G)
    share_GV = rows.shares(w, g, np.ones(len(w)))
    unit = float(rows.load_G.mean())
    room_A, free = rows.devices_A - rows.used(share_GV), np.flatnonzero(free_G)
    k, w = np.nonzero(may_WG[:, free].T)
    g, E, K, A = free[k], len(k), len(free), len(price_A)
    boxed = bool(np.isfinite(width_A).all())
    low_A, high_A = np.maximum(price_A - width_A, 0.0), price_A + width_A
    trades = np.tile(K + np.arange(A), 2 * boxed)
    values, places, columns = [np.ones(E)], [k], [np.arange(E)]
    worth_E = np.zeros(E)
    for v, part_E in rows.columns(w, g):
        worth_E += part_E * rows.count_G[g] * rows.value_VG[v, g]
        values.append(part_E * rows.load_G[g] * rows.devices_V[v] / unit)
        places.append(K + rows.type_V[v])
        columns.append(np.arange(E))
    values.append(np.repeat([-1.0, 1.0], A)[: len(trades)])
    places.append(trades)
    columns.append(E + np.arange(len(trades)))
    money = 1.0 / float(np.abs(worth_E).max(initial=1e-300))
    entries = np.concatenate(values), (np.concatenate(places), np.concatenate(columns))
    program = LinearProgram(
        objective_V=np.concatenate([worth_E, *([-high_A * unit, low_A * unit] if boxed else [])]) * money,
        lower_V=np.zeros(E + len(trades)),
        upper_V=np.concatenate([np.ones(E), np.full(len(trades), np.inf)]),
        matrix_KV=sparse.csc_array(entries, shape=(K + A, E + len(trades))),
        lower_K=np.concatenate([np.full(K, -np.inf if rows.corners is None else 1.0), np.full(A, -np.inf)]),
        upper_K=np.concatenate([np.ones(K), room_A / unit]),
        primal=not boxed,
    )
    value_E, multiplier_K = program.solve()
    share_GV += rows.shares(w, g, np.maximum(value_E[:E], 0.0))
    traded_A = np.abs(value_E[E:].reshape(-1, A) * unit)
    outside = boxed and bool((traded_A * [np.ones(A), low_A > 0] > NOTHING * rows.devices_A).any())
    return share_GV, np.maximum(multiplier_K[K:], 0.0) / (unit * money), not outside
