"""From a stated program to a certified allocation.

`statement` is what a policy asks for (`convex` where cvxpy has a part in it); `collapse` finds classes of
identical jobs, and `sparse` divides among them what a class got; `linear` solves by HiGHS (`rows`, `highs`) or,
where very many rows differ, by prices (`grid`, `price_engine`); `ratio` brings ratios down to linear programs;
`logarithms` goes to Clarabel (`conic`); `reference` solves anything through cvxpy, and `tangent` bounds it;
`matching` plans queues; `spreading` breaks ties between accelerator types; `certify` checks; `blame` says what is
wrong with a program that has no answer. `portfolio` joins them, as `settings` say.
"""

from gavelx.solvers.certify import certified, repaired
from gavelx.solvers.portfolio import solve
from gavelx.solvers.reference import available
from gavelx.solvers.settings import SOLVERS, Settings, settings, using
from gavelx.solvers.spreading import spread
from gavelx.solvers.statement import RatioStatement, Statement

__all__ = [
    "SOLVERS",
    "RatioStatement",
    "Settings",
    "Statement",
    "available",
    "certified",
    "repaired",
    "settings",
    "solve",
    "spread",
    "using",
]
