"""Solve a stated program as a linear program over classes of identical jobs, level by level where it is max-min.

Variables are the kinds of configurations y of the classes, then one level per ``Worst`` of the objective::

    maximise    sum_i weight_i level_i + linear(y)
    subject to  time of each class <= 1, devices of each type <= W_a, requirement(y) >= 0,
                (worst_i(y))_r >= base_r + rate_r level_i for every row r, at first with base 0 and rate 1

A pure max-min program has many optima, most of them wasteful. So it is solved lexicographically (water filling):
rows with a positive multiplier are at the optimum in *every* solution; they are frozen there (rate 0) and the
level of the others is raised, until all are frozen. What is left free is spent on the least money. The result is
Pareto efficient and its throughputs are unique: they do not depend on the solver. Rates other than 1 that change
when rows freeze make hierarchies.

Source: lexicographic max-min by successive linear programs, see Nace and Pioro, "Max-min fairness and its
applications to routing and load-balancing in communication networks: a tutorial" (IEEE Communications Surveys
10(4), 2008), section III; Gavel (OSDI'20), section 4.3, uses a MILP for the step that multipliers give us free.

Legend: G classes, A accelerator types, Z kinds of configurations, R rows of an expression, K constraints.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.configurations import Configurations
from gavelx.snapshot import Snapshot
from gavelx.solvers.collapse import Classes, collapse
from gavelx.solvers.grid import levels_by_price
from gavelx.solvers.highs import LinearProgram, UnsolvedError
from gavelx.solvers.sparse import sparser
from gavelx.solvers.statement import Affine, Requirement, Statement

Floats = NDArray[np.float64]
SLACKS = (1e-11, 1e-10, 1e-9, 1e-8)
ALL_IN_USE = 1e-9
CHEAPEST_MAX = 20_000
"""Different rows up to which the cheapest of equally good shares are looked for after the price engine."""
POSITIVE = 1e-8
"""A row is frozen if its multiplier, times its rate, is at least this part of the largest. What is less may be
rounding; a row that is missed is at its end at the next level too, and frozen then."""


@dataclass(frozen=True, eq=False)
class Answer:
    """Shares of all configurations, a proven bound on the objective, and the value of one more device."""

    share_C: Floats
    bound: float | None
    marginal_A: Floats | None
    classes: int
    path: str


def solve_linear(statement: Statement, *, lexicographic: bool = True) -> Answer:
    """Solve a stated program; a pure max-min one beyond its first level only if ``lexicographic``.

    Raises :class:`~gavelx.solvers.highs.UnsolvedError`.
    """
    classes = collapse(statement)
    if (answer := _by_price(statement, classes, lexicographic)) is not None:
        return answer
    rows = Rows(statement, classes)
    program = LinearProgram(
        objective_V=rows.objective_V,
        upper_V=rows.upper_V,
        lower_V=rows.lower_V,
        matrix_KV=rows.matrix_KV,
        lower_K=rows.lower_K,
        upper_K=rows.upper_K,
    )
    value_V, multiplier_K = program.solve()
    bound, marginal_A = rows.bound(multiplier_K)
    path = "highs"
    if lexicographic and rows.is_max_min:
        value_V, complete = _raise_levels(program, rows, value_V, multiplier_K)
        path = "highs-lexicographic" if complete else "highs-lexicographic, levels not all raised"
        value_V = _cheapest(program, rows, value_V) if complete else value_V
    share_C = classes.shares(value_V[: rows.Z])
    if lexicographic:
        share_C = sparser(statement.snapshot, classes, share_C)
    return Answer(share_C, bound, marginal_A, len(classes), path)


def _by_price(statement: Statement, classes: Classes, lexicographic: bool) -> Answer | None:
    """The answer of the price engine, where it applies and finds one."""
    try:
        priced = levels_by_price(statement, classes, lexicographic)
    except UnsolvedError:
        return None
    if priced is None:
        return None
    share_C = priced.share_C
    if lexicographic:
        share_C = spend_least(statement.snapshot, statement.worst[0].affine, share_C)
        if share_C is priced.share_C:  # cheaper ones are sparse already
            share_C = sparser(statement.snapshot, classes, share_C)
    return Answer(share_C, priced.bound, priced.marginal_A, len(classes), priced.path)


def spend_least(snapshot: Snapshot, affine: Affine, share_C: Floats) -> Floats:
    """The cheapest shares with which the rows of ``affine`` keep their values, or the same ones.

    Where all devices are in use their cost is what it is; where very many rows differ it is left at that.
    """
    in_use_A = snapshot.configurations.devices_A(share_C)
    idle = (in_use_A < snapshot.devices_A * (1.0 - ALL_IN_USE)).any()
    if not idle or len(affine.constant_R) > CHEAPEST_MAX:
        return share_C
    value_R = affine(share_C)
    floor = Requirement(affine.shifted(SLACKS[1] * np.abs(value_R) - value_R), "what everyone has")
    cost = Affine(snapshot.configurations.devices_AC, np.zeros(len(in_use_A)), "accelerator")
    least = cost.scaled(-money(snapshot)).total()
    try:
        return solve_linear(Statement(snapshot, (), least, (floor,), "least money")).share_C
    except UnsolvedError:
        return share_C


def money(snapshot: Snapshot) -> Floats:
    """Dollars per hour of a device of each type; 1 for all if some type in use has no known price."""
    usd_A = np.where(snapshot.devices_A > 0, snapshot.usd_per_hour_A, 0.0)
    return np.ones_like(usd_A) if np.isnan(usd_A).any() else usd_A


def _raise_levels(
    program: LinearProgram, rows: "Rows", value_V: Floats, multiplier_K: Floats
) -> tuple[Floats, bool]:
    """Freeze the rows that cannot rise, raise the level of the others, until all rows are frozen.

    Says whether it got there: data over very many orders of magnitude may defeat the solver at a later level.
    """
    first, rate_R = rows.worst.start, rows.rate_R.copy()
    lower_R, scale_R = rows.lower_K[rows.worst].copy(), rows.scale_K[rows.worst]
    rising_R = np.ones(len(rate_R), dtype=bool)
    while True:
        push_R = np.where(rising_R, np.abs(multiplier_K[rows.worst]) * scale_R * rate_R, 0.0)
        if not push_R.any():
            return value_V, False
        bound_R = (push_R >= POSITIVE * push_R.max()) | rows.at_floor(multiplier_K, POSITIVE * push_R.max())
        bound_R &= rising_R
        rising_R &= ~bound_R
        new_R = rows.rates(rising_R)
        lower_R += (rate_R - new_R) * scale_R * value_V[rows.Z]
        for r in np.flatnonzero(rate_R != new_R).tolist():
            program.set_coefficient(first + r, rows.Z, -new_R[r] * scale_R[r])
            program.set_lower(first + r, lower_R[r])
        rate_R = new_R
        if not rising_R.any():
            return value_V, True
        try:
            value_V, multiplier_K = _solve_on_floors(
                program, first + np.flatnonzero(~rising_R), lower_R[~rising_R]
            )
        except UnsolvedError:
            return value_V, False


def _solve_on_floors(
    program: LinearProgram, frozen_F: NDArray[np.int64], floor_F: Floats
) -> tuple[Floats, Floats]:
    """Solve with all frozen rows exactly at their level; a hair below it where rounding makes that impossible."""
    for slack in SLACKS:
        try:
            return program.solve()
        except UnsolvedError:
            program.forget()
            for row, floor in zip(frozen_F.tolist(), floor_F.tolist(), strict=True):
                program.set_lower(row, floor - slack * abs(floor))
    return program.solve()


def _cheapest(program: LinearProgram, rows: "Rows", value_V: Floats) -> Floats:
    """Among the allocations with these throughputs, the one that costs least (or holds the fewest devices).

    Where all devices are in use their cost is what it is.
    """
    devices_A = rows.statement.snapshot.devices_A
    if (rows.devices_AZ @ value_V[: rows.Z] >= devices_A * (1.0 - ALL_IN_USE)).all():
        return value_V
    program.set_objective(np.concatenate([-rows.cost_Z, [0.0]]))
    try:
        cheapest_V, _ = program.solve()
    except UnsolvedError:
        return value_V
    return cheapest_V if rows.cost_Z @ cheapest_V[: rows.Z] < rows.cost_Z @ value_V[: rows.Z] else value_V


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
        self.time_GZ, _ = classes.rows(Affine(table.membership_JC, np.zeros(table.shape[0]), "job"))
        self.devices_AZ = self._devices(table, A)
        required = [classes.rows(requirement.affine) for requirement in statement.requirements]
        worst = [classes.rows(part.affine) for part in statement.worst]
        self.level_weight = np.array([part.weight for part in statement.worst])
        self.is_max_min = levels == 1 and self.level_weight[0] > 0 and statement.linear.base_RC.nnz == 0
        self.rate_R = np.ones(sum(len(constant) for _, constant in worst))
        if self.is_max_min:
            self.rate_R = self.rates(np.ones(len(self.rate_R), dtype=bool))
        self.worst_size = [len(constant) for _, constant in worst]
        matrix_KZ = sparse.vstack(
            [self.time_GZ, self.devices_AZ, *(m for m, _ in (*required, *worst))], format="csr"
        )
        largest_K = abs(matrix_KZ).max(axis=1).toarray().ravel()
        self.scale_K = 1.0 / np.sqrt(np.where(largest_K > 0, largest_K, 1.0))
        self.scale_K[: self.G + A] = 1.0
        K = matrix_KZ.shape[0]
        self.worst = slice(K - len(self.rate_R), K)
        self.devices, self.gains = slice(self.G, self.G + A), slice(self.G + A, None)
        level_KL = sparse.csr_array(
            (-self.rate_R, (np.arange(self.worst.start, K), np.arange(levels).repeat(self.worst_size))),
            shape=(K, levels),
        )
        matrix_KV = sparse.hstack([matrix_KZ, level_KL], format="csr")
        self.matrix_KV = sparse.csr_array(sparse.diags_array(self.scale_K) @ matrix_KV)
        self.lower_K = np.concatenate([np.full(self.G + A, -np.inf), *(-c for _, c in (*required, *worst))])
        self.lower_K *= self.scale_K
        self.upper_K = np.full(K, np.inf)
        self.upper_K[: self.G] = 1.0
        self.upper_K[self.devices] = snapshot.devices_A

    def _devices(self, table: Configurations, A: int) -> sparse.csr_array:
        """Devices of each type in use by all configurations of a kind together."""
        first_Z = self.classes.first_Z
        devices_Z = table.devices_C[first_Z] * self.classes.number_Z * self.classes.unit_Z
        return sparse.csr_array((devices_Z, (table.accelerator_C[first_Z], np.arange(self.Z))), shape=(A, self.Z))

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

    def rates(self, rising_R: NDArray[np.bool_]) -> Floats:
        """The rates at which the rows of a max-min program rise together from here on."""
        rates, classes = self.statement.worst[0].rates, self.classes
        if rates is None:
            return rising_R.astype(float)
        return np.where(rising_R, rates(rising_R, classes.representative_G, classes.count_G), 0.0)

    @cached_property
    def linear_Z(self) -> Floats:
        return np.asarray(self.classes.rows(self.statement.linear)[0].toarray()).ravel()

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
            total = float(y @ rate_K[first : first + size])
            y *= weight / total if total > 0 else 0.0
        matrix_KZ = self.matrix_KV[self.gains, : self.Z]
        reduced_Z = self.linear_Z + np.asarray(gain_K @ matrix_KZ) - np.asarray(price_A @ self.devices_AZ)
        reduced_Z = np.where(self.upper_V[: self.Z] > 0, np.maximum(0.0, reduced_Z), 0.0)
        constant = -gain_K @ self.lower_K[self.gains] + self.statement.linear.constant_R[0]
        time_G = _enough_time(self.time_GZ, reduced_Z, np.maximum(0.0, multiplier_K[: self.G]))
        return float(constant + price_A @ self.statement.snapshot.devices_A + time_G.sum()), price_A


def _enough_time(time_GZ: sparse.csr_array, reduced_Z: Floats, price_G: Floats) -> Floats:
    """Prices of the jobs' time, near ``price_G``, at which no configuration earns more than its time costs."""
    by_kind = time_GZ.tocsc()
    if (np.diff(by_kind.indptr) > 1).any():  # pairs: two jobs pay for them
        paid_Z = price_G @ time_GZ
        return price_G + _dearest(by_kind, np.maximum(0.0, reduced_Z - paid_Z))
    return _dearest(by_kind, reduced_Z)


def _dearest(by_kind: sparse.csc_array, value_Z: Floats) -> Floats:
    """For each class the most that a unit of its time is worth in a kind that it is the first member of."""
    first_Z = by_kind.indptr[:-1]
    price_G = np.zeros(by_kind.shape[0])
    np.maximum.at(price_G, by_kind.indices[first_Z], value_Z / by_kind.data[first_Z])
    return price_G
