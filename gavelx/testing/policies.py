"""The class that authors of policies subclass."""

from gavelx.testing.answers import Answers
from gavelx.testing.clocks import Clocks
from gavelx.testing.invariance import Invariance
from gavelx.testing.promises import Promises
from gavelx.testing.runs import Runs
from gavelx.testing.weights import Weights


class PolicyConformance(Answers, Invariance, Promises, Weights, Runs, Clocks):
    """Everything that is expected of a policy, as tests. Subclass it and name the policy::

        class TestMine(PolicyConformance):
            policy = my_policy

    pytest then checks, on generated clusters, that allocations are feasible and certificates honest, that the
    order of jobs, names, units and the time of day do not matter, that there is an answer to every snapshot, the
    same each time, without waiting, that weights count, that all jobs of short simulations are done, and those
    economic properties that ``policy.promises`` names. :class:`~gavelx.testing.checks.Checks` lists the attributes
    that a subclass can set.
    """
