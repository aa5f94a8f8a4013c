"""The simulator: the mechanism on a virtual clock."""

from gavelx.simulator.simulate import simulate

__all__ = ["simulate"]
