"""A result: what happened in a run, and the figures recomputed from it.

Legend: J jobs (in order of arrival), A accelerator types, L leases, K periods between changes of prices, P pieces
of leases, each within one period.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gavelx import frames, metrics
from gavelx.cluster import Cluster
from gavelx.job_table import column
from gavelx.jobs import Job

if TYPE_CHECKING:
    import pandas

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ROUNDING = 1e-9
"""Relative tolerance of a deadline: times are sums of floating-point numbers."""


@dataclass(frozen=True, eq=False)
class Leases:
    """Every lease of a run, one row each: job, number of devices, accelerator type, start and end.

    * ``billed_s_L``: seconds charged on each device: ``end_s - start_s``, half of that while two jobs share them,
      or otherwise if the rules say so;
    * ``busy_s_L``: seconds in which steps were done;
    * ``moved_L``: whether the job had run before, so that this lease is a restart;
    * ``resized_L``: whether it continues the lease before it, with other devices or another batch size.
    """

    job_L: Ints
    accelerator_L: Ints
    devices_L: Ints
    start_s_L: Floats
    end_s_L: Floats
    billed_s_L: Floats
    busy_s_L: Floats
    moved_L: NDArray[np.bool_]
    resized_L: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.job_L)


class Pieces(NamedTuple):
    """Leases, cut where prices change: lease, period, accelerator type, and device-seconds charged."""

    lease_P: Ints
    period_P: Ints
    type_P: Ints
    device_s_P: Floats


@dataclass(frozen=True)
class Intervals:
    """Intervals of figures over repeated runs, each with speeds drawn from the ranges of the estimated ones.

    ``of`` has (lower, upper) by the name of the figure; ``best`` is the part of the repetitions in which this
    policy had the lowest mean JCT of all policies; ``usages`` is the device time of each repetition
    (:meth:`Result.usage`), from which the interval of a bill at any prices follows.
    """

    of: Mapping[str, tuple[float, float]]
    samples: int
    level: float
    best: float | None = None
    usages: tuple[Mapping[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As in a summary."""
        return {
            "intervals": {name: list(bounds) for name, bounds in self.of.items()},
            "interval_level": self.level,
            "speed_samples": self.samples,
            **({} if self.best is None else {"best_jct_mean_share": self.best}),
        }


@dataclass(frozen=True, eq=False)
class Result:
    """One run of one policy: jobs, leases and completions, and the tables that follow from them.

    * ``completion_s_J``: seconds on the run's clock, NaN for a job that did not complete;
    * ``measured``: slice of the jobs in the job figures (JCT, rho, mu, counts), as in ``--window S:E``;
    * ``solver_failures``: one reason for each time that the previous allocation was carried over;
    * ``usd_per_hour_A``: prices at the start, NaN if unknown; ``price_changes``: times, in order, with the prices
      from then on; ``prices``: the user's name for the prices;
    * ``given_up``: ids of jobs that failed too often;
    * ``most_behind_s``: the most seconds on devices that any job was behind its promises when a round began;
    * ``lost_device_s``: device-seconds of work that was lost because jobs were stopped or failed;
    * ``intervals``: the intervals of the figures where speeds are estimated; None: all speeds are measured;
    * ``up_s_KA``: device-seconds for which servers were up in each of the ``periods_s``; None: all the time.
    """

    policy: str
    rules: str
    cluster: Cluster
    jobs: tuple[Job, ...]
    throughput_JA: Floats
    usd_per_hour_A: Floats
    completion_s_J: Floats
    leases: Leases
    rounds: int
    end_s: float
    measured: slice | None = None
    solver_failures: tuple[str, ...] = ()
    price_changes: tuple[tuple[float, Floats], ...] = ()
    given_up: tuple[int, ...] = ()
    most_behind_s: float = 0.0
    lost_device_s: float = 0.0
    up_s_KA: Floats | None = None
    prices: str = ""
    intervals: Intervals | None = None
    policy_seconds: float = 0.0
    wall_seconds: float = 0.0

    @cached_property
    def arrival_s_J(self) -> Floats:
        return column(self.jobs, "arrival_s")

    @cached_property
    def start_s_J(self) -> Floats:
        """When each job's first lease began; NaN for a job that never ran."""
        start_s_J = np.full(len(self.jobs), np.inf)
        np.minimum.at(start_s_J, self.leases.job_L, self.leases.start_s_L)
        return np.where(np.isinf(start_s_J), np.nan, start_s_J)

    @cached_property
    def jct_s_J(self) -> Floats:
        """Job completion time: from arrival to completion; NaN for a job that did not complete."""
        return self.completion_s_J - self.arrival_s_J

    @cached_property
    def rho_J(self) -> Floats:
        """Finish-time fairness of each job; see :func:`gavelx.metrics.finish_time_fairness`."""
        return metrics.finish_time_fairness(
            self.jobs, self.throughput_JA, self.cluster.devices_A, self.completion_s_J, self.end_s
        )

    @cached_property
    def mu_J(self) -> Floats:
        """Fairness in dollars of each job that completed; see :func:`gavelx.metrics.cost_fairness`."""
        leave_s_J = np.where(np.isnan(self.completion_s_J), self.end_s, self.completion_s_J)
        usd_JA = self._mean_prices(self.arrival_s_J, np.maximum(leave_s_J, self.arrival_s_J))
        mu_J = metrics.cost_fairness(
            self.jobs, self.throughput_JA, self.cluster.devices_A, usd_JA, self.cost_usd_J
        )
        return np.where(np.isnan(self.completion_s_J), np.nan, mu_J)

    @cached_property
    def deadline_s_J(self) -> Floats:
        """Deadline of each job in seconds on the run's clock; infinite without a deadline."""
        return np.array([np.inf if job.deadline_s is None else job.deadline_s for job in self.jobs], dtype=float)

    @cached_property
    def missed_J(self) -> NDArray[np.bool_]:
        """Whether each job missed its deadline: it completed too late, or not at all."""
        late_J = np.nan_to_num(self.completion_s_J, nan=np.inf) > self.deadline_s_J * (1.0 + ROUNDING)
        return late_J & np.isfinite(self.deadline_s_J)

    @cached_property
    def unfinished(self) -> tuple[int, ...]:
        """Ids of the measured jobs that neither completed nor were given up."""
        measured, gone = self.measured or slice(None), set(self.given_up)
        ends = zip(self.jobs[measured], np.isnan(self.completion_s_J[measured]).tolist(), strict=True)
        return tuple(job.id for job, undone in ends if undone and job.id not in gone)

    @cached_property
    def cost_usd_J(self) -> Floats:
        """Dollars billed for each job's leases; NaN if a type that the job held has no known price."""
        cost_usd_J = np.zeros(len(self.jobs))
        np.add.at(cost_usd_J, self.leases.job_L, self.cost_usd_L)
        return cost_usd_J

    @cached_property
    def cost_usd_L(self) -> Floats:
        """Dollars billed for each lease, at the prices of that time; NaN if one is unknown."""
        lease_P, period_P, type_P, device_s_P = self._pieces
        usd_P = self.usd_per_hour_KA[period_P, type_P] * device_s_P / 3600.0
        usd_L = np.bincount(lease_P, np.where(device_s_P > 0, usd_P, 0.0), len(self.leases))
        return usd_L.astype(float)

    @cached_property
    def cost_usd_A(self) -> Floats:
        """Dollars billed by accelerator type; NaN for a type that was held and has no known price."""
        types = len(self.cluster.accelerators)
        return np.bincount(self.leases.accelerator_L, self.cost_usd_L, types).astype(float)

    @cached_property
    def total_usd(self) -> float:
        """The whole bill in dollars: leased and idle device time; NaN if a price of these is unknown."""
        return float(self.cost_usd_L.sum()) + self.idle_usd

    @cached_property
    def device_s_JA(self) -> Floats:
        """Device-seconds billed to each job, by accelerator type, from which a bill at any prices follows."""
        L, A = self.leases, len(self.cluster.accelerators)
        device_s_JA = np.zeros((len(self.jobs), A))
        np.add.at(device_s_JA, (L.job_L, L.accelerator_L), L.devices_L * L.billed_s_L)
        return device_s_JA

    @cached_property
    def idle_s_A(self) -> Floats:
        """Device-seconds of each type that were available until the end of the run and billed to no job."""
        return np.asarray(self.idle_s_KA.sum(axis=0))

    @cached_property
    def idle_s_KA(self) -> Floats:
        """The same in each period; at least 0, also under rules that bill shared devices twice."""
        _, period_P, type_P, device_s_P = self._pieces
        billed_s_KA = np.zeros_like(self._there_s_KA)
        np.add.at(billed_s_KA, (period_P, type_P), device_s_P)
        return np.asarray(np.maximum(0.0, self._there_s_KA - billed_s_KA))

    @cached_property
    def idle_usd(self) -> float:
        """Dollars for device time that was billed to no job, at the prices of the time; NaN if one is unknown."""
        usd_KA = self.idle_s_KA * self.usd_per_hour_KA / 3600.0
        return float(np.where(self.idle_s_KA > 0, usd_KA, 0.0).sum())

    @cached_property
    def _there_s_KA(self) -> Floats:
        """Device-seconds for which devices of each type were available in each period."""
        if self.up_s_KA is not None:
            return np.asarray(self.up_s_KA, dtype=float)
        return np.diff([*self.periods_s, self.end_s])[:, None] * self.cluster.devices_A

    # -- prices over time -------------------------------------------------------------------------------------

    @cached_property
    def periods_s(self) -> tuple[float, ...]:
        """Start of each period of constant prices: 0, and every change before the end of the run."""
        return (0.0, *(time_s for time_s, _ in self.price_changes if time_s < self.end_s))

    @cached_property
    def usd_per_hour_KA(self) -> Floats:
        """Dollars per device-hour in each period; NaN if unknown."""
        later = [usd_A for _, usd_A in self.price_changes]
        return np.array([self.usd_per_hour_A, *later][: len(self.periods_s)], dtype=float)

    @cached_property
    def _pieces(self) -> Pieces:
        """Leases, cut where prices change. The charged time is spread evenly over the time of the lease."""
        L, from_s_K = self.leases, np.array(self.periods_s)
        until_s_K = np.append(from_s_K[1:], np.inf)
        first_L = np.searchsorted(from_s_K, L.start_s_L, side="right") - 1
        last_L = np.maximum(first_L, np.searchsorted(from_s_K, L.end_s_L, side="left") - 1)
        pieces_L = last_L - first_L + 1
        lease_P = np.repeat(np.arange(len(L)), pieces_L)
        period_P = np.arange(len(lease_P)) - (np.cumsum(pieces_L) - pieces_L - first_L)[lease_P]
        start_s_P, end_s_P = L.start_s_L[lease_P], L.end_s_L[lease_P]
        within_s_P = np.minimum(end_s_P, until_s_K[period_P]) - np.maximum(start_s_P, from_s_K[period_P])
        held_s_P = end_s_P - start_s_P
        part_P = np.divide(within_s_P, held_s_P, out=np.ones(len(lease_P)), where=held_s_P > 0)
        device_s_P = L.devices_L[lease_P] * L.billed_s_L[lease_P] * part_P
        return Pieces(lease_P, period_P, L.accelerator_L[lease_P], device_s_P)

    def _mean_prices(self, start_s_N: Floats, end_s_N: Floats) -> Floats:
        """Dollars per device-hour of each type, averaged over each of these times; 0 over no time at all."""
        time_s_K = np.array([0.0, *(time_s for time_s, _ in self.price_changes), np.inf])
        total_NA = np.zeros((len(start_s_N), len(self.usd_per_hour_A)))
        for k, usd_A in enumerate([self.usd_per_hour_A, *(usd_A for _, usd_A in self.price_changes)]):
            from_s, until_s = time_s_K[k], time_s_K[k + 1]
            within_N1 = (np.clip(end_s_N, from_s, until_s) - np.clip(start_s_N, from_s, until_s))[:, None]
            total_NA += np.where(within_N1 > 0, within_N1 * usd_A, 0.0)
        length_N1 = (end_s_N - start_s_N)[:, None]
        return np.divide(total_NA, length_N1, out=np.zeros_like(total_NA), where=length_N1 > 0)

    @cached_property
    def restarts_J(self) -> Ints:
        """The number of restarts of each job."""
        return np.bincount(self.leases.job_L[self.leases.moved_L], minlength=len(self.jobs))

    @cached_property
    def resizes_J(self) -> Ints:
        """How often each job has changed its size while it ran."""
        return np.bincount(self.leases.job_L[self.leases.resized_L], minlength=len(self.jobs))

    @cached_property
    def utilization(self) -> float:
        """Leased (billed) device time over available device time.

        Rules that charge idle gaps to jobs count those too, as the published figures do.
        """
        busy_s = float(np.sum(self.leases.devices_L * self.leases.billed_s_L))
        available_s = float(self._there_s_KA.sum())
        return busy_s / available_s if available_s > 0 else 0.0

    @cached_property
    def _elastic(self) -> bool:
        """Whether any job may change its size; tables of other runs say nothing of it."""
        return any(job.elastic is not None for job in self.jobs)

    def summary(self) -> dict[str, Any]:
        """The figures of the run by name; None for an unknown figure."""
        measured = self.measured or slice(None)
        jct, rho, mu = self.jct_s_J[measured], self.rho_J[measured], self.mu_J[measured]
        done, priced = ~np.isnan(jct), ~np.isnan(mu)
        return {
            "policy": self.policy,
            "rules": self.rules,
            "makespan_s": float(self.end_s),
            "jct_mean_s": metrics.mean(jct[done]),
            "jct_p50_s": metrics.percentile(jct[done], 50),
            "jct_p99_s": metrics.percentile(jct[done], 99),
            "utilization": self.utilization,
            "cost_usd": metrics.known(float(self.cost_usd_L.sum())),
            "total_usd": metrics.known(self.total_usd),
            "rounds": self.rounds,
            "jobs_total": len(jct),
            "jobs_completed": int(done.sum()),
            "rho_max": metrics.percentile(rho[done], 100),
            "rho_mean": metrics.mean(rho[done]),
            "unfair_fraction": metrics.mean((rho[done] > 1.0 + 1e-9).astype(float)),
            "mu_max": metrics.percentile(mu[priced], 100),
            "mu_mean": metrics.mean(mu[priced]),
            "deadlines": int(np.isfinite(self.deadline_s_J[measured]).sum()),
            "deadlines_missed": int(self.missed_J[measured].sum()),
            "restarts": int(self.restarts_J[measured].sum()),
            **({"resizes": int(self.resizes_J[measured].sum())} if self._elastic else {}),
            "given_up": len(self.given_up),
            "most_behind_s": self.most_behind_s,
            "lost_device_s": self.lost_device_s,
            "solver_failures": len(self.solver_failures),
            "policy_seconds": self.policy_seconds,
            "wall_seconds": self.wall_seconds,
            **({} if self.intervals is None else self.intervals.to_json()),
        }

    def per_job(self) -> list[dict[str, Any]]:
        """One row for each job of the run; ``measured`` says whether it counts in the summary.

        ``waiting_s`` is the time until its first lease, ``start_s`` when that was.
        """
        known, measured = metrics.known, range(len(self.jobs))[self.measured or slice(None)]
        names = self.cluster.accelerators
        return [
            {
                "job_id": self.jobs[j].id,
                "job_type": self.jobs[j].job_type,
                "scale_factor": self.jobs[j].scale_factor,
                "weight": self.jobs[j].weight,
                "owner": self.jobs[j].owner,
                "arrival_s": float(self.arrival_s_J[j]),
                "start_s": known(float(self.start_s_J[j])),
                "waiting_s": known(float(self.start_s_J[j] - self.arrival_s_J[j])),
                "completion_s": known(float(self.completion_s_J[j])),
                "jct_s": known(float(self.jct_s_J[j])),
                "rho": known(float(self.rho_J[j])),
                "mu": known(float(self.mu_J[j])),
                "cost_usd": known(float(self.cost_usd_J[j])),
                "deadline_s": known(float(self.deadline_s_J[j])),
                "restarts": int(self.restarts_J[j]),
                **({"resizes": int(self.resizes_J[j])} if self._elastic else {}),
                "device_s": {names[a]: float(self.device_s_JA[j, a]) for a in np.flatnonzero(self.device_s_JA[j])},
                "measured": j in measured,
            }
            for j in range(len(self.jobs))
        ]

    def to_json(self) -> dict[str, Any]:
        """The summary, the table of jobs, prices and idle times of devices, as ``--json`` writes them."""
        per_job = self.per_job()
        if len(self.periods_s) > 1:
            for row, of_period in zip(per_job, self._device_s_of_period(), strict=True):
                row["device_s_of_period"] = of_period
        usages = self.intervals.usages if self.intervals else ()
        return {
            **self.summary(),
            **self._idle(),
            "per_job": per_job,
            **({"repetitions": list(usages)} if usages else {}),
        }

    def usage(self) -> dict[str, Any]:
        """The device time of all jobs together, and the idle time, in the form of :meth:`to_json`."""
        device_s_KA = np.zeros_like(self._there_s_KA)
        np.add.at(device_s_KA, (self._pieces.period_P, self._pieces.type_P), self._pieces.device_s_P)
        of_period = {str(k): self._by_type(device_s_A) for k, device_s_A in enumerate(device_s_KA)}
        device_s = self._by_type(self.device_s_JA.sum(axis=0))
        return {
            **self._idle(),
            "device_s": device_s,
            **({"device_s_of_period": of_period} if len(of_period) > 1 else {}),
        }

    def _idle(self) -> dict[str, Any]:
        """The idle time of devices, and the prices with the idle time in each of their periods."""
        prices = {"name": self.prices, "periods": self._periods()}
        return {"idle_device_s": self._by_type(self.idle_s_A), "prices": prices}

    def _periods(self) -> list[dict[str, Any]]:
        """For each period of constant prices: its start, its prices, and the idle time of devices."""
        return [
            {
                "from_s": from_s,
                "usd_per_hour": self._by_type(self.usd_per_hour_KA[k]),
                "idle_device_s": self._by_type(self.idle_s_KA[k]),
            }
            for k, from_s in enumerate(self.periods_s)
        ]

    def _device_s_of_period(self) -> list[dict[str, dict[str, float]]]:
        """Device-seconds billed to each job, by period (its index, as a key of JSON) and accelerator type."""
        device_s: list[dict[str, dict[str, float]]] = [{} for _ in self.jobs]
        names, pieces = self.cluster.accelerators, self._pieces
        columns = (self.leases.job_L[pieces.lease_P], pieces.period_P, pieces.type_P, pieces.device_s_P)
        for j, k, a, seconds in zip(*(column_P.tolist() for column_P in columns), strict=True):
            if seconds > 0:
                of_type = device_s[j].setdefault(str(k), {})
                of_type[names[a]] = of_type.get(names[a], 0.0) + seconds
        return device_s

    def _by_type(self, value_A: Floats) -> dict[str, float | None]:
        """Figures by the name of the accelerator type; None for an unknown figure."""
        return dict(zip(self.cluster.accelerators, map(metrics.known, value_A.tolist()), strict=True))

    def to_frame(self) -> "pandas.DataFrame":
        """The table of jobs as a pandas DataFrame: a row a job, with the columns of :meth:`per_job`."""
        return frames.frame(self.per_job())

    def lease_frame(self) -> "pandas.DataFrame":
        """The leases as a pandas DataFrame, in order of their start.

        ``billed_s`` and ``busy_s`` are seconds on each device (:class:`Leases`), ``cost_usd`` is for all of them;
        ``restart`` is whether the job had run before.
        """
        L, names = self.leases, np.array(self.cluster.accelerators)
        ids = column(self.jobs, "id")
        columns = {
            "job_id": ids[L.job_L],
            "accelerator": names[L.accelerator_L],
            "devices": L.devices_L,
            "start_s": L.start_s_L,
            "end_s": L.end_s_L,
            "billed_s": L.billed_s_L,
            "busy_s": L.busy_s_L,
            "cost_usd": self.cost_usd_L,
            "restart": L.moved_L,
            **({"resize": L.resized_L} if self._elastic else {}),
        }
        return frames.frame(columns).sort_values(["start_s", "job_id"], ignore_index=True)

    def __repr__(self) -> str:
        s = self.summary()
        jct = "" if s["jct_mean_s"] is None else f", JCT mean {s['jct_mean_s'] / 3600:,.2f} h"
        cost = "" if s["cost_usd"] is None else f", ${s['cost_usd']:,.2f}"
        jobs = f"{s['jobs_completed']:,} of {s['jobs_total']:,} jobs done"
        return (
            f"<Result of {self.policy} on {self.cluster}: {jobs}{jct}, makespan {self.end_s / 3600:,.2f} h{cost}>"
        )

    def _repr_html_(self) -> str:
        figures = self.summary().items()
        return frames.html(frames.frame({"figure": name, "value": value} for name, value in figures))

    def busy_devices(self) -> tuple[Floats, Floats]:
        """The number of busy devices of each type over time.

        Returns ``time_s_K`` and ``busy_KA``, a step function over the K instants of change. A device counts for
        the part of a lease's time that was billed, so a pair whose jobs pay half each is on one device, as in
        ``utilization``.
        """
        L, A = self.leases, len(self.cluster.accelerators)
        time_s = np.concatenate([L.start_s_L, L.end_s_L])
        held_s_L = L.end_s_L - L.start_s_L
        busy_L = L.devices_L * np.divide(L.billed_s_L, held_s_L, out=np.ones(len(L)), where=held_s_L > 0)
        change = np.concatenate([busy_L, -busy_L])
        type_ = np.concatenate([L.accelerator_L, L.accelerator_L])
        time_s_K, index = np.unique(time_s, return_inverse=True)
        busy_KA = np.zeros((len(time_s_K), A), dtype=float)
        np.add.at(busy_KA, (index, type_), change)
        return time_s_K, np.cumsum(busy_KA, axis=0)
