"""The class that a policy's author subclasses."""

from gavelx.testing.answers import Answers
from gavelx.testing.invariance import Invariance
from gavelx.testing.promises import Promises


class PolicyConformance(Answers, Invariance, Promises):
    """Everything that is expected of a policy, as tests. Subclass it and name the policy::

        class TestMine(PolicyConformance):
            policy = my_policy

    pytest then checks, on generated clusters, that allocations are feasible and certificates honest, that the
    order of jobs, names and units do not matter, that there is an answer to every snapshot, the same each time,
    and those economic properties that ``policy.promises`` names. :class:`~gavelx.testing.checks.Checks` lists
    what a subclass can say about its policy.
    """
