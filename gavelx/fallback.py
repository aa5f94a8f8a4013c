"""Fallback: if every solver fails during a run, the previous allocation is carried over.

Live jobs keep their shares, new jobs get an equal share, and an excess is scaled down. The certificate says so and
claims no objective. Only :class:`SolverError` is caught; a program without a solution is its author's mistake and
ends the run.

Legend: J jobs, A accelerator types, C configurations.
"""

from collections import defaultdict
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import CARRIED_OVER, Allocation
from gavelx.asking import Allocator, ask
from gavelx.configuration import Configuration
from gavelx.errors import SolverError
from gavelx.execution import DEFAULT, Execution
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified, repaired

Floats = NDArray[np.float64]


@dataclass
class FallbackPolicy:
    """A policy, with the previous allocation as its answer when its solvers fail; ``failures`` lists the reasons.

    Stateful (it remembers the previous allocation), so make one for each run.
    """

    policy: Allocator
    previous: Allocation | None = None
    failures: list[str] = field(default_factory=list)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        """The policy's allocation, or the previous one carried over. Raises :class:`PolicyError` as `ask` does."""
        try:
            self.previous = ask(self.policy, snapshot)
        except SolverError as failure:
            self.failures.append(str(failure))
            self.previous = carried_over(self.previous, snapshot, str(failure))
        return self.previous


def carried_over(previous: Allocation | None, snapshot: Snapshot, reason: str) -> Allocation:
    """The previous allocation made feasible for this snapshot; without one, an equal share for each job.

    If one job of a pair is gone, the other keeps the share. New jobs get W_a / (n s_j) of each type: its devices,
    over the number of jobs times the job's scale factor.
    """
    for kind in previous.snapshot.opened if previous is not None else ():
        snapshot = snapshot.open(kind)
    ids = [job.id for job in snapshot.jobs]
    kept = {} if previous is None else _promised(previous, set(ids))
    known = set() if previous is None else {job.id for job in previous.snapshot.jobs}
    share_C = _equal_shares(snapshot, np.array([job_id not in known for job_id in ids], dtype=bool))
    share_C += np.array([kept.pop(each, 0.0) for each in _named(snapshot)], dtype=float)
    share_C = np.where(snapshot.usable_C, share_C, 0.0)
    return certified(
        snapshot,
        repaired(snapshot, share_C),
        path=f"{CARRIED_OVER}{reason}",
        seconds=0.0,
        execution=DEFAULT if previous is None else _as_before(previous.execution),
    ).with_memory(snapshot.memory)


def _as_before(execution: Execution) -> Execution:
    """The execution of shares that are carried over: they are parts of time, and no longer whole devices."""
    return replace(execution, whole_devices=False, knows_types=True, refresh_s=None)


def _promised(previous: Allocation, still_there: set[int]) -> dict[Configuration, float]:
    """The share of each configuration, without the jobs that are gone."""
    share = defaultdict[Configuration, float](float)
    for each, value in zip(_named(previous.snapshot), previous.share_C.tolist(), strict=True):
        if value > 0 and (members := tuple(i for i in each.members if i in still_there)):
            share[each._replace(members=members)] += value
    return share


def _named(snapshot: Snapshot) -> list[Configuration]:
    return snapshot.named(np.arange(len(snapshot.configurations))).named(snapshot.accelerators)


def _equal_shares(snapshot: Snapshot, wanted_J: NDArray[np.bool_]) -> Floats:
    """1/n of every accelerator type for each of these jobs, alone and consolidated."""
    table = snapshot.configurations
    share_C = np.zeros(len(table))
    plain_M = table.plain_M & wanted_J[table.job_M]
    c_P = table.configuration_M[plain_M]
    share_C[c_P] = snapshot.devices_A[table.accelerator_C[c_P]] / (len(snapshot.jobs) * table.devices_C[c_P])
    return share_C
