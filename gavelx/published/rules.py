"""The published rules: what of them can be chosen, and both sets of rules by name."""

from dataclasses import dataclass, replace

from gavelx.mechanism.rules import DEFAULT, Rules
from gavelx.overheads import FREE, Overheads


@dataclass(frozen=True)
class PublishedRules:
    """The simulator of Gavel (OSDI'20) to the last rule, so that published numbers can be reproduced.

    * ``round_s``: a round is as many whole steps as fit into so long; it ends when its work does, and a device
      whose job is done idles until then;
    * ``solve_interval_s``: least time between two calls of the policy;
    * ``backfill``: at 0, ways to run without a share take part, behind those with one; None: they do not;
    * ``overheads``: what preemption costs. They only take time: no choice looks at them;
    * ``max_failures``: a job that failed so often without a step in between is given up;
    * ``split_price``: jobs that share a device share its price; as published, each pays in full;
    * ``charge_gaps``: jobs pay for the idle time before their round, as published;
    * ``seed``: for the order of types of a policy that is blind to them (:mod:`gavelx.published.types`).
    """

    name: str = "published"
    round_s: float = 360.0
    solve_interval_s: float = 1920.0
    backfill: float | None = 0.0
    overheads: Overheads = FREE
    max_failures: int = 5
    split_price: bool = False
    charge_gaps: bool = True
    seed: int = 0

    def with_round(self, round_s: float) -> "PublishedRules":
        """The same rules with rounds of another length."""
        return replace(self, round_s=round_s)


PUBLISHED = PublishedRules()
AnyRules = Rules | PublishedRules
RULES: dict[str, AnyRules] = {rules.name: rules for rules in (DEFAULT, PUBLISHED)}


def seeded(rules: AnyRules, seed: int) -> AnyRules:
    """The rules with this seed, where they draw anything."""
    return rules if isinstance(rules, Rules) else replace(rules, seed=seed)
