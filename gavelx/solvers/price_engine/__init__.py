"""Max-min programs with very many different rows, exactly, by working on the prices of the few accelerator types.

`levels` raises level after level, `ratios` makes the largest ratio small; `search` finds one level by moving the
prices; `replies` says what every row would do at given prices. It knows arrays only; :mod:`gavelx.solvers.grid`
joins it to programs.
"""

from gavelx.solvers.price_engine.levels import Levels, solve_levels
from gavelx.solvers.price_engine.ratios import Ratios, solve_ratios
from gavelx.solvers.price_engine.search import Limits

__all__ = ["Levels", "Limits", "Ratios", "solve_levels", "solve_ratios"]
