"""Whether devices are plenty for needs that are given: shares that meet them, without a program.

Every row takes the shares that are cheapest for it; the fuller a type, the dearer it becomes. The average of the
shares taken so far meets the needs as well, and fits once the rows are spread over the types.

Source: M. Frank and P. Wolfe, "An algorithm for quadratic programming" (Naval Research Logistics Quarterly 3,
1956), on a smooth maximum of how full the types are; M. Grigoriadis and L. Khachiyan, "Fast approximation schemes
for convex programs with many blocks and coupling constraints" (SIAM Journal on Optimization 4, 1994).

Legend: G rows, A accelerator types.
"""

import numpy as np

from gavelx.solvers.price_engine.replies import Floats, Rows

PASSES = 40
PLENTY = 0.85
"""Part of the devices' worth that the needs may take; with more, an answer would take too many passes."""
STEEP = 10.0
"""How much dearer a type is that is fuller by all of its devices: e to the power of this."""


def fitted(rows: Rows, level: float) -> Floats | None:
    """Shares with which every row has its need at this level; None if none are found soon."""
    fast_V = np.einsum("ag,g->a", rows.gain_VG, rows.load_G)
    price_A = fast_V if rows.sizes is None else np.bincount(rows.type_V, fast_V / rows.devices_V, rows.A)
    share_GA = np.zeros((len(rows), rows.V))
    for number in range(PASSES):
        price_A = price_A / np.einsum("a,a->", price_A, rows.devices_A)
        reply_GA = rows.cheapest(price_A, level)
        used_A = rows.per_type(np.einsum("g,ga->a", rows.load_G, reply_GA))
        if np.einsum("a,a->", used_A, price_A) > PLENTY:
            return None  # even the cheapest shares take nearly all that there is
        share_GA += 2.0 / (number + 2.0) * (reply_GA - share_GA)
        full_A = rows.per_type(np.einsum("g,ga->a", rows.load_G, share_GA)) / rows.devices_A
        if (full_A <= 1.0).all():
            return share_GA
        price_A = np.exp(STEEP * (full_A - full_A.max())) / rows.devices_A
    return None
