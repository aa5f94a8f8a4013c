"""Prices to begin a search with, from what all rows together would use at prices that were tried before.

Rigid jobs begin with a sample of the rows. It is a bad guess where each job has many columns: which of them a row
uses depends on how near its need is to its best, and the level may depend on few extreme rows. Here every row
counts. At given prices, the replies of all rows use some devices of each type, at the level that the prices prove.
A mixture of such replies is a reply, too. So the best mixture that fits the devices is a tiny program, with one
column for each price vector that was tried. Its multipliers are the next prices, within a box around the best ones
so far, and the box shrinks to a hundredth of the prices.

This is Dantzig and Wolfe's master program in the box of Marsten, Hogan and Blankenship (both are cited in
`search`).

Legend: A accelerator types, K price vectors that were tried, V columns of rows, or variables of the program.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from gavelx.solvers.lp.highs import LinearProgram
from gavelx.solvers.price_engine.prices import Prices, Start, prove, widths
from gavelx.solvers.price_engine.replies import Floats, Rows
from gavelx.solvers.program.errors import UnsolvedError

TRIED = 14
"""Price vectors that are tried at most."""
FAR, NEAR = 0.5, 0.01
"""By which part of them the first prices may change, and when prices are near enough."""


@dataclass(frozen=True, eq=False)
class Cut:
    """At ``prices`` all rows use ``use_A`` at the level that these prove; that rises by ``rise_A`` a level."""

    prices: Prices
    use_A: Floats
    rise_A: Floats

    def use_at_A(self, level: float) -> Floats:
        return self.use_A + (level - self.prices.upper) * self.rise_A


def prices_by_cuts(rows: Rows, level: float) -> tuple[Start, float]:
    """Prices with the level that they prove, and how far from them to look; begins with this level.

    The first prices that are tried are how fast an average row is on a device of each type.

    Raises :class:`UnsolvedError` where prices prove that not even needs that do not depend on
    the level can be met.
    """
    best, reach = _cut(rows, _speeds(rows), level), FAR
    cuts = [best]
    while len(cuts) < TRIED and reach > NEAR and best.prices.rise > 0:
        last = best.prices
        try:
            multiplier_K = _mixture(cuts, best, rows.devices_A, reach).solve()[1]
            price_A = np.maximum(multiplier_K[: rows.A], 0.0) / rows.devices_A
        except UnsolvedError:
            break
        if not price_A.any():
            break
        cuts.append(_cut(rows, price_A, last.upper, last.level_width, NEAR * reach))
        step_A = np.abs(cuts[-1].prices.price_A - last.price_A) / widths(last.price_A, rows.devices_A)
        moved = float(step_A.max())
        if cuts[-1].prices.upper < last.upper:
            best, reach = cuts[-1], min(reach, 2.0 * moved)
        else:
            reach = min(reach, moved) / 2.0
    return best.prices.start, 2.0 * max(reach, NEAR)


def _speeds(rows: Rows) -> Floats:
    columns_A = np.bincount(rows.type_V, minlength=rows.A)
    per_device_V = rows.gain_VG.mean(axis=1) / rows.devices_V
    speed_A = np.bincount(rows.type_V, per_device_V, rows.A) / np.maximum(columns_A, 1)
    return np.asarray(np.maximum(speed_A, 1e-9 * speed_A.max()))


def _cut(rows: Rows, price_A: Floats, level: float, level_width: float = np.inf, tolerance: float = NEAR) -> Cut:
    prices = prove(rows, price_A, level, level_width, tolerance)
    return Cut(prices, *rows.usage(prices.price_A, prices.upper))


def _mixture(cuts: list[Cut], best: Cut, devices_A: Floats, reach: float) -> LinearProgram:
    """The best mixture of all cuts; its first multipliers are prices of all devices, within ``reach`` of the best.

    Variables: parts of the mixture, the level's step in widths, devices bought at the upper edge of the box and
    sold at the lower one. Devices are counted in all there are of their type.
    """
    A, K, prices = len(devices_A), len(cuts), best.prices
    reach_A, every_A = reach * widths(prices.price_A, devices_A), np.eye(A)
    buy_A, sell_A = prices.price_A + reach_A, np.maximum(prices.price_A - reach_A, 0.0)
    use_AK = np.column_stack([cut.use_at_A(prices.upper) for cut in cuts]) / devices_A[:, None]
    rise_A = best.rise_A * prices.level_width / devices_A
    fits_AV = np.column_stack([use_AK, rise_A, -every_A, every_A])
    mixture_V = np.concatenate([np.ones(K), np.zeros(1 + 2 * A)])
    pays = float((rise_A * buy_A * devices_A).sum()) < 1.0  # without end: a kink of the cost is at this very level
    highest = 0.0 if pays else np.inf
    return LinearProgram(
        objective_V=np.concatenate([np.zeros(K), [1.0], -buy_A * devices_A, sell_A * devices_A]),
        lower_V=np.concatenate([np.zeros(K), [-np.inf], np.zeros(2 * A)]),
        upper_V=np.concatenate([np.ones(K), [highest], np.full(2 * A, np.inf)]),
        matrix_KV=sparse.csc_array(np.vstack([fits_AV, mixture_V])),
        lower_K=np.append(np.full(A, -np.inf), 1.0),
        upper_K=np.ones(A + 1),
    )
