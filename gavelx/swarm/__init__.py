"""The swarm: thousands of small runs in which everything goes wrong, each fixed by one seed, and audited.

``make simulate SEED=7`` repeats one of them, to the byte.
"""

from gavelx.swarm.cases import Case, case_of
from gavelx.swarm.run import run

__all__ = ["Case", "case_of", "run"]
