"""Try policies on jobs that were, before one of them decides: a learner's guard.

Both are simulated on the same jobs, by the mechanism that runs the cluster; nothing is believed of a model.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Rules
from gavelx.mechanism.lengths import Known
from gavelx.policies import Policy
from gavelx.simulator.simulate import simulate
from gavelx.throughputs import Throughputs

TOLERANCE = 0.05


@dataclass(frozen=True, eq=False)
class Recent:
    """The jobs that came last, the first of them at 0, and where they ran; ``lengths``: what policies knew."""

    jobs: tuple[Job, ...]
    cluster: Cluster
    throughputs: Throughputs
    rules: Rules = DEFAULT
    lengths: Known = "told"


@dataclass(frozen=True)
class Trial:
    """Mean completion of the same jobs under each policy, in seconds; infinite where one never ends."""

    jct_s: Mapping[str, float]
    teacher: str

    def passes(self, policy: str, tolerance: float = TOLERANCE) -> bool:
        """Whether a policy costs no more than a part beyond the teacher."""
        return self.jct_s[policy] <= self.jct_s[self.teacher] * (1.0 + tolerance)

    def chosen(self, tolerance: float = TOLERANCE) -> str:
        """The policy with the least mean completion of those that pass; the teacher if none other does."""
        others = [policy for policy in self.jct_s if policy != self.teacher and self.passes(policy, tolerance)]
        return min(others, key=lambda policy: self.jct_s[policy], default=self.teacher)


def tried(policies: Mapping[str, Policy], teacher: str, recent: Recent) -> Trial:
    """Simulate the jobs under each policy, one of which is the teacher."""
    jct_s = {}
    for name, policy in policies.items():
        result = simulate(
            policy, recent.jobs, recent.cluster, recent.throughputs, rules=recent.rules, lengths=recent.lengths
        )
        jct_s[name] = np.inf if result.unfinished else float(result.jct_s_J.mean())
    return Trial(jct_s, teacher)
