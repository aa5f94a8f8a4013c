"""The vocabulary of policies: what a term may talk about on one snapshot.

Expressions are linear in the shares x and have one row per job, per accelerator type, or one in all; plain
arrays are facts of the snapshot.

Legend: J jobs, A accelerator types, C configurations.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.errors import PolicyError
from gavelx.fixed import fixed_property
from gavelx.metrics import equal_share, equal_share_throughput
from gavelx.snapshot import Snapshot
from gavelx.solvers.program.statement import Affine

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class View:
    """One snapshot, as the terms of a policy see it."""

    snapshot: Snapshot

    @cached_property
    def throughput(self) -> Affine:
        """Effective throughput of each job, steps/s: sum_c T_jc x_c."""
        return self._per_job(self.snapshot.configurations.throughput_JC)

    @cached_property
    def normalized_throughput(self) -> Affine:
        """s_j e_j / (p_j e_j(proportional)): what each job gets against its slice of every type."""
        slice_J = self.weight_J * self.proportional_throughput_J
        if not (slice_J > 0).all():  # a job that can run nowhere
            slice_J[slice_J <= 0] = np.inf
        return self.throughput.scaled(self.snapshot.scale_factor_J / slice_J)

    @cached_property
    def time_share(self) -> Affine:
        """Share of time in which each job runs at all: sum_c x_c."""
        return self._per_job(self.snapshot.configurations.membership_JC)

    @cached_property
    def devices(self) -> Affine:
        """Devices in use of each accelerator type, averaged over time."""
        devices_AC = self.snapshot.configurations.devices_AC
        return Affine(devices_AC, np.zeros(devices_AC.shape[0]), "accelerator")

    @cached_property
    def usd_per_hour(self) -> Affine:
        """What the devices in use cost. Raises :class:`PolicyError` where a type has no known price."""
        return self.devices.scaled(self._known_prices(absent=0.0)).total()

    @cached_property
    def usd_per_hour_of_job(self) -> Affine:
        """What the devices in use by each job cost; the members of a pair pay equal parts.

        The rows add up to :attr:`usd_per_hour`. Raises :class:`PolicyError` where a type has no known price.
        """
        table = self.snapshot.configurations
        return self._per_job(table.per_job(self._price_C[table.configuration_M]))

    @cached_property
    def usd_per_hour_of_all(self) -> float:
        """What all devices cost. Raises :class:`PolicyError` where a type has no known price."""
        return float((self.snapshot.devices_A * self._known_prices(absent=0.0)).sum())

    @cached_property
    def value_of_job(self) -> Affine:
        """Dollars per hour of the devices in use by each job, where they are worth it to the job.

        A device is worth nothing to a job that is as fast on a cheaper one, or faster on one of the same price, if
        the cluster has such devices.
        Raises :class:`PolicyError` where a type has no known price.
        """
        table = self.snapshot.configurations
        runs_M = self.snapshot.usable_C[table.configuration_M]
        usd_M = self._price_C[table.configuration_M]
        usd_M = np.where(runs_M, usd_M, 1.0 + usd_M.max(initial=0.0))  # after all others
        speeds, rank_M = np.unique(table.throughput_M, return_inverse=True)
        order_M = np.lexsort((-rank_M, usd_M, table.job_M))  # of each job the cheapest first, of these the fastest
        offer_MV = np.column_stack([table.job_M, rank_M, usd_M])[order_M]
        new_M = (np.diff(offer_MV, axis=0, prepend=-1.0) != 0).any(axis=1)  # not the very offer before it
        key_N = (table.job_M[order_M] * max(1, len(speeds)) + rank_M[order_M])[new_M]
        faster_N = np.diff(np.maximum.accumulate(key_N), prepend=-1) > 0
        useful_M = np.zeros(len(usd_M))
        useful_M[order_M] = faster_N[np.cumsum(new_M) - 1]
        return self._per_job(table.per_job(np.where(runs_M, usd_M, 0.0) * useful_M * (table.throughput_M > 0)))

    @fixed_property
    def cheapest_usd_J(self) -> Floats:
        """Dollars per hour that each job pays for a step/s where that is cheapest; 0 for one that can run nowhere.

        The members of a pair pay equal parts. Raises :class:`PolicyError` where a type has no known price.
        """
        table = self.snapshot.configurations
        runs_M = (table.throughput_M > 0) & self.snapshot.usable_C[table.configuration_M]
        usd_J = np.full(self.J, np.inf)
        usd_M = self._price_C[table.configuration_M[runs_M]] / table.throughput_M[runs_M]
        np.minimum.at(usd_J, table.job_M[runs_M], usd_M)
        return np.where(np.isfinite(usd_J), usd_J, 0.0)

    @cached_property
    def throughput_per_dollar(self) -> Affine:
        """Steps/s of each job over the price of one device of the type that it runs on: sum_c T_jc x_c / price_c.

        In a mix, over the mean price of its devices.

        Raises :class:`PolicyError` where a type has no known price, or is free.
        """
        usd_A, table = self.divisor_usd_A, self.snapshot.configurations
        price_C = usd_A[table.accelerator_C]
        if table.has_mixes:
            price_C = np.where(table.mixed_C, table.usd_C(usd_A) / table.devices_AC.sum(axis=0), price_C)
        return self._per_job(table.per_job(table.throughput_M / price_C[table.configuration_M]))

    @property
    def divisor_usd_A(self) -> Floats:
        """The prices to divide by; infinite for a type of which no device is here.

        Raises :class:`PolicyError` where a type has no known price, or is free.
        """
        usd_A = np.where(self.snapshot.devices_A > 0, self._known_prices(absent=np.inf), np.inf)
        if free := [n for n, usd in zip(self.snapshot.accelerators, usd_A, strict=True) if usd <= 0]:
            raise PolicyError(
                f"{', '.join(free)} costs nothing", where="ThroughputPerDollar()", expected="prices above 0"
            )
        return usd_A

    @property
    def _price_C(self) -> Floats:
        """What each member of a configuration pays per hour."""
        table, usd_A = self.snapshot.configurations, self._known_prices(absent=0.0)
        return table.usd_C(usd_A) / np.maximum(1, table.members_C)

    def _known_prices(self, absent: float) -> Floats:
        """The prices; ``absent`` is that of a type without any of which no device is here.

        Raises :class:`PolicyError` that names every type without a price that has devices.
        """
        unknown_A = np.isnan(self.usd_per_hour_A)
        if missing := [
            self.snapshot.accelerators[a] for a in np.flatnonzero(unknown_A & (self.snapshot.devices_A > 0))
        ]:
            added = "".join(f"+{name}=DOLLARS" for name in missing)
            raise PolicyError(
                f"no price is known for {', '.join(missing)}",
                where="Cost()",
                hint=f"--prices TABLE{added} (per device-hour), or the prices of the snapshot file",
            )
        return np.where(unknown_A, absent, self.usd_per_hour_A)

    @fixed_property
    def proportional_throughput_J(self) -> Floats:
        """Steps/s of each job with a slice of every type in proportion to its devices: sum_a T_ja W_a / sum W."""
        devices_A, table = self.snapshot.devices_A, self.snapshot.configurations
        weight_A = devices_A / max(1, int(devices_A.sum()))
        if table.is_matrix:
            T_JA = table.throughput_M.reshape(table.shape)
            if table.kind_J is None:
                return np.asarray(np.einsum("JA,A->J", T_JA, weight_A))
            job_K, kind_J = table.row_of_kind()
            return np.asarray(np.einsum("KA,A->K", T_JA[job_K], weight_A)[kind_J])
        speed_M = table.throughput_M * weight_A[table.accelerator_C[table.configuration_M]]
        return np.asarray(np.bincount(table.job_M, speed_M * table.plain_M, self.J), dtype=float)

    @fixed_property
    def equal_share_throughput_J(self) -> Floats:
        """Steps/s of each job with 1/n of every type, n being the number of jobs (the isolated allocation)."""
        return self.with_equal_share(np.ones(len(self.snapshot.accelerators)))

    @fixed_property
    def equal_share_usd_per_hour_J(self) -> Floats:
        """What the equal share of each job costs while the job holds it."""
        share_JA = equal_share(self.scale_factor_J, self.snapshot.devices_A, max(1, self.J))
        return np.asarray(self.scale_factor_J * (share_JA * self._known_prices(absent=0.0)).sum(axis=1))

    def with_equal_share(self, worth_A: Floats) -> Floats:
        """Steps/s of each job with an equal share of the cluster, a step on type a counting ``worth_A``."""
        T_JA, n_J = self.snapshot.configurations.throughput_JA * worth_A, np.full(self.J, float(self.J))
        return equal_share_throughput(T_JA, self.scale_factor_J, self.snapshot.devices_A, n_J)

    @fixed_property
    def fastest_throughput_J(self) -> Floats:
        """Steps/s of each job in the fastest configuration that the cluster can hold."""
        return self._fastest(self.snapshot.usable_C)

    @fixed_property
    def fastest_own_throughput_J(self) -> Floats:
        """The same in the size as submitted; in any size, for a job that the cluster cannot hold in that one."""
        own_J = self._fastest(self.snapshot.usable_C & self.snapshot.configurations.own_C)
        return np.where(own_J > 0, own_J, self.fastest_throughput_J)

    def _fastest(self, among_C: NDArray[np.bool_]) -> Floats:
        table, fastest_J = self.snapshot.configurations, np.zeros(self.J)
        among_M = among_C[table.configuration_M]
        np.maximum.at(fastest_J, table.job_M[among_M], table.throughput_M[among_M])
        return fastest_J

    @fixed_property
    def needed_throughput_J(self) -> Floats:
        """Steps/s with which each job would just meet its deadline: steps left / time left; 0 without a deadline.

        Infinite where the deadline has passed.
        """
        due_s_J = np.array([np.inf if job.deadline_s is None else job.deadline_s for job in self.snapshot.jobs])
        left_s_J = np.maximum(0.0, due_s_J - self.snapshot.time_s)
        needed_J = np.full(self.J, np.inf)
        np.divide(self.steps_left_J, left_s_J, out=needed_J, where=left_s_J > 0)
        return needed_J

    @property
    def spent_usd_J(self) -> Floats:
        """Dollars that each job has cost so far; NaN where a price was not known."""
        return self.snapshot.spent_usd_J

    @property
    def equal_share_usd_J(self) -> Floats:
        """Dollars that the same steps would have cost with equal shares; NaN where a price was not known."""
        return self.snapshot.equal_share_usd_J

    @fixed_property
    def priced_past_J(self) -> NDArray[np.bool_]:
        """Of which jobs both are known."""
        return ~np.isnan(self.spent_usd_J + self.equal_share_usd_J)

    @property
    def equal_share_s_J(self) -> Floats:
        return self.snapshot.equal_share_s_J

    @property
    def nothing(self) -> Affine:
        """Zero, whatever the shares are, as a single row."""
        return Affine(_nothing(len(self.snapshot.configurations)), np.zeros(1), "total")

    @property
    def J(self) -> int:
        return len(self.snapshot.jobs)

    @property
    def scale_factor_J(self) -> Floats:
        return self.snapshot.scale_factor_J.astype(float)

    @property
    def weight_J(self) -> Floats:
        return self.snapshot.weight_J

    @fixed_property
    def team_J(self) -> NDArray[np.str_]:
        """The team of each job: the first part of its owner's path, ``ml`` for ``ml/ann``; or empty."""
        return np.array([job.owner.partition("/")[0] for job in self.snapshot.jobs], dtype=np.str_)

    @property
    def runs_J(self) -> NDArray[np.bool_]:
        """Whether each job can run here at all."""
        return self.snapshot.runs_J

    @property
    def steps_left_J(self) -> Floats:
        return self.snapshot.steps_left_J

    @property
    def elapsed_s_J(self) -> Floats:
        return self.snapshot.elapsed_s_J

    @property
    def usd_per_hour_A(self) -> Floats:
        """Price of one device of each type; NaN where it is not known."""
        return self.snapshot.usd_per_hour_A

    def _per_job(self, matrix_JC: sparse.csr_array) -> Affine:
        return Affine(matrix_JC, np.zeros(self.J), "job")


@lru_cache(maxsize=64)
def _nothing(columns: int) -> sparse.csr_array:
    """One row of zeros; scipy takes longer to make it than a small program takes to state."""
    return sparse.csr_array((1, columns))
