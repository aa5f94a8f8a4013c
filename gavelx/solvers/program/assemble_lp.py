"""A stated program over classes of identical jobs, as rows for a solver, and the bound that its multipliers prove.

Rows are, in this order: the time of each class, the devices of each type, requirements, and the rows of each
``Worst``. Variables are the kinds of configurations, then one level per ``Worst``.

Legend: G classes, A accelerator types, Z kinds of configurations, V variables, K rows, R rows of the worst,
E entries of a matrix.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.configurations import Configurations
from gavelx.snapshot import Snapshot
from gavelx.solvers.program.collapse import Classes
from gavelx.solvers.program.statement import Affine, Statement

Floats = NDArray[np.float64]
MANY = 100_000
HAIR = 1.0 - 1e-13
"""Part of the devices that very many configurations are given: sums over their shares round."""
ALL = 1.0 - 1e-9
"""Part of a type's devices that counts as all of them."""


class Rows:
    """The program's rows over the classes: time, devices, requirements, then the rows of each Worst.

    Requirements and rows of a Worst are scaled by the root of their largest coefficient, which balances it with
    the coefficient 1 of the level, so that one absolute tolerance suits speeds of 0.001 and of 100,000 steps/s.
    """

    def __init__(self, statement: Statement, classes: Classes) -> None:
        snapshot, table = statement.snapshot, statement.snapshot.configurations
        self.statement, self.classes = statement, classes
        self.G, self.Z, levels = len(classes), len(classes.first_Z), len(statement.worst)
        A = len(snapshot.devices_A)
        self.time_GZ = classes.time_GZ
        self.devices_AZ = self._devices(table, A)
        required = [classes.rows(requirement.affine) for requirement in statement.requirements]
        worst = [classes.rows(part.affine) for part in statement.worst]
        self.level_weight = np.array([part.weight for part in statement.worst])
        self.is_max_min = levels == 1 and self.level_weight[0] > 0 and statement.linear.base_RC.nnz == 0
        self.rate_R = np.ones(sum(len(constant) for _, constant in worst))
        if self.is_max_min:
            self.rate_R = self.rates(np.ones(len(self.rate_R), dtype=bool))
        self.worst_size = [len(constant) for _, constant in worst]
        matrix = _stacked([self.time_GZ, self.devices_AZ, *(m for m, _ in (*required, *worst))], self.Z)
        K = matrix.shape[0]
        self.worst = slice(K - len(self.rate_R), K)
        self.devices, self.gains = slice(self.G, self.G + A), slice(self.G + A, None)
        largest_K = _largest(matrix)
        self.scale_K = 1.0 / np.sqrt(np.where(largest_K > 0, largest_K, 1.0))
        self.scale_K[: self.G + A] = 1.0
        matrix.data *= self.scale_K.repeat(np.diff(matrix.indptr))
        self.matrix_KV = self._with_levels(matrix)
        self.lower_K = np.concatenate([np.full(self.G + A, -np.inf), *(-c for _, c in (*required, *worst))])
        self.lower_K *= self.scale_K
        self.upper_K = np.full(K, np.inf)
        self.upper_K[: self.G] = 1.0
        self.upper_K[self.devices] = snapshot.devices_A * (HAIR if len(table) > MANY else 1.0)

    def _with_levels(self, matrix_KZ: sparse.csr_array) -> sparse.csr_array:
        """Append a column for each level: minus its rate in the rows that it bounds from below."""
        ends = matrix_KZ.indptr[1:][self.worst]
        level_R = self.Z + np.arange(len(self.level_weight)).repeat(self.worst_size)
        indices = np.insert(matrix_KZ.indices, ends, level_R)
        data = np.insert(matrix_KZ.data, ends, -self.rate_R * self.scale_K[self.worst])
        starts = matrix_KZ.indptr.copy()
        starts[self.worst.start + 1 :] += np.arange(1, len(ends) + 1, dtype=starts.dtype)
        K, V = matrix_KZ.shape[0], self.Z + len(self.level_weight)
        return sparse.csr_array((data, indices, starts), shape=(K, V))

    def _devices(self, table: Configurations, A: int) -> sparse.csr_array:
        """Devices of each type in use by all configurations of a kind together."""
        first_Z, shape = self.classes.first_Z, (A, self.Z)
        devices_Z = table.devices_C[first_Z] * self.classes.number_Z * self.classes.unit_Z
        devices_AZ = sparse.csr_array((devices_Z, (table.accelerator_C[first_Z], np.arange(self.Z))), shape=shape)
        if not table.has_mixes:
            return devices_AZ
        others_AZ = table.others_CA[first_Z].T * self.classes.number_Z * self.classes.unit_Z
        return devices_AZ + sparse.csr_array(others_AZ)

    def at_floor(self, multiplier_K: Floats, least: float) -> NDArray[np.bool_]:
        """The rows of a max-min program that a requirement holds at what they have: they cannot rise either.

        Requirements of the same expression count, each job's row of it times some number.
        """
        at_floor_R = np.zeros(len(self.rate_R), dtype=bool)
        worst, start = self.statement.worst[0].affine, self.gains.start
        for requirement in self.statement.requirements:
            size = len(self.classes.rows(requirement.affine)[1])
            part = slice(start, start + size)
            start += size
            if requirement.affine.base_RC is worst.base_RC:
                push_R = np.abs(multiplier_K[part]) * self.scale_K[part] * self._factors(requirement.affine)
                at_floor_R |= push_R >= least * self._factors(worst)
        return at_floor_R

    def _factors(self, affine: Affine) -> Floats:
        """The factor of each class's row; 1 where there are none."""
        if affine.factor_R is None:
            return np.ones(len(self.classes))
        return affine.factor_R[self.classes.representative_G]

    @cached_property
    def best_R(self) -> Floats | None:
        """What each row of a max-min program would be, scaled, with all of its job's time in the best way to run.

        None where rows are not those of jobs, or do not rise alike, or a requirement may stand in the way.
        """
        worst = self.statement.worst[0]
        if worst.affine.rows != "job" or worst.rates is not None or self.statement.requirements:
            return None
        gain_RZ = sparse.csr_array(self.matrix_KV[self.worst, : self.Z])
        gain_RZ = gain_RZ.multiply(self.upper_V[: self.Z] > 0)
        time_GZ = self.time_GZ.copy()
        time_GZ.data = 1.0 / time_GZ.data
        return np.asarray(gain_RZ.multiply(time_GZ).max(axis=1).toarray()).ravel()

    def rates(self, rising_R: NDArray[np.bool_]) -> Floats:
        """The rates at which the rows of a max-min program rise together from here on."""
        rates, classes = self.statement.worst[0].rates, self.classes
        if rates is None:
            return rising_R.astype(float)
        return np.where(rising_R, rates(rising_R, classes.representative_G, classes.count_G), 0.0)

    @cached_property
    def linear_Z(self) -> Floats:
        if not self.statement.linear.base_RC.nnz:
            return np.zeros(self.Z)
        gain_Z = np.asarray(self.classes.rows(self.statement.linear)[0].toarray()).ravel()
        return np.where(self.upper_V[: self.Z] > 0, gain_Z, 0.0)  # the solver counts in the largest

    @cached_property
    def objective_V(self) -> Floats:
        return np.concatenate([self.linear_Z, self.level_weight])

    @cached_property
    def upper_V(self) -> Floats:
        """A kind of configuration that cannot run stays at zero; the others are limited by their jobs' time."""
        usable_Z = self.statement.snapshot.usable_C[self.classes.first_Z]
        return np.concatenate([np.where(usable_Z, np.inf, 0.0), np.full(len(self.level_weight), np.inf)])

    @cached_property
    def lower_V(self) -> Floats:
        return np.concatenate([np.zeros(self.Z), np.full(len(self.level_weight), -np.inf)])

    @cached_property
    def highest_level(self) -> float:
        """A limit on the size of any level: no row is larger with all kinds at once."""
        sum_K = np.asarray(abs(self.matrix_KV[:, : self.Z]).sum(axis=1)) + np.abs(self.lower_K)
        return float((sum_K / self.scale_K)[self.worst].max(initial=0.0))

    def uses_all(self, value_V: Floats) -> bool:
        """Whether all devices are in use all the time, so that their cost is what it is."""
        in_use_A = self.devices_AZ @ value_V[: self.Z]
        return bool((in_use_A >= self.statement.snapshot.devices_A * ALL).all())

    @cached_property
    def cost_Z(self) -> Floats:
        """Dollars per hour of each kind of configuration."""
        return np.asarray(money(self.statement.snapshot) @ self.devices_AZ)

    def bound(self, multiplier_K: Floats) -> tuple[float, Floats]:
        """A bound that holds for any multipliers y of the gain rows, m of the jobs' time, prices p of the devices.

        For all feasible shares: objective <= y.(gain rows' constants) + p.W + m.1, provided that the multipliers
        of each Worst, times rates, add up to its weight, and that no kind gains more than its time and devices
        cost. HiGHS gives multipliers that satisfy this to rounding; they are mended here until they do exactly.
        """
        price_A = np.maximum(0.0, multiplier_K[self.devices])
        gain_K = np.maximum(0.0, -multiplier_K[self.gains])
        start = len(gain_K) - len(self.rate_R)
        rate_K = self.rate_R * self.scale_K[self.worst]
        for weight, size, first in zip(
            self.level_weight, self.worst_size, np.cumsum([0, *self.worst_size])[:-1], strict=True
        ):
            y = gain_K[start + first : start + first + size]
            total = float((y * rate_K[first : first + size]).sum())
            y *= weight / total if total > 0 else 0.0
        worth_K = np.concatenate([np.zeros(self.G), -price_A, gain_K])
        reduced_Z = self.linear_Z + np.asarray(worth_K @ self.matrix_KV)[: self.Z]
        reduced_Z = np.where(self.upper_V[: self.Z] > 0, np.maximum(0.0, reduced_Z), 0.0)
        constant = self.statement.linear.constant_R[0] - (gain_K * self.lower_K[self.gains]).sum()
        time_G = _enough_time(self.time_GZ, reduced_Z, np.maximum(0.0, multiplier_K[: self.G]))
        devices = (price_A * self.statement.snapshot.devices_A).sum()
        return float(constant + devices + time_G.sum()), price_A


def _enough_time(time_GZ: sparse.csr_array, reduced_Z: Floats, price_G: Floats) -> Floats:
    """Prices of the jobs' time, near ``price_G``, at which no configuration earns more than its time costs."""
    if time_GZ.nnz == len(reduced_Z):  # every kind is of one class
        return _dearest(time_GZ, reduced_Z)
    paid_Z = np.asarray(price_G @ time_GZ)  # two jobs pay for a pair, the first one what is missing
    return price_G + _dearest(_first_members(time_GZ), np.maximum(0.0, reduced_Z - paid_Z))


def _first_members(time_GZ: sparse.csr_array) -> sparse.csr_array:
    """Just the first entry of each column."""
    by_kind = time_GZ.tocsc()
    first = by_kind.indptr[:-1]
    columns = (by_kind.data[first], by_kind.indices[first], np.arange(len(first) + 1))
    return sparse.csr_array(sparse.csc_array(columns, shape=by_kind.shape))


def _dearest(time_GZ: sparse.csr_array, value_Z: Floats) -> Floats:
    """For each class the most that a unit of its time is worth in any of its kinds."""
    price_G = np.zeros(time_GZ.shape[0])
    row_E = np.arange(len(price_G)).repeat(np.diff(time_GZ.indptr))
    np.maximum.at(price_G, row_E, value_Z[time_GZ.indices] / time_GZ.data)
    return price_G


def _stacked(matrices: Sequence[sparse.csr_array], columns: int) -> sparse.csr_array:
    """The matrices one above the other."""
    starts, entries = [np.zeros(1, dtype=np.int64)], 0
    for matrix in matrices:
        starts.append(matrix.indptr[1:] + np.int64(entries))
        entries += matrix.nnz
    indices = np.concatenate([matrix.indices for matrix in matrices])
    data = np.concatenate([matrix.data for matrix in matrices])
    rows = sum(matrix.shape[0] for matrix in matrices)
    return sparse.csr_array((data, indices, np.concatenate(starts)), shape=(rows, columns))


def _largest(matrix: sparse.csr_array) -> Floats:
    """The largest coefficient of each row, by size; 0 of none."""
    largest_K, some_K = np.zeros(matrix.shape[0]), np.flatnonzero(np.diff(matrix.indptr))
    if len(some_K):
        largest_K[some_K] = np.maximum.reduceat(np.abs(matrix.data), matrix.indptr[some_K])
    return largest_K


def money(snapshot: Snapshot) -> Floats:
    """Dollars per hour of a device of each type; 1 for all if some type in use has no known price."""
    usd_A = np.where(snapshot.devices_A > 0, snapshot.usd_per_hour_A, 0.0)
    return np.ones_like(usd_A) if np.isnan(usd_A).any() else usd_A
