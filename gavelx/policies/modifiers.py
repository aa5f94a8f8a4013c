"""Modifiers: take a policy and give a policy.

``packed``, ``placed`` and ``elastic`` open further kinds of configuration to it; `agnostic`, `partitioned` and
`hierarchical` have files of their own.
"""

from abc import abstractmethod
from collections.abc import Sequence
from copy import copy

from gavelx.allocation import Allocation
from gavelx.asking import ask, gain_of
from gavelx.errors import PolicyError
from gavelx.jobs import Job
from gavelx.policies.base import Floats, Policy
from gavelx.policies.program import Maximize
from gavelx.policies.terms import Constraint
from gavelx.snapshot import Kind, Snapshot
from gavelx.solvers import RatioStatement, Statement


class Modifier(Policy):
    """A policy made of another one."""

    whole = True
    """Whether that one is asked about all jobs and devices at once."""

    def __init__(self, policy: Policy) -> None:
        if isinstance(policy, type) or not hasattr(policy, "allocate"):
            hint = f"{policy.__name__}()" if isinstance(policy, type) else f"load_policy({policy!r:.60})"
            raise PolicyError(f"{policy!r:.60} is no policy", where=f"{type(self).__name__}(...)", hint=hint)
        self.policy = policy

    @property
    def ignores(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.policy.ignores

    @property
    def uses(self) -> frozenset[Kind]:  # type: ignore[override]
        return self.policy.uses

    @property
    def opens(self) -> frozenset[Kind]:  # type: ignore[override]
        return self.policy.opens

    @abstractmethod
    def allocate(self, snapshot: Snapshot) -> Allocation:
        """The answer of the inner policy to what it is shown."""

    def gain(self, snapshot: Snapshot, share_C: Floats) -> float | None:
        return gain_of(self.policy, snapshot, share_C)

    def stated(self, snapshot: Snapshot) -> Statement | RatioStatement | None:
        """The program inside, as it is on the snapshot of an answer; None of a policy that is no program."""
        if isinstance(self.policy, Modifier):
            return self.policy.stated(snapshot)
        return self.policy.state(snapshot) if isinstance(self.policy, Maximize) else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.policy!r})"

    def __str__(self) -> str:
        return repr(self).replace(repr(self.policy), str(self.policy), 1)


class Opened(Modifier):
    """The same policy with one more kind of configuration open to it; with what ``follows`` as well, if it can."""

    kind: Kind
    follows: frozenset[Kind] = frozenset()

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        if self.kind not in policy.uses:
            raise PolicyError(
                f"{policy} does not know what to do with {self.kind}",
                where=f"{type(self).__name__}({policy})",
                expected="a program, such as max_min_fairness",
            )

    @property
    def opens(self) -> frozenset[Kind]:  # type: ignore[override]
        return self.policy.opens | {self.kind} | (self.follows & self.policy.uses)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        opened = self.opens if snapshot.known.has_mixes else self.opens - self.follows
        return ask(self.policy, snapshot.replace(opened=snapshot.opened | opened))


class packed(Opened):  # noqa: N801  (used like a function: packed(max_min_fairness))
    """The same policy with space sharing: pairs of jobs may share devices, where both speeds are known.

    Pairs are further configurations: capacity counts them once, and a job's time in them counts as its time.
    Source: Gavel (OSDI'20), section 3.1. The published code mixes rows up where jobs have unlike many partners;
    any pairs will do here, of any scale factors.
    """

    kind = "pairs"


class placed(Opened):  # noqa: N801
    """The same policy with placement: a gang may also be spread over servers, at the speed that it has then.

    Consolidated is a gang in as few servers as can hold it, so there is a place for it wherever there are devices
    enough, and a lone gang has the same share with and without this modifier. How many consolidated gangs fit a
    cluster's servers beside each other is left to the mechanism, which moves narrower jobs for them. Source: Gavel
    (OSDI'20), section 3.1, where placements are further columns.
    """

    kind = "placements"


class elastic(Opened):  # noqa: N801
    """The same policy with sizes: an elastic job may run on other numbers of devices, at other batch sizes.

    Sizes are further configurations, so any program takes them. What a job is judged by (its normalized
    throughput, its equal share) is the size that its user submitted. Jobs that are not elastic run as submitted.
    Those whose parts may be ``mixed`` may have devices of several types at once, if the policy knows of ``mixes``.
    Source: the columns are those of Gavel (OSDI'20), section 3.1; sizes as choices, of Sia (SOSP'23), section 3.
    """

    kind = "sizes"
    follows = frozenset[Kind]({"mixes"})

    def allocate(self, snapshot: Snapshot) -> Allocation:
        answer, told = super().allocate(snapshot), ignored_mixes(self, snapshot.jobs)
        return answer.with_notes([told]) if told else answer


def ignored_mixes(policy: Policy, jobs: Sequence[Job]) -> str:
    """What a policy that knows sizes and no mixes does with jobs that may be mixed, in words; else nothing."""
    if "mixes" in policy.opens or "sizes" not in policy.opens:
        return ""
    if not any(job.elastic is not None and job.elastic.mixed for job in jobs):
        return ""
    return f"{policy} knows no mixes: each job has devices of one accelerator type at a time"


def with_constraints(policy: Policy, constraints: Sequence[Constraint]) -> Policy:
    """The same program with further constraints: ``with_constraints(max_min_fairness, [Cost() <= 40])``.

    Raises :class:`PolicyError` where the policy is no program.
    """
    if isinstance(policy, Modifier):
        return within(policy, with_constraints(policy.policy, constraints))
    if not isinstance(policy, Maximize):
        raise PolicyError(
            f"{policy} is no program", where="with_constraints(...)", expected="Maximize or Minimize"
        )
    return policy.constrained(constraints)


def within(modifier: Modifier, policy: Policy) -> Policy:
    """The same modifier around another policy."""
    other = copy(modifier)
    other.policy = policy
    return other
