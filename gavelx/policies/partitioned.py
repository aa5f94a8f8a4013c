"""Divide and solve: many small programs instead of a large one.

Legend: J jobs, A accelerator types, C configurations.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.asking import ask
from gavelx.cluster import Cluster
from gavelx.errors import PolicyError, ProgramError
from gavelx.memory import Memory
from gavelx.policies.base import Policy
from gavelx.policies.budgets import refuse_budgets_inside
from gavelx.policies.modifiers import Modifier
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified

Floats = NDArray[np.float64]
ROUNDED = 1e-7
"""What sums over parts may miss of a constraint, relative to the size of its numbers."""


class partitioned(Modifier):  # noqa: N801  (used like a function: partitioned(max_min_fairness, 4))
    """The same policy for ``parts`` sub-clusters, each with its part of the devices and of the jobs.

    Quicker than the whole for programs that do not collapse, and worse by what the parts cannot give each other:
    1 to 12 % of the max-min objective on contested clusters. Jobs are dealt out like cards, ordered by scale
    factor, job type and priority, so that every part looks like the whole; there are fewer parts where a gang
    that fits the cluster would not fit its part. The certificate's objective is that of the whole program; no
    bound is known. Raises :class:`ProgramError` where the parts together break a constraint of the program.
    Source: POP (Narayanan et al., SOSP'21), which deals at random.
    """

    whole = False

    def __init__(self, policy: Policy, parts: int) -> None:
        super().__init__(policy)
        if not isinstance(parts, int) or parts < 1:
            raise PolicyError(f"{parts!r} parts", where=repr(self), expected="a whole number of at least 1")
        self.parts = parts
        refuse_budgets_inside(self, "each part would have the whole budget")

    def allocate(self, snapshot: Snapshot) -> Allocation:
        parts = _parts(snapshot, self.parts)
        share_K, seconds = np.zeros(len(snapshot.known)), 0.0  # K: all known configurations
        notes, memory = list[str](), dict[str, NDArray[Any]]()
        for part in range(parts):
            jobs = np.sort(_deal(snapshot)[part::parts])
            inner, known = snapshot.of_jobs(jobs, _slice(snapshot, part, parts))
            answer = ask(self.policy, inner.replace(memory=_of_part(snapshot.memory, part)))
            memory |= {f"{part}/{name}": array for name, array in answer.memory.items()}
            share_K[known[answer.snapshot.open_C]] = answer.share_C
            seconds += answer.certificate.seconds
            notes += answer.notes
        whole = snapshot.replace(opened=answer.snapshot.opened)
        share_C, objective = share_K[whole.open_C], None
        if (statement := self.stated(whole)) is not None:
            if missed := [each.text for each in statement.required if each.missing(share_C) > ROUNDED]:
                problem = f"the parts together do not meet {' and '.join(missed)}, which each of them meets"
                raise ProgramError(problem, where=str(self), hint="a budget around it: budgeted(..., total=40)")
            value = getattr(statement, "sign", 1.0) * statement.objective(share_C)
            objective = value if np.isfinite(value) else None  # of no job
        path = f"{parts} parts: {answer.certificate.path}"
        merged = certified(whole, share_C, path=path, seconds=seconds, objective=objective)
        return replace(merged, notes=tuple(notes), execution=answer.execution, memory=memory)

    def __repr__(self) -> str:
        return f"partitioned({self.policy!r}, {getattr(self, 'parts', '?')})"


def _of_part(memory: Memory, part: int) -> Memory:
    """What the policy of one part remembers."""
    start = f"{part}/"
    return {name.removeprefix(start): array for name, array in memory.items() if name.startswith(start)}


def _parts(snapshot: Snapshot, parts: int) -> int:
    """At most so many parts that every gang which fits the cluster fits its part."""
    table, devices_A = snapshot.configurations, snapshot.devices_A
    runs_C = snapshot.usable_C & ~table.mixed_C
    most = min(len(snapshot.jobs), _parts_of_mixes(snapshot))
    for scale in np.unique(table.devices_C[runs_C]).tolist():
        types = np.unique(table.accelerator_C[runs_C & (table.devices_C == scale)])
        most = min(most, int((devices_A[types] // scale).min()))
    return max(1, min(parts, most))


def _parts_of_mixes(snapshot: Snapshot) -> int:
    """At most so many parts that every job that can run on mixes alone finds one of them in its part."""
    table, devices_A, most = snapshot.known, snapshot.devices_A, len(snapshot.jobs)
    if not table.has_mixes:
        return most
    usable_C = table.runnable_C & table.fit_C(devices_A)
    job_X, use_XA = table.rows.job[usable_C], table.devices_AC[:, usable_C].toarray().T
    parts_X = np.where(use_XA > 0, devices_A // np.maximum(use_XA, 1), most).min(axis=1)
    mixed_X, parts_J = table.mixed_C[usable_C], np.zeros(most)
    np.maximum.at(parts_J, job_X[mixed_X], parts_X[mixed_X])
    parts_J[job_X[~mixed_X]] = most
    return int(parts_J[parts_J > 0].min(initial=most))


def _deal(snapshot: Snapshot) -> np.ndarray:
    """The jobs in the order in which they are dealt out."""
    jobs = snapshot.jobs
    return np.array(
        sorted(
            range(len(jobs)), key=lambda j: (-jobs[j].scale_factor, jobs[j].job_type, jobs[j].weight, jobs[j].id)
        ),
        dtype=np.int64,
    )


def _slice(snapshot: Snapshot, part: int, parts: int) -> Cluster:
    """Whole devices of each type, as evenly as they go; what is left over goes to other parts for each type."""
    counts: dict[str, int] = {}
    for a, (name, count) in enumerate(zip(snapshot.accelerators, snapshot.devices_A.tolist(), strict=True)):
        counts[name] = count // parts + ((part + a) % parts < count % parts)
    per_server = int(snapshot.cluster.server_A.max(initial=1))
    return Cluster.of(counts, max(1, per_server))
