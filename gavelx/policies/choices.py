"""One size or none for each job: what can be chosen, and the integer program that finds the best choice.

Legend: J jobs, A accelerator types, C configurations, V choices (a configuration of one job), K constraints.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.allocation import Allocation
from gavelx.configuration import ABSENT, ConfigurationSet, widened
from gavelx.execution import Execution
from gavelx.policies.greedy import by_arrival
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified
from gavelx.solvers.lp.integer import IntegerSolution, solve_integer
from gavelx.solvers.lp.knapsack import CELLS_MOST, CELLS_MOST_OF_TYPES, cells, fullest_choice

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Choices:
    """What can be placed: a job's own size; powers of two in one server; whole servers beyond that; and mixes.

    They are in the order of arrival of their jobs, and so is the program: ties do not depend on any other order.
    """

    snapshot: Snapshot
    configuration_V: Ints
    job_V: Ints
    speed_V: Floats

    @staticmethod
    def of(snapshot: Snapshot) -> "Choices":
        """All of them."""
        table = snapshot.configurations
        rank_J = np.empty(len(snapshot.jobs), dtype=np.int64)
        rank_J[by_arrival(snapshot)] = np.arange(len(snapshot.jobs))
        placed_C = table.own_C | table.mixed_C | _is_even_C(snapshot)
        fits_C = (table.members_C == 1) & ~table.spread_C & snapshot.usable_C & placed_C
        of_M = np.flatnonzero(fits_C[table.configuration_M])
        c_M, j_M = table.configuration_M[of_M], table.job_M[of_M]
        keys = (*table.others_CA[c_M].T, table.batch_C[c_M], table.devices_C[c_M], table.accelerator_C[c_M])
        order = np.lexsort((*keys, rank_J[j_M]))
        return Choices(snapshot, c_M[order], j_M[order], table.throughput_M[of_M][order])

    def take(self, mask_V: Bools) -> "Choices":
        """Some of them."""
        return Choices(self.snapshot, self.configuration_V[mask_V], self.job_V[mask_V], self.speed_V[mask_V])

    @property
    def type_V(self) -> Ints:
        """The accelerator type of each; of a mix the first."""
        return self.snapshot.configurations.accelerator_C[self.configuration_V]

    @property
    def devices_V(self) -> Ints:
        """The devices of each, of all types."""
        table = self.snapshot.configurations
        others_V: Ints = table.others_CA[self.configuration_V].sum(axis=1)
        return table.devices_C[self.configuration_V] + others_V

    @cached_property
    def use_VA(self) -> Ints:
        """The devices of each type in each."""
        table, rows = self.snapshot.configurations, np.arange(len(self.job_V))
        use_VA = widened(table.others_CA[self.configuration_V], len(self.snapshot.accelerators)).copy()
        use_VA[rows, self.type_V] += table.devices_C[self.configuration_V]
        return use_VA

    @property
    def mixed_V(self) -> Bools:
        """Whether the devices of each are of several types."""
        return self.snapshot.configurations.mixed_C[self.configuration_V]

    @property
    def weight_V(self) -> Floats:
        return self.snapshot.weight_J[self.job_V]

    @property
    def rank_V(self) -> Ints:
        """The place of its job in the order of arrival."""
        new_V = np.diff(self.job_V, prepend=-1) != 0
        return np.asarray(np.cumsum(new_V) - 1)

    def sizes(self) -> list[tuple[int, int, int, int]]:
        """Job (an index), type, devices and batch of each."""
        batch_V = self.snapshot.configurations.batch_C[self.configuration_V]
        columns = (self.job_V, self.type_V, self.devices_V, batch_V)
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def cheapest_V(self, cost_V: Floats) -> Bools:
        """Of the sizes of a job with the same devices (other batches), the one that costs least."""
        place_V = np.lexsort((cost_V, self.devices_V, self.type_V, self.rank_V))
        keys = np.array([key[:3] for key in self.sizes()], dtype=np.int64).reshape(-1, 3)[place_V]
        first_V = np.ones(len(place_V), dtype=bool)
        first_V[1:] = (keys[1:] != keys[:-1]).any(axis=1)
        cheapest_V = np.zeros(len(place_V), dtype=bool)
        cheapest_V[place_V[first_V]] = True
        return cheapest_V

    def of_jobs(self, jobs: Ints) -> Bools:
        """Whether each is of one of these jobs."""
        return np.isin(self.job_V, jobs)

    def slowest_V(self) -> Ints:
        """For each, the slowest size of its job."""
        slowest_J = np.zeros(len(self.snapshot.jobs), dtype=np.int64)
        order = np.argsort(-self.speed_V, kind="stable")
        slowest_J[self.job_V[order]] = order
        return slowest_J[self.job_V]

    def fair_speed_J(self) -> Floats:
        """How fast each job is on a fair share: at most as many devices as there are for each job."""
        snapshot = self.snapshot
        fair = max(1, math.ceil(int(snapshot.devices_A.sum()) / max(1, len(snapshot.jobs))))
        speed_J = np.zeros(len(snapshot.jobs))
        small_V = self.devices_V <= fair
        np.maximum.at(speed_J, self.job_V[small_V], self.speed_V[small_V])
        slowest_J = np.ones(len(snapshot.jobs))
        slowest_J[self.job_V] = self.speed_V[self.slowest_V()]
        return np.where(speed_J > 0.0, speed_J, slowest_J)

    def now_V(self) -> Bools:
        """Whether a job has this size at present."""
        snapshot, promised = self.snapshot, self.snapshot.promised
        ids = snapshot.id_J
        place = {name: a for a, name in enumerate(promised.accelerators)}
        type_A = np.array([place.get(name, ABSENT) for name in snapshot.accelerators], dtype=np.int64)
        table, c_V = snapshot.configurations, self.configuration_V
        sizes = ConfigurationSet.alone(ids[self.job_V], type_A[self.type_V], table.devices_C[c_V])
        sizes.batch[:] = table.batch_C[c_V]
        same_AT = np.eye(len(place) + 1, dtype=np.int64)[type_A]  # types that are new stand in the last column
        sizes.others = np.einsum("VA,AT->VT", widened(table.others_CA[c_V], len(type_A)), same_AT)
        known = promised.configurations.find(sizes) != ABSENT
        return np.asarray(known & (snapshot.running_J[self.job_V] == self.type_V))

    def devices_now_J(self, now_V: Bools) -> Ints:
        """How many devices each job has in its present size; 0 if it has none, or that size is no choice."""
        devices_J = np.zeros(len(self.snapshot.jobs), dtype=np.int64)
        devices_J[self.job_V[now_V]] = self.devices_V[now_V]
        return devices_J

    def in_reach_V(self, now_V: Bools) -> Bools:
        """At most twice the devices that a job has; its fewest if it has none."""
        most_J = np.full(len(self.snapshot.jobs), np.iinfo(np.int64).max)
        np.minimum.at(most_J, self.job_V, self.devices_V)
        most_J[self.job_V[now_V]] = 2 * self.devices_V[now_V]
        return np.asarray(self.devices_V <= most_J[self.job_V])

    def best(self, cost_V: Floats, execution: Execution, begin_s: float) -> Allocation:
        """The allocation that costs least; ``cost_V``: what a size costs beyond letting its job wait."""
        if not len(self.job_V):
            return self.none(execution)
        return self._certified(self._solved(cost_V, *self._rows()), "integer program", execution, begin_s)

    def fullest(self, cost_V: Floats, must: Ints, execution: Execution, begin_s: float) -> Allocation:
        """Of the allocations with as many devices in use as possible, the one that costs least.

        It is found by a dynamic program where that is the quicker one: of one type, and of few of several.
        ``must``: jobs (indices) that get a size in any case.
        """
        if not len(self.job_V):
            return self.none(execution)
        stock_A = self.snapshot.devices_A.astype(np.int64)
        if not self.mixed_V.any() and cells(len(self.job_V), stock_A) <= (
            CELLS_MOST if len(stock_A) == 1 else CELLS_MOST_OF_TYPES
        ):
            begin_J = np.append(np.flatnonzero(np.diff(self.job_V, prepend=-1)), len(self.job_V))
            must_J = np.isin(self.job_V[begin_J[:-1]], must)
            chosen_J = fullest_choice(cost_V, self.devices_V, self.type_V, begin_J, must_J=must_J, stock_A=stock_A)
            value_V = np.zeros(len(self.job_V))
            value_V[chosen_J[chosen_J >= 0]] = 1.0
            cost = float(np.einsum("V,V->", cost_V, value_V))
            return self._certified(IntegerSolution(value_V, cost, cost), "dynamic program", execution, begin_s)
        rows_KV, least_K, most_K = self._rows()
        least_K[must] = 1.0
        used_V = self.devices_V.astype(float)
        most = -round(self._solved(-used_V, rows_KV, least_K, most_K).cost)
        rows_KV = sparse.csr_array(sparse.vstack([rows_KV, sparse.csr_array(used_V[None, :])]))
        answer = self._solved(cost_V, rows_KV, np.append(least_K, most), np.append(most_K, np.inf))
        return self._certified(answer, "integer program", execution, begin_s)

    def none(self, execution: Execution) -> Allocation:
        """Nobody can run."""
        share_C = np.zeros(len(self.snapshot.configurations))
        return certified(self.snapshot, share_C, path="nothing can run", seconds=0.0, execution=execution)

    def _certified(self, answer: IntegerSolution, path: str, execution: Execution, begin_s: float) -> Allocation:
        return self.allocation(
            answer.value_V > 0.5,
            execution,
            path=path,
            seconds=perf_counter() - begin_s,
            objective=-answer.cost,
            bound=-answer.bound,
        )

    def allocation(self, chosen_V: Bools, execution: Execution, **facts: Any) -> Allocation:
        """The allocation that gives each job the size chosen for it, if there is one."""
        share_C = np.zeros(len(self.snapshot.configurations))
        share_C[self.configuration_V] = chosen_V
        return certified(self.snapshot, share_C, execution=execution, **facts)

    def _rows(self) -> tuple[sparse.csr_array, Floats, Floats]:
        """One size at most for each job, and no more devices than there are."""
        snapshot, J, V = self.snapshot, len(self.snapshot.jobs), len(self.job_V)
        once = sparse.csr_array((np.ones(V), (self.job_V, np.arange(V))), shape=(J, V))
        held = snapshot.configurations.devices_AC[:, self.configuration_V]
        most_K = np.concatenate([np.ones(J), snapshot.devices_A.astype(float)])
        return sparse.csr_array(sparse.vstack([once, held])), np.full(len(most_K), -np.inf), most_K

    def _solved(
        self, cost_V: Floats, rows_KV: sparse.csr_array, least_K: Floats, most_K: Floats
    ) -> IntegerSolution:
        V = len(cost_V)
        return solve_integer(cost_V, (np.zeros(V), np.ones(V)), rows_KV, (least_K, most_K), np.ones(V, dtype=bool))


def _is_even_C(snapshot: Snapshot) -> Bools:
    """Whether a number of devices is a power of two within a server, or whole servers."""
    table, most_A = snapshot.configurations, np.ones(len(snapshot.accelerators), dtype=np.int64)
    for server in snapshot.cluster.servers:
        a = snapshot.accelerators.index(server.accelerator)
        most_A[a] = max(most_A[a], server.device_count)
    devices_C, most_C = table.devices_C, most_A[table.accelerator_C]
    within_C = (devices_C & (devices_C - 1) == 0) & (devices_C <= most_C)
    return np.asarray(within_C | (devices_C % most_C == 0))
