"""The published simulator of Gavel (OSDI'20), rule by rule, for ``--rules published``.

A loop over rounds of its own, with its priorities, its interior-point solver and its choices among equally good
answers. The mechanism, the simulator and the policies know nothing of it.
"""

from gavelx.published.rules import PUBLISHED, RULES, AnyRules, PublishedRules, seeded

__all__ = ["PUBLISHED", "RULES", "AnyRules", "PublishedRules", "seeded"]
