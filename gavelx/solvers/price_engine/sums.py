"""The largest sum over very many different rows: a linear objective, by moving the prices of the few types.

At prices p a row takes the corner with the largest ``value - load price``: a column, or idleness, or a mix of few
where it must have so much of something (`corners`). So any prices prove a bound, ``p.W + sum_g max_e (value_ge -
load_ge p)``, and the least one is the optimum (strong duality). Within a small box around prices nearly all rows
have one choice left; only the others enter a linear program, in which devices can be bought at the upper edge of
the box and sold at the lower one. Its multipliers make the bound as small as it can be in the box, so that the
next box, around them, is lower; it is wider where they are at its edge. Where nothing is bought and nothing sold,
the program's optimum is that of all rows.

The first prices are those of a sample of the rows with its part of the devices, found in the same way. Where the
least that all rows can pay is more than all devices are worth, prices prove that not all can have what they must.

Source: the box that of R. Marsten, W. Hogan and J. Blankenship, "The boxstep method for large-scale optimization"
(Operations Research 23, 1975).

Legend: G rows (jobs, or classes of identical ones), A accelerator types, V columns (types, or sizes on types),
E corners, or variables of a program, N columns that a corner mixes at most, K rows in a program.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from gavelx.solvers.lp.highs import LinearProgram
from gavelx.solvers.price_engine.corners import Bools, Corners, corners
from gavelx.solvers.price_engine.replies import Floats, Ints, Sizes
from gavelx.solvers.program.errors import UnsolvedError

AT_ONCE = 3000
"""Corners up to which there is no search but one program."""
THINNING = 16
"""A sample is this part of the rows."""
LARGEST = 50_000
"""The most choices of rows with more than two in one program; the box is made smaller until there are no more."""
ROUNDS = 30
"""After so many boxes there is hardly any room between what rows must have and the devices."""
DUST = 1e-3
"""Part of the mean price that is the least width of a price: zero prices can rise, too."""
MISSED = 1e-9
"""Part of what a row must have, or of devices, that cannot be blamed on rounding."""
NOTHING = 1e-10
"""Part of a type's devices that may be bought or sold by rounding."""
LEAST, WIDER = 1e-12, 3.0
"""The least box, as a part of the prices; and by how much a box grows where the best prices were at its edge."""


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

    Each job chooses one of its corners. The last column is idleness.
    """

    value_VG: Floats
    count_G: Floats
    load_G: Floats
    devices_A: Floats
    type_V: Ints
    devices_V: Floats
    corners: Corners

    def __len__(self) -> int:
        return len(self.count_G)

    @cached_property
    def value_E(self) -> Floats:
        """What a corner is worth to a job."""
        return self.corners.mixed(self.value_VG)

    @cached_property
    def load_NE(self) -> Floats:
        """Devices of the type of each column that a corner takes for a job."""
        per_job_G, corners = self.load_G / self.count_G, self.corners
        return corners.part_NE * self.devices_V[corners.column_NE] * per_job_G[corners.row_E]

    @cached_property
    def type_NE(self) -> Ints:
        return self.type_V[self.corners.column_NE]

    @cached_property
    def idle_E(self) -> Bools:
        """Corners that take nothing."""
        return np.asarray(~self.load_NE.any(axis=0))

    def costs(self, price_A: Floats) -> Floats:
        """What each corner costs a job at these prices."""
        return np.asarray((self.load_NE * price_A[self.type_NE]).sum(axis=0))

    def most(self, each_E: Floats) -> Floats:
        """The most of what is so of a row's corners."""
        return np.asarray(np.maximum.reduceat(each_E, np.searchsorted(self.corners.row_E, np.arange(len(self)))))

    def bound(self, price_A: Floats) -> float:
        most_G = self.most(self.value_E - self.costs(price_A))
        return float((price_A * self.devices_A).sum() + (self.count_G * most_G).sum())

    def least_cost(self, price_A: Floats) -> float:
        """The least that all rows together can pay."""
        return -float((self.count_G * self.most(-self.costs(price_A))).sum())

    def shares(self, e: Ints, part_E: Floats) -> Floats:
        """The shares, G x V, of rows that take such parts of these corners."""
        (V, G), corners = self.value_VG.shape, self.corners.take(e)
        cell_NE, share_NE = corners.row_E * V + corners.column_NE, part_E * corners.part_NE
        return np.bincount(cell_NE.ravel(), share_NE.ravel(), G * V).astype(float).reshape(G, V)

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
        size = max(1, AT_ONCE * len(self) // len(self.corners), len(self) // THINNING)
        index = np.sort(rng.choice(len(self), size, replace=False))
        part = self.load_G[index].sum() / self.load_G.sum()
        return replace(
            self,
            value_VG=self.value_VG[:, index],
            count_G=self.count_G[index],
            load_G=self.load_G[index],
            devices_A=self.devices_A * part,
            corners=self.corners.of_rows(index, len(self)),
        )


def solve_sums(
    value_GV: Floats,
    *,
    scale_G: Floats,
    count_G: Floats,
    capacity_A: Floats,
    sizes: Sizes | None = None,
    asked: Sequence[tuple[Floats, Floats]] = (),
    seed: int = 0,
) -> Sums:
    """Maximise ``sum_g count_g value_g . x_g`` with ``sum_v x_gv <= 1`` and the devices of each type.

    A share of a column of value 0 or less stays 0, unless it is of use for what is ``asked``: for each pair of
    ``gain_GV, least_G`` it must be that ``gain_g . x_g >= least_g``. With ``sizes`` the columns are these, and
    their devices take the place of the scale. Raises :class:`UnsolvedError` if bound and value do not meet, and
    where it is proven that not all can have what they must.
    """
    type_V = np.arange(len(capacity_A)) if sizes is None else sizes.type_V
    devices_V = np.ones(len(capacity_A)) if sizes is None else sizes.devices_V

    def columns(each_GV: Floats) -> Floats:
        """Those of types without devices are of no use, nor is idleness."""
        return np.vstack([np.where(capacity_A[type_V] > 0, each_GV, 0.0).T, np.zeros(len(each_GV))])

    value_VG, gains = columns(value_GV), [(columns(gain_GV), least_G) for gain_GV, least_G in asked]
    may_VG = value_VG > 0
    may_VG[-1] = True
    for gain_VG, _ in gains:
        may_VG |= gain_VG > 0
    found = corners(may_VG, gains)
    if not np.bincount(found.row_E, minlength=len(value_GV)).all():
        loose = [(gain_VG, least_G - MISSED * np.abs(gain_VG).max(axis=0)) for gain_VG, least_G in gains]
        rounding = np.bincount(corners(may_VG, loose).row_E, minlength=len(value_GV)).all()
        raise UnsolvedError("a row just cannot have what it must" if rounding else "infeasible")
    devices_A = np.maximum(capacity_A, 0.0)
    type_V, devices_V = np.append(type_V, 0), np.append(devices_V, 0.0)
    rows = _Rows(value_VG, count_G, scale_G * count_G, devices_A, type_V, devices_V, found)
    share_GV, price_A, rounds = _search(rows, np.random.default_rng(seed))
    share_GV[:, -1] = 0.0
    share_GV = np.maximum(share_GV, 0.0)
    part_A = np.minimum(1.0, rows.devices_A / np.maximum(rows.used(share_GV), 1e-300))
    share_GV = share_GV / np.maximum(share_GV.sum(axis=1), 1.0)[:, None] * part_A[type_V]
    return Sums(share_GV[:, :-1], rows.worth(share_GV), rows.bound(price_A), price_A, rounds)


def _search(rows: _Rows, rng: np.random.Generator) -> tuple[Floats, Floats, int]:
    """Shares, prices and the number of programs: box after box, until nothing is bought or sold."""
    if len(rows.corners) == len(rows):  # none has a choice
        share_GV = rows.shares(np.arange(len(rows)), np.ones(len(rows)))
        if (rows.used(share_GV) > rows.devices_A * (1.0 + MISSED)).any():
            raise UnsolvedError("infeasible")
        return share_GV, np.zeros(len(rows.devices_A)), 0
    if len(rows.corners) <= AT_ONCE or len(rows) == 1:
        everything = np.full(len(rows.devices_A), np.inf)
        return *_step(rows, np.zeros(len(everything)), everything)[:2], 1
    price_A, rounds, size = _first_prices(rows, rng)
    size_A = np.full(len(price_A), size)
    for number in range(1, ROUNDS + 1):
        mean = float((price_A * rows.devices_A).sum() / rows.devices_A.sum())
        width_A = np.maximum(price_A, DUST * max(mean, DUST * rows.worth_of_a_device))
        if rows.least_cost(price_A) > float((price_A * rows.devices_A).sum()) * (1.0 + MISSED):
            raise UnsolvedError("infeasible")
        while _in_program(_choices(rows, price_A, size_A * width_A)[1]) > LARGEST:
            size_A /= 3.0
            if size_A.max() < LEAST:
                raise UnsolvedError("too many rows are at a tie")
        share_GV, price_A, edge_A = _step(rows, price_A, size_A * width_A)
        if not edge_A.any():
            return share_GV, price_A, rounds + number
        size_A *= np.where(edge_A, WIDER, 1.0)
    raise UnsolvedError("bound and value did not meet")


def _first_prices(rows: _Rows, rng: np.random.Generator) -> tuple[Floats, int, float]:
    """Those of a sample, the number of programs, and the size of the first box around them."""
    sample = rows.sample(rng)
    try:
        return *_search(sample, rng)[1:], 1.0 / np.sqrt(len(sample))
    except UnsolvedError:  # what its rows must have does not fit its part of the devices
        return np.zeros(len(rows.devices_A)), 0, 1.0


def _choices(rows: _Rows, price_A: Floats, width_A: Floats) -> tuple[Bools, Ints]:
    """The corners that each row may take while prices move by at most their widths, and how many those are."""
    row_E, may_E = rows.corners.row_E, np.ones(len(rows.corners), dtype=bool)
    if np.isfinite(width_A).all():
        gain_E, reach_E = rows.value_E - rows.costs(price_A), rows.costs(width_A)
        may_E = gain_E + reach_E >= rows.most(gain_E - reach_E)[row_E]
    return may_E, np.bincount(row_E[may_E], minlength=len(rows))


def _in_program(choices_G: Ints) -> int:
    """Choices of the rows that have more than two."""
    return int(choices_G[choices_G > 2].sum())


def _step(rows: _Rows, price_A: Floats, width_A: Floats) -> tuple[Floats, Floats, Bools]:
    """Shares and prices that are best in the box, and the types that are traded at its edges.

    A row with one choice or two has the last of them, and may go over to the other: that is one variable, within
    bounds. Of a row with several each choice is a variable, and together they are 1; or less, if it may idle.
    """
    (may_E, choices_G), row_E, A = _choices(rows, price_A, width_A), rows.corners.row_E, len(price_A)
    may, several_G = np.flatnonzero(may_E), choices_G > 2
    of_several = several_G[row_E[may]]
    has = may[np.append(row_E[may][1:] != row_E[may][:-1], True) & ~of_several]
    idles = may[rows.idle_E[may] & of_several]
    share_GV = rows.shares(has, np.ones(len(has)))
    room_A, unit = rows.devices_A - rows.used(share_GV), float(rows.load_G.mean())
    may_E[has] = may_E[idles] = False
    has_G, to = np.full(len(rows), -1), np.flatnonzero(may_E)  # -1: a row with several has none of them yet
    has_G[row_E[has]] = has
    g, E, several = row_E[to], len(to), np.flatnonzero(several_G)
    fro, leaves_E, one_of = has_G[g], (has_G[g] >= 0).astype(float), np.flatnonzero(several_G[g])
    load_NE = np.vstack([rows.load_NE[:, to], -leaves_E * rows.load_NE[:, fro]]) * rows.count_G[g] / unit
    type_NE = np.vstack([rows.type_NE[:, to], rows.type_NE[:, fro]])
    worth_E = rows.count_G[g] * (rows.value_E[to] - leaves_E * rows.value_E[fro])
    n, takes = np.nonzero(load_NE)
    boxed, K = bool(np.isfinite(width_A).all()), len(several)
    low_A, high_A = np.maximum(price_A - width_A, 0.0), price_A + width_A
    trades = np.arange(2 * A * boxed)
    money = 1.0 / float(np.abs(worth_E).max(initial=1e-300))
    entries = (
        np.concatenate([np.ones(len(one_of)), load_NE[n, takes], np.where(trades < A, -1.0, 1.0)]),
        (
            np.concatenate([np.searchsorted(several, g[one_of]), K + type_NE[n, takes], K + trades % A]),
            np.concatenate([one_of, takes, E + trades]),
        ),
    )
    program = LinearProgram(
        objective_V=np.concatenate([worth_E, *([-high_A * unit, low_A * unit] if boxed else [])]) * money,
        lower_V=np.zeros(E + len(trades)),
        upper_V=np.concatenate([np.ones(E), np.full(len(trades), np.inf)]),
        matrix_KV=sparse.csc_array(entries, shape=(K + A, E + len(trades))),
        lower_K=np.concatenate([np.where(np.isin(several, row_E[idles]), -np.inf, 1.0), np.full(A, -np.inf)]),
        upper_K=np.concatenate([np.ones(K), room_A / unit]),
        primal=not boxed,
    )
    value_E, multiplier_K = program.solve()
    part_E = np.maximum(value_E[:E], 0.0)
    share_GV += rows.shares(np.append(to, fro), np.append(part_E, -part_E * leaves_E))
    traded_A = np.abs(value_E[E:].reshape(-1, A) * unit)
    edge_A = (traded_A * np.array([np.ones(A), low_A > 0])[: 2 * boxed] > NOTHING * rows.devices_A).any(axis=0)
    return share_GV, np.maximum(multiplier_K[K:], 0.0) / (unit * money), edge_A
