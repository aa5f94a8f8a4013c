"""From a stated program to a certified allocation.

The front door is :func:`~gavelx.solvers.portfolio.solve`: it asks one solver after the other until an answer
passes the check, and :mod:`~gavelx.solvers.infeasibility` names the constraint where there is none. Behind it,
from the ground floor up; each room uses only rooms before it:

* ``program``: what is asked and answered, as arrays; classes of identical jobs, the rows of a linear program, the
  check;
* ``lp``: HiGHS; column generation; integers;
* ``price_engine``: max-min programs and ratios over very many different rows, by the prices of the few types;
* ``maxmin``: linear programs, level by level where they are max-min; ratios;
* ``conic``: Clarabel, and cvxpy for any program; the bound of a concave program;
* ``planning``: queues, work over time and what to buy, which are programs of their own and not policies'
  statements.
"""

from gavelx.solvers.conic.reference import available
from gavelx.solvers.conic.tie_spreading import spread
from gavelx.solvers.portfolio import solve
from gavelx.solvers.program.certify import certified, repaired
from gavelx.solvers.program.settings import SOLVERS, Settings, settings, using
from gavelx.solvers.program.statement import RatioStatement, Statement

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
