"""The simulator: the mechanism on a virtual clock."""

from gavelx.simulator.asked import asked
from gavelx.simulator.compare import compare
from gavelx.simulator.simulate import simulate

__all__ = ["asked", "compare", "simulate"]
