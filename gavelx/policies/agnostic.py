"""What a scheduler that counts GPUs would do: one speed for all accelerator types.

Legend: J jobs, A accelerator types, C configurations, M memberships, N modes of running.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import FEASIBLE, Allocation
from gavelx.asking import ask
from gavelx.policies.modifiers import Modifier, ignored_mixes
from gavelx.snapshot import Kind, Snapshot
from gavelx.solvers import RatioStatement, Statement, certified, repaired, spread
from gavelx.solvers.program.certify import missing

Floats = NDArray[np.float64]


class agnostic(Modifier):  # noqa: N801  (used like a function: agnostic(max_min_fairness))
    """The same policy as a scheduler that counts GPUs would have it: one speed for all accelerator types.

    Every job is shown the mean of its speeds, weighted by devices over the types that it can run on, on all
    types; those that it cannot run on are barred, and so is a gang over more servers than it needs. Such a
    program does not care which type a job gets, and a solver's vertex sends whole job types to one accelerator,
    which would flatter everything compared with it. So ties are spread: each job's time is divided over the types
    in proportion to their devices (:mod:`gavelx.solvers.conic.tie_spreading`). A policy that hands out whole
    devices keeps to its choice; so does a program of which spreading would break a constraint or the objective
    (one with a budget, say, that tells types apart by their price). Mixes of types are not shown to the policy, as
    a scheduler that knows no types cannot plan them: each job has devices of one type at a time.
    """

    @property
    def uses(self) -> frozenset[Kind]:  # type: ignore[override]
        return super().uses - {"mixes"}

    @property
    def opens(self) -> frozenset[Kind]:  # type: ignore[override]
        return super().opens - {"mixes"}

    def allocate(self, snapshot: Snapshot) -> Allocation:
        snapshot = snapshot.without_mixes()
        seen = ask(self.policy, self.shown(snapshot))
        snapshot = snapshot.replace(opened=seen.snapshot.opened)
        path, share_C = self.spread(seen, snapshot)
        known = seen.certificate
        answer = certified(
            snapshot,
            share_C,
            path=path,
            seconds=known.seconds,
            objective=known.objective,
            bound=known.bound,
            classes=known.classes,
            execution=replace(seen.execution, knows_types=False),
        )
        told = ignored_mixes(self, snapshot.jobs)
        return answer.with_notes([*seen.notes, *[told] * bool(told)]).with_memory(seen.memory)

    def stated(self, snapshot: Snapshot) -> Statement | RatioStatement | None:
        return super().stated(self.shown(snapshot))

    def shown(self, snapshot: Snapshot) -> Snapshot:
        """What the inner policy sees: one speed for each job."""
        return one_speed(snapshot)

    def spread(self, seen: Allocation, snapshot: Snapshot) -> tuple[str, Floats]:
        """The answer's path and shares, spread where that breaks and costs nothing."""
        path, share_C = seen.certificate.path, seen.share_C
        if not (seen.execution.whole_devices or seen.execution.quota):
            spread_C = repaired(snapshot, spread(snapshot, share_C))
            if not self._is_worse(seen, spread_C):  # a budget, say, that only the unspread shares keep
                return f"{path}, spread", spread_C
        return path, share_C

    def _is_worse(self, seen: Allocation, share_C: Floats) -> bool:
        """Whether spreading broke a constraint or cost a part of the objective of a program."""
        if (statement := super().stated(seen.snapshot)) is None:
            return False
        before, after = statement.objective(seen.share_C), statement.objective(share_C)
        lost = before - after if isinstance(statement, Statement) else after - before  # a ratio is made small
        return missing(statement.required, share_C) > FEASIBLE or lost > 1e-6 * max(1e-12, abs(before))


def one_speed(snapshot: Snapshot) -> Snapshot:
    """The snapshot in which each job runs equally fast wherever it runs at all, alone and beside each partner."""
    table, devices_A = snapshot.known, snapshot.devices_A
    type_M = table.accelerator_C[table.configuration_M]
    weight_M = np.where(table.throughput_M > 0, np.maximum(devices_A[type_M], 1e-9), 0.0)
    _, group_M = np.unique(table.mode_C[table.configuration_M] * table.shape[0] + table.job_M, return_inverse=True)
    total_N = np.bincount(group_M, weight_M)

    def mean_M(speed_M: Floats) -> Floats:
        speed_N = np.bincount(group_M, weight_M * speed_M)
        mean_N = np.divide(speed_N, total_N, out=np.zeros(len(speed_N)), where=total_N > 0)
        return np.asarray(mean_N[group_M])

    barred_C = ~table.runnable_C | _needlessly_spread_C(snapshot)
    return snapshot.replace(known=replace(table.with_speeds(mean_M), barred_C=barred_C))


def _needlessly_spread_C(snapshot: Snapshot) -> NDArray[np.bool_]:
    """Spread gangs that run consolidated too: only a scheduler that knows speeds can tell the two apart."""
    table = snapshot.known
    together_M = ~table.spread_C[table.configuration_M] & (table.throughput_M > 0)
    together_J = np.bincount(table.job_M[together_M], minlength=table.shape[0]) > 0
    spread_M = table.spread_C[table.configuration_M] & together_J[table.job_M]
    return np.bincount(table.configuration_M[spread_M], minlength=len(table)) > 0
