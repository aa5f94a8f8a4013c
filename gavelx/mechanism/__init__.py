"""The mechanism: pure, event-driven, the same in simulation and on real workers."""

from gavelx.mechanism.mechanism import Mechanism
from gavelx.mechanism.rules import DEFAULT, PUBLISHED, RULES, Rules

__all__ = ["DEFAULT", "PUBLISHED", "RULES", "Mechanism", "Rules"]
