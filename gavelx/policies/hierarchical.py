"""Teams and their members: max-min fairness between owners, fair or first come, first served within.

Legend: J jobs, R rows that rise (classes of jobs), N owners, parents before their children.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.errors import PolicyError
from gavelx.job_table import column
from gavelx.jobs import Job
from gavelx.policies.base import Policy
from gavelx.policies.convex import is_convex
from gavelx.policies.modifiers import Modifier, within
from gavelx.policies.program import Maximize
from gavelx.policies.terms import Constraint, Term, Worst, digits
from gavelx.snapshot import Snapshot
from gavelx.solvers.program.statement import RatioStatement, Statement

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Owner(NamedTuple):
    """A team, or a user in it: its weight beside its siblings, and whether its jobs queue or share."""

    weight: float = 1.0
    fifo: bool = False

    def __str__(self) -> str:
        return " ".join([digits(self.weight)] * (self.weight != 1.0) + ["fifo"] * self.fifo) or "1"


class Hierarchical(Maximize):
    """Share between owners by their weights, and each owner's part between their jobs, by priority or in a queue.

    Jobs name their owner as a path such as ``team/user``, of any depth. All rows of the policy's ``Worst`` rise
    from 0 together, each at its job's part of the cluster's weight: an owner's weight is divided between their own
    jobs (by priority) and the owners below them (by weight) that can still rise, or goes to their first job
    that can if they are ``fifo`` (and then that of the owners below, too, in order of arrival). Jobs that can
    rise no further keep what they have, and their part goes to their siblings. Owners that are not named weigh 1
    and are fair. Jobs without an owner stand beside the teams.

    Source: Gavel (OSDI'20), section 4.3 (two levels; its MILP for the jobs that can still rise is not needed, see
    :mod:`gavelx.solvers.maxmin.lexicographic`). ``certificate.objective`` is the first level: the least row over
    its rate.
    """

    promises: tuple[str, ...] = ("pareto_efficiency",)

    def __init__(self, policy: Policy, owners: Mapping[str, Owner]) -> None:
        if not isinstance(policy, Maximize) or not _is_linear_worst(policy.objective):
            raise PolicyError(
                f"{policy} does not raise its worst row",
                where=f"hierarchical({policy})",
                expected="Maximize(Worst(...)) of a linear term, such as max_min_fairness",
            )
        if own := _own_methods(policy):
            raise PolicyError(
                f"{type(policy).__name__} has its own {own[0]}(), which would never be asked",
                where=f"hierarchical({policy})",
                expected="a program that is no more than its objective and constraints",
            )
        super().__init__(policy.objective, policy.constraints)
        self.policy: Maximize = policy
        self.owners = dict(owners)
        for path, owner in owners.items():
            if not (owner.weight > 0 and np.isfinite(owner.weight)):
                raise PolicyError(f"{path} weighs {owner.weight}", where=repr(self), expected="a weight above 0")

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return super().allocate(snapshot).with_execution(by_owner=True)

    def state(self, snapshot: Snapshot) -> Statement | RatioStatement:
        statement = super().state(snapshot)
        assert isinstance(statement, Statement)
        rates = OwnerRates(snapshot.jobs, self.owners, snapshot.runs_J)
        return replace(statement, worst=(replace(statement.worst[0], rates=rates),))

    def between(self, owners: Mapping[str, Owner]) -> "Hierarchical":
        """The same policy between these owners."""
        return Hierarchical(self.policy, owners)

    def constrained(self, constraints: Sequence[Constraint]) -> "Hierarchical":
        other = super().constrained(constraints)
        assert isinstance(other, Hierarchical)
        other.policy = self.policy.constrained(constraints)
        return other

    def __repr__(self) -> str:
        return self._named(repr(self.policy))

    def __str__(self) -> str:
        return self._named(str(self.policy))

    def _named(self, policy: str) -> str:
        return f"hierarchical({', '.join([policy, *(f'{path}={owner}' for path, owner in self.owners.items())])})"


def _is_linear_worst(objective: Term) -> bool:
    return isinstance(objective, Worst) and not is_convex(objective)


def _own_methods(policy: Maximize) -> list[str]:
    """Methods of its class that give another answer than its formula."""
    return [name for name in ("allocate", "state") if getattr(type(policy), name) is not getattr(Maximize, name)]


def hierarchical(policy: Policy, owners: Mapping[str, float | str | Owner] | None = None) -> Policy:
    """The same max-min policy between owners: ``hierarchical(max_min_fairness, {"ml": 2, "ops": "fifo"})``.

    An owner is a weight, ``"fifo"``, or ``Owner(weight, fifo)``. Raises :class:`PolicyError`.
    """
    if isinstance(policy, Modifier):
        return within(policy, hierarchical(policy.policy, owners))
    read = {path: _owner(path, owner) for path, owner in (owners or {}).items()}
    return policy.between(read) if isinstance(policy, Hierarchical) else Hierarchical(policy, read)


def _owner(path: str, owner: float | str | Owner) -> Owner:
    if isinstance(owner, Owner):
        return owner
    words = str(owner).split()
    try:
        weights = [float(word) for word in words if word != "fifo"]
    except ValueError:
        weights = []
    if (
        not words
        or len(words) - len(weights) > 1
        or len(weights) > 1
        or words.count("fifo") + len(weights) < len(words)
    ):
        raise PolicyError(
            f"{path}={owner}", where="hierarchical(...)", expected="a weight, fifo, or both: ml=2 fifo"
        )
    return Owner(weights[0] if weights else 1.0, "fifo" in words)


class OwnerRates:
    """The rate of each job: its part of the whole, over its own priority (rows are per unit of priority).

    Of those that can run (``runs_J``); the others have no part.
    """

    def __init__(self, jobs: Sequence[Job], owners: Mapping[str, Owner], runs_J: NDArray[np.bool_]) -> None:
        self._runs_J = runs_J
        self._parent_N: list[int] = [-1]
        self._weight_N: list[float] = [1.0]
        self._fifo_N: list[bool] = [owners.get("", Owner()).fifo]
        self._number: dict[str, int] = {"": 0}
        self.owner_J = np.array([self._node(job.owner, owners) for job in jobs], dtype=np.int64)
        self._weight_J = column(jobs, "weight")
        order = sorted(range(len(jobs)), key=lambda j: (jobs[j].arrival_s, jobs[j].id))
        self._rank_J = np.empty(len(jobs), dtype=np.int64)
        self._rank_J[order] = np.arange(len(jobs))
        queues_J = np.array(self._fifo_N)[self.owner_J]
        self.label_J = np.where(queues_J, len(self._parent_N) + self._rank_J, self.owner_J)

    def _node(self, path: str, owners: Mapping[str, Owner]) -> int:
        """The owner's number; that of the first queue above, since all below stand in it."""
        node, name = 0, ""
        for part in (part for part in path.split("/") if part):
            if self._fifo_N[node]:
                break
            name = f"{name}/{part}" if name else part
            if name not in self._number:
                owner = owners.get(name, Owner())
                self._number[name] = len(self._parent_N)
                self._parent_N.append(node)
                self._weight_N.append(owner.weight)
                self._fifo_N.append(owner.fifo)
            node = self._number[name]
        return node

    def __call__(self, rising_R: NDArray[np.bool_], job_R: Ints, count_R: Ints) -> Floats:
        node_R, weight_R, N = self.owner_J[job_R], self._weight_J[job_R], len(self._parent_N)
        rising_R = rising_R & self._runs_J[job_R]
        direct_N = np.bincount(node_R, np.where(rising_R, weight_R * count_R, 0.0), N)
        total_N = direct_N.copy()
        for n in range(N - 1, 0, -1):
            total_N[self._parent_N[n]] += self._weight_N[n] if total_N[n] > 0 else 0.0
        part_N = np.zeros(N)
        part_N[0] = 1.0
        for n in range(1, N):
            parent = self._parent_N[n]
            part_N[n] = part_N[parent] * self._weight_N[n] / total_N[parent] if total_N[n] > 0 else 0.0
        fair_R = part_N[node_R] / np.where(total_N[node_R] > 0, total_N[node_R], 1.0)
        return np.where(
            rising_R, np.where(np.array(self._fifo_N)[node_R], self._queue(rising_R, job_R, part_N), fair_R), 0.0
        )

    @property
    def part_J(self) -> Floats:
        """The part of the cluster that each job is entitled to; 0 for one that can run nowhere."""
        J = len(self.owner_J)
        return self._weight_J * self(np.ones(J, dtype=bool), np.arange(J), np.ones(J, dtype=np.int64))

    def _queue(self, rising_R: NDArray[np.bool_], job_R: Ints, part_N: Floats) -> Floats:
        """The whole part of an owner for the first of their jobs that can still rise."""
        node_R, rank_R = self.owner_J[job_R], self._rank_J[job_R]
        first_N = np.full(len(part_N), np.iinfo(np.int64).max)
        np.minimum.at(first_N, node_R[rising_R], rank_R[rising_R])
        return np.where(rank_R == first_N[node_R], part_N[node_R] / self._weight_J[job_R], 0.0)
