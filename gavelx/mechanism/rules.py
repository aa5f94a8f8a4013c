"""The rules of the mechanism, and the two sets of them that have a name.

``default`` is what we would run. ``published`` is the simulator of Gavel (OSDI'20) to the last rule, including
the ones that cost time or money, so that published numbers can be reproduced.
"""

from dataclasses import dataclass, replace

from gavelx.mechanism.priority import Credit, PublishedPriority


@dataclass(frozen=True)
class Rules:
    """How rounds, priorities and idle devices are handled.

    * ``round_s``: length of a round, the step in which devices change hands;
    * ``solve_interval_s``: least time between two calls of the policy;
    * ``priority``: how the shares promised become an order in which jobs are served;
    * ``by_type``: serve the accelerator types one after another, in the cluster's order, instead of the most
      urgent pair of job and type first;
    * ``backfill``: let a job run on a type on which it was promised nothing, where devices are idle;
    * ``whole_steps``: a lease is for as many whole steps as fit into a round, so a round ends when its work does
      and a device whose job is done idles until then; otherwise a lease is for the rest of the round, jobs run
      on unbroken from round to round, and devices that fall free are given out at once;
    * ``reserve_unallocated``: jobs that the policy has not seen yet take part in backfill but do not run, so that
      devices stay idle for them (a slip of the published simulator);
    * ``charge_gaps``: charge the idle time before a round to the jobs of that round (likewise).
    """

    name: str
    round_s: float = 360.0
    solve_interval_s: float = 0.0
    priority: type[Credit] | type[PublishedPriority] = Credit
    by_type: bool = False
    backfill: bool = False
    whole_steps: bool = False
    reserve_unallocated: bool = False
    charge_gaps: bool = False

    def with_round(self, round_s: float) -> "Rules":
        """The same rules with rounds of another length."""
        return replace(self, round_s=round_s)


DEFAULT = Rules("default")
PUBLISHED = Rules(
    "published",
    solve_interval_s=1920.0,
    priority=PublishedPriority,
    by_type=True,
    backfill=True,
    whole_steps=True,
    reserve_unallocated=True,
    charge_gaps=True,
)
RULES = {rules.name: rules for rules in (DEFAULT, PUBLISHED)}
