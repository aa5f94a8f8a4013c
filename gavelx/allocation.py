"""An allocation: a policy's answer, with the certificate that says how good it is.

Legend: J jobs, A accelerator types, C configurations.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gavelx import frames
from gavelx.errors import SharesError
from gavelx.execution import DEFAULT, Execution
from gavelx.fixed import fixed_property
from gavelx.memory import Memory
from gavelx.promises import Promises
from gavelx.snapshot import Snapshot

if TYPE_CHECKING:
    import pandas

Floats = NDArray[np.float64]
FEASIBLE = 1e-9
"""The largest violation of a constraint that an allocation may have, in shares of time or devices."""
CARRIED_OVER = "carried over: "
"""Start of a certificate's path if the previous allocation replaces a failed solve; the reason follows."""
LARGEST = 700.0
"""The largest power of e that is computed."""
EXCLUDED = 1e-6
"""By how much shares that exclude each other may pass 1 before it is said; solvers leave less."""
LISTED = 5
"""The most jobs that a sentence lists."""
DECIMALS = 9
"""Decimals of a promised share of time; smaller differences are a solver's rounding."""


@dataclass(frozen=True)
class Certificate:
    """What is known about an allocation.

    * ``objective``: recomputed from the shares, or None without an objective;
    * ``bound``: a proven limit that no allocation can pass, or None;
    * ``violation``: the worst excess over any constraint (in shares of time, or devices);
    * ``path``: the solver's route, in words;
    * ``classes``: the number of classes of identical jobs in the program that was solved;
    * ``seconds``: wall-clock time of the solve;
    * ``log_weight``: None if the objective has no logarithms; the sum of their weights if it is a sum of them; 0
      if it has other parts too.
    """

    objective: float | None
    bound: float | None
    violation: float
    path: str
    classes: int
    seconds: float
    log_weight: float | None = None

    def relative(self, change: float) -> float | None:
        """A change of the objective, relative to it (0.031: 3.1 %); None if it has no meaning.

        A part of a sum of logarithms has none: it depends on the unit of speeds. The change is then that of the
        geometric mean of what the logarithms are of, which does not.
        """
        if self.log_weight is not None:
            return math.expm1(min(LARGEST, change / self.log_weight)) if self.log_weight else None
        return change / abs(self.objective) if self.objective else None

    def to_json(self) -> dict[str, Any]:
        """The fields as plain Python numbers, also if a policy put in others."""
        return {
            "objective": None if self.objective is None else float(self.objective),
            "bound": None if self.bound is None else float(self.bound),
            "violation": float(self.violation),
            "path": self.path,
            "classes": int(self.classes),
            "seconds": float(self.seconds),
            **({} if self.log_weight is None else {"log_weight": float(self.log_weight)}),
        }


@dataclass(frozen=True, eq=False)
class Allocation:
    """The share of wall-clock time that each configuration gets.

    * ``share_C``: from 0 to 1, one for each of the snapshot's configurations;
    * ``marginal_A``: the change of the objective with one more device of a type, in the objective's unit; empty
      if the solver does not know it;
    * ``execution``: what the mechanism may do besides, such as filling idle devices with jobs that have no share;
    * ``notes``: remarks for the user, such as a deadline that cannot be met;
    * ``memory``: arrays that the next snapshot brings back (:mod:`gavelx.memory`).
    """

    snapshot: Snapshot
    share_C: Floats
    certificate: Certificate
    marginal_A: Mapping[str, float] = field(default_factory=dict)
    execution: Execution = DEFAULT
    notes: tuple[str, ...] = ()
    memory: Memory = field(default_factory=dict)

    def with_execution(self, **changes: Any) -> "Allocation":
        """The same shares with these fields of :class:`~gavelx.execution.Execution` changed."""
        return replace(self, execution=replace(self.execution, **changes))

    def with_notes(self, notes: Sequence[str]) -> "Allocation":
        """The same allocation with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def with_memory(self, memory: Memory) -> "Allocation":
        """The same allocation; the policy finds these arrays in the next snapshot."""
        return replace(self, memory=memory)

    def __post_init__(self) -> None:
        self.share_C.setflags(write=False)
        excess = self.certificate.violation
        assert excess <= FEASIBLE, f"by its certificate the shares pass a limit by {excess:.4g}"

    @fixed_property
    def share_JA(self) -> Floats:
        """The share of time in which each job has devices of each accelerator type; in a mix it has several."""
        return self.snapshot.configurations.by_job_and_type(self.share_C)

    @fixed_property
    def throughput_J(self) -> Floats:
        """Effective throughput in steps/s: the mean of each job's speeds, weighted by its shares."""
        table = self.snapshot.configurations
        speed_M = table.throughput_M * self.share_C[table.configuration_M]
        return np.asarray(np.bincount(table.job_M, speed_M, table.shape[0]), dtype=float)

    @cached_property
    def relaxation(self) -> str | None:
        """Why no schedule gives all these shares, in a sentence; None if nothing shows that.

        A program limits time and devices on average, and a gang needs its devices at once. Configurations that
        need more than half of a type run one after the other, and so does a job that fits beside none of them:
        on each type their shares may add up to 1. For two jobs, each on one type at a time, None means that there
        is a schedule; for more jobs that is not certain.
        """
        return relaxed(self.snapshot, self.share_C)

    def promises(self, *, rounded: bool = False) -> Promises:
        """Every configuration with a share, under the ids of the jobs.

        ``rounded`` rounds shares to ``DECIMALS`` and drops those of one unit in the last decimal. Equal promises
        are then equal to the last bit on every processor; without it, rounding decides which job is served first.
        """
        share_C = self.share_C.round(DECIMALS) if rounded else self.share_C
        c_P = np.flatnonzero(share_C > (10.0**-DECIMALS if rounded else 0.0))
        return Promises(self.snapshot.accelerators, self.snapshot.named(c_P), share_C[c_P])

    def to_frame(self) -> "pandas.DataFrame":
        """A row a job: its type and owner, its share of time on each accelerator type, and its steps/s."""
        names, jobs = self.snapshot.accelerators, self.snapshot.jobs
        columns = {name: [getattr(job, name) for job in jobs] for name in ("id", "job_type", "owner")}
        shares = dict(zip(names, self.share_JA.T, strict=True))
        return frames.frame(columns | shares | {"steps_per_second": self.throughput_J})

    def __repr__(self) -> str:
        c = self.certificate
        proof = "" if c.objective is None else f": objective {c.objective:.6g}"
        proof += "" if c.bound is None else f", bound {c.bound:.6g}"
        return f"<Allocation for {self.snapshot!r}{proof}, violation {c.violation:.1e}>"

    def _repr_html_(self) -> str:
        return frames.html(self.to_frame())

    def to_json(self) -> dict[str, Any]:
        """Shares per job and type, the configurations behind them, the certificate and the marginal values."""
        table, names = self.snapshot.configurations, self.snapshot.accelerators
        ids = [job.id for job in self.snapshot.jobs]
        members: list[list[int]] = [[] for _ in range(len(table))]
        for job, c in zip(table.job_M.tolist(), table.configuration_M.tolist(), strict=True):
            members[c].append(ids[job])
        return {
            "allocation": {
                str(job_id): dict(zip(names, row, strict=True))
                for job_id, row in zip(ids, self.share_JA.tolist(), strict=True)
            },
            "configurations": [
                {
                    "jobs": members[c],
                    "accelerator": names[table.accelerator_C[c]],
                    "devices": int(table.devices_C[c]),
                    **({"batch": int(table.batch_C[c])} if table.batch_C[c] else {}),
                    **({"others": others} if (others := self._others(c)) else {}),
                    "share": float(self.share_C[c]),
                }
                for c in np.flatnonzero(self.share_C).tolist()
            ],
            "certificate": {
                **self.certificate.to_json(),
                **({} if self.relaxation is None else {"relaxation": self.relaxation}),
            },
            "prices": dict(self.marginal_A),
            "notes": list(self.notes),
        }

    def _others(self, c: int) -> dict[str, int]:
        """The devices of further types in a mix."""
        devices_A = self.snapshot.configurations.others_CA[c].tolist()
        return {name: n for name, n in zip(self.snapshot.accelerators, devices_A, strict=False) if n}


def relaxed(snapshot: Snapshot, share_C: Floats) -> str | None:
    """The sentence of :attr:`Allocation.relaxation`, about the first type and the widest gangs that show it."""
    table, (c_N,) = snapshot.configurations, np.nonzero(share_C > 0)
    place_C = np.full(len(table), -1)
    place_C[c_N] = np.arange(len(c_N))
    m_M = np.flatnonzero(place_C[table.configuration_M] >= 0)
    job_M, n_M = table.job_M[m_M], place_C[table.configuration_M[m_M]]
    for a, devices in enumerate(snapshot.devices_A.tolist()):
        width_N = table.devices_AC[[a]].toarray()[0, c_N]
        for width in sorted({n for n in width_N.tolist() if 2 * n > devices}, reverse=True):
            wide_N = width_N >= width
            beside_N = ~wide_N & (width_N > devices - width)
            alone_J = np.bincount(job_M, np.where(beside_N, share_C[c_N], 0.0)[n_M], len(snapshot.jobs))
            wide = float(share_C[c_N[wide_N]].sum())
            if wide + alone_J.max(initial=0.0) <= 1.0 + EXCLUDED:
                continue
            jobs = _listed(snapshot, np.unique(job_M[wide_N[n_M]]))
            name = snapshot.accelerators[a]
            gang = f"{jobs} on {width:g} or more of {devices} {name} ({wide:.1%} of the time)"
            over_J = np.flatnonzero(wide + alone_J > 1.0 + EXCLUDED)
            if wide > 1.0 + EXCLUDED:
                why = f"{gang} exclude each other"
            else:
                why = f"{gang} and {_listed(snapshot, over_J)} (up to {alone_J.max():.1%}) exclude each other"
            return f"the shares are a relaxation that no schedule meets: {why}"
    return None


def _listed(snapshot: Snapshot, job_S: NDArray[np.int64]) -> str:
    ids = [str(snapshot.jobs[j].id) for j in job_S[:LISTED].tolist()]
    more = len(job_S) - len(ids)
    return f"job{'s' * (len(job_S) > 1)} {', '.join(ids)}" + (f" and {more} more" if more else "")


def check_form(snapshot: Snapshot, share_C: Any) -> Floats:
    """The shares as an array. Raises :class:`SharesError` unless there is one number for each configuration."""
    share_C, shape = np.asarray(share_C), (len(snapshot.configurations),)
    if share_C.shape != shape or share_C.dtype.kind not in "fiu":
        problem = f"the shares are an array of {share_C.dtype} with shape {share_C.shape}"
        raise SharesError(problem, f"numbers with shape {shape}, one for each configuration")
    return np.asarray(share_C)


def check_limits(snapshot: Snapshot, share_C: Floats) -> None:
    """Check that shares are finite, 0 or more, at most 1 for each job, and within the devices of each type.

    Raises :class:`SharesError` that names the share, job or type that is furthest off.
    """
    if not np.isfinite(share_C).all():
        raise SharesError("a share is not a finite number", "shares from 0 to 1")
    table = snapshot.configurations
    over_J, over_A = table.time_J(share_C) - 1.0, table.devices_A(share_C) - snapshot.devices_A
    if share_C.min(initial=0.0) < -FEASIBLE:
        raise SharesError(f"a share is {share_C.min():.4g}", "0 or more")
    if over_J.max(initial=0.0) > FEASIBLE:
        j = int(over_J.argmax())
        problem = f"job {snapshot.jobs[j].id} gets {_more(over_J[j] + 1.0, 1.0)} of its time"
        raise SharesError(problem, "at most 1 over all its configurations")
    if over_A.max(initial=0.0) > FEASIBLE:
        a = int(over_A.argmax())
        devices = int(snapshot.devices_A[a])
        problem = f"the shares use {_more(over_A[a] + devices, devices)} devices of {snapshot.accelerators[a]}"
        raise SharesError(problem, f"at most {devices}")


def _more(seen: float, limit: float) -> str:
    """A number above a limit, with enough digits to show that it is."""
    return next(text for digits in (4, 6, 9, 12, 17) if float(text := f"{seen:.{digits}g}") > limit)
