"""The mechanism: pure, event-driven, the same in simulation and on real workers."""

from gavelx.mechanism.mechanism import Mechanism
from gavelx.mechanism.rules import DEFAULT, Rules

__all__ = ["DEFAULT", "Mechanism", "Rules"]
