"""A program as a dense matrix of jobs and accelerator types, which is what the price engine reads.

It fits where every job is alone in its configurations, and the program talks of nothing but each job's own speed,
of which it may ask for so much at least; a sum may ask for anything that is linear in each job's own shares. If
jobs run in several sizes, the columns are types with numbers of devices.

Legend: J jobs, G classes of jobs, A accelerator types, C configurations, V columns, E entries.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.memory import Memory
from gavelx.snapshot import Snapshot
from gavelx.solvers.price_engine.corners import most_corners
from gavelx.solvers.price_engine.levels import solve_levels
from gavelx.solvers.price_engine.prices import Start
from gavelx.solvers.price_engine.ratios import solve_ratios
from gavelx.solvers.price_engine.replies import Sizes
from gavelx.solvers.price_engine.search import LIMITS, Limits
from gavelx.solvers.price_engine.sums import solve_sums
from gavelx.solvers.program.assemble_lp import money
from gavelx.solvers.program.collapse import Classes
from gavelx.solvers.program.errors import UnsolvedError
from gavelx.solvers.program.statement import Affine, RatioStatement, Requirement, Statement

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
COLUMNS, CELLS = 127, 50_000_000
"""The largest matrix of jobs and sizes: a column's number is a byte."""
CORNERS = 60_000_000
"""The most corners of all rows together that are looked at."""
FEW = 300
"""Rows up to which a sum is quicker without prices; so many more for each further thing that is asked of them."""
MEMORY = "max-min prices"
"""The name, in an allocation's memory, of prices, the level that they prove, its width and the number of rows."""
NEAR, FEW_JOBS, CHANGED = 1e-3, 4.0, 0.02
"""Part by which few jobs more or less of thousands change prices at most, and how many those are; and of the rows,
the part that may have come or gone if the prices before are of use."""


@dataclass(frozen=True, eq=False)
class JobTypeMatrix:
    """Where each configuration of the jobs in ``row_G`` stands in a G x V matrix, flattened; and their devices.

    Columns are types, or ``sizes``.
    ``entry_E`` is where their coefficients stand. It, ``cell_E`` and ``configuration_E`` are slices where
    the table is the matrix, row by row.
    """

    snapshot: Snapshot
    row_G: Ints
    entry_E: Ints | slice
    cell_E: Ints | slice
    configuration_E: Ints | slice
    scale_G: Floats
    sizes: Sizes | None = None

    @property
    def V(self) -> int:
        return len(self.snapshot.devices_A) if self.sizes is None else len(self.sizes.type_V)

    def gains(self, base_RC: sparse.csr_array) -> Floats:
        """The coefficients of these rows, G x V; 0 where a job cannot run."""
        shape = (len(self.row_G), self.V)
        gain_E = base_RC.data[self.entry_E]
        usable_E = self.snapshot.usable_C[self.configuration_E]
        gain_E = gain_E if usable_E.all() else np.where(usable_E, gain_E, 0.0)
        if isinstance(self.cell_E, slice):
            return np.asarray(gain_E.reshape(shape))
        gain_GA = np.zeros(shape[0] * shape[1])
        gain_GA[self.cell_E] = gain_E
        return gain_GA.reshape(shape)

    def shares(self, share_GA: Floats) -> Floats:
        """The share of every configuration of these rows; 0 for all others."""
        if isinstance(self.cell_E, slice):
            return share_GA.ravel()
        share_C = np.zeros(len(self.snapshot.configurations))
        share_C[self.configuration_E] = share_GA.ravel()[self.cell_E]
        return share_C


def as_job_type_matrix(snapshot: Snapshot, base_RC: sparse.csr_array, row_G: Ints) -> JobTypeMatrix | None:
    """The job x type matrix of these rows, or None where they do not make one."""
    table, (J, A) = snapshot.configurations, snapshot.configurations.shape
    if table.first_J is None or table.first_J[-1] != len(table) or table.has_mixes:
        return None
    if len(base_RC.indices) != len(table) or not np.array_equal(base_RC.indptr, table.first_J):
        return None
    scale_G = snapshot.scale_factor_J[row_G].astype(float)
    in_order = len(row_G) == J and table.is_matrix and (base_RC.indices[1:] > base_RC.indices[:-1]).all()
    if in_order:
        own = (table.devices_C.reshape(J, A) == snapshot.scale_factor_J[:, None]).all()
        return JobTypeMatrix(snapshot, row_G, slice(None), slice(None), slice(None), scale_G) if own else None
    length_G = np.diff(base_RC.indptr)[row_G]
    before_G = np.cumsum(length_G) - length_G
    entry_E = np.arange(length_G.sum()) + (base_RC.indptr[row_G] - before_G).repeat(length_G)
    configuration_E = base_RC.indices[entry_E].astype(np.int64)
    cell_E = np.arange(len(row_G)).repeat(length_G) * A + table.accelerator_C[configuration_E]
    once = len(np.unique(cell_E)) == len(cell_E)
    own = np.array_equal(table.devices_C[configuration_E], scale_G.repeat(length_G))
    if not once or not own or not (length_G > 0).all():
        return None
    return JobTypeMatrix(snapshot, row_G, entry_E, cell_E, configuration_E, scale_G)


def as_job_size_matrix(snapshot: Snapshot, base_RC: sparse.csr_array, row_G: Ints) -> JobTypeMatrix | None:
    """The matrix of these rows, with sizes as columns where jobs have several; None where they do not make one."""
    if (matrix := as_job_type_matrix(snapshot, base_RC, row_G)) is not None:
        return matrix
    table = snapshot.configurations
    if table.own_C.all() or not table.stand_together or table.first_J is None or table.has_mixes:
        return None
    if not np.array_equal(base_RC.indptr, table.first_J):
        return None
    length_G = np.diff(base_RC.indptr)[row_G]
    before_G = np.cumsum(length_G) - length_G
    entry_E = np.arange(length_G.sum()) + (base_RC.indptr[row_G] - before_G).repeat(length_G)
    c_E = base_RC.indices[entry_E].astype(np.int64)
    other_E = table.batch_C[c_E] != 0  # a job may have two sizes of as many devices
    label_E = (table.accelerator_C[c_E] << 40) + (table.devices_C[c_E] << 1) + other_E
    label_V, column_E = np.unique(label_E, return_inverse=True)
    V = len(label_V)
    if V > COLUMNS or V * len(row_G) > CELLS:
        return None
    cell_E = np.arange(len(row_G)).repeat(length_G) * V + column_E
    if np.bincount(cell_E).max(initial=0) > 1:
        return None
    sizes = Sizes(label_V >> 40, ((label_V & ((1 << 40) - 1)) >> 1).astype(float))
    return JobTypeMatrix(snapshot, row_G, entry_E, cell_E, c_E, np.ones(len(row_G)), sizes)


def levels_by_price(statement: Statement, classes: Classes, lexicographic: bool) -> "Priced | None":
    """A max-min program, by prices; None where it is none, no such matrix, or the engine finds no answer."""
    snapshot = statement.snapshot
    if not len(classes) or not is_plain_max_min(statement):
        return None
    worst = statement.worst[0]
    floor_J = least(statement.requirements, worst.affine)
    matrix = as_job_size_matrix(snapshot, worst.affine.base_RC, classes.representative_G)
    if matrix is None or floor_J is None:
        return None
    factor_G, floor_G = factor(worst.affine)[matrix.row_G], floor_J[matrix.row_G]
    if (floor_G[factor_G <= 0] > 0).any():  # such rows have no gain, so none to be kept above a floor
        return None
    try:
        start, limits = _remembered(snapshot, len(classes))
        answer = solve_levels(
            matrix.gains(worst.affine.base_RC),
            worst.affine.constant_R[matrix.row_G],
            np.ones(len(matrix.row_G)),
            scale_G=matrix.scale_G,
            count_G=classes.count_G.astype(float),
            capacity_A=snapshot.devices_A.astype(float),
            factor_G=factor_G,
            sizes=matrix.sizes,
            floor_G=floor_G * factor_G,
            start=start,
            lexicographic=lexicographic,
            limits=limits,
            price_A=money(snapshot),
        )
    except UnsolvedError:
        return None
    share_C = matrix.shares(answer.share_GA)
    if not classes.merge_nothing:
        share_C = classes.shares(share_C[classes.first_Z] / classes.unit_Z)
    level = statement.linear.constant_R[0] + worst.weight * answer.bound
    path = _path(answer.rounds, complete=answer.complete or not lexicographic)
    memory = _to_remember(answer.start, len(classes)) if answer.searched and answer.start is not None else {}
    return Priced(share_C, float(level), worst.weight * answer.price_A, path, answer.cheapest, memory)


def _to_remember(start: Start, rows: int) -> Memory:
    assert start.level is not None and start.level_width is not None, "a search knows the level of its prices"
    return {MEMORY: np.array([*start.price_A, start.level, start.level_width, rows])}


def _remembered(snapshot: Snapshot, rows: int) -> tuple[Start | None, Limits]:
    """The prices at the last answer, and how far from them to look first; None where too much has changed."""
    last = np.asarray(snapshot.memory.get(MEMORY, np.zeros(0)), dtype=float)
    if last.shape != (len(snapshot.devices_A) + 3,) or not (np.isfinite(last).all() and (last >= 0).all()):
        return None, LIMITS
    price_A, (level, level_width, rows_before) = last[:-3], last[-3:].tolist()
    changed = abs(rows_before - rows) / rows
    if changed > CHANGED or not price_A.any() or not level_width > 0:
        return None, LIMITS
    return Start(price_A, level, level_width), replace(
        LIMITS, known=max(min(NEAR, FEW_JOBS / rows), 2.0 * changed)
    )


def ratios_by_price(statement: RatioStatement, *, lexicographic: bool = True) -> "Priced | None":
    """A ratio program, by prices; None where it makes no such matrix, or the engine finds no answer.

    It goes beyond the largest ratio only if ``lexicographic``.
    """
    top, bottom, snapshot = statement.numerator, statement.denominator, statement.snapshot
    if top.base_RC is not bottom.base_RC or statement.requirements or (bottom.constant_R != 0).any():
        return None
    row_G = np.flatnonzero(statement.finite_R)
    steps_G, deadline_G = top.constant_R[row_G], factor(bottom)[row_G]
    if not len(row_G) or not (steps_G > 0).all() or not (deadline_G > 0).all():
        return None
    matrix = as_job_size_matrix(snapshot, bottom.base_RC, row_G)
    if matrix is None:
        return None
    try:
        answer = solve_ratios(
            matrix.gains(bottom.base_RC),
            steps_G,
            factor(top)[row_G],
            deadline_G,
            scale_G=matrix.scale_G,
            count_G=np.ones(len(row_G)),
            capacity_A=snapshot.devices_A.astype(float),
            sizes=matrix.sizes,
            lexicographic=lexicographic,
            price_A=money(snapshot),
        )
    except UnsolvedError:
        return None
    path = _path(answer.rounds, complete=answer.complete or not lexicographic)
    return Priced(matrix.shares(answer.share_GA), answer.bound, None, path, answer.cheapest)


def sums_by_price(statement: Statement, classes: Classes) -> "Priced | None":
    """A sum over very many different jobs, by prices; None where it is something else, or has few rows.

    Jobs may have to have so much of something, or no more. Raises :class:`UnsolvedError` where they cannot.
    """
    snapshot, linear, table = statement.snapshot, statement.linear, statement.snapshot.configurations
    plain = not statement.worst and not statement.logs and linear.base_RC.nnz and table.stand_together
    if not plain or len(classes) <= FEW * max(1, len(statement.requirements)):
        return None
    value_JC = table.per_job(linear.matrix_RC.toarray().ravel())
    if (matrix := as_job_size_matrix(snapshot, value_JC, classes.representative_G)) is None:
        return None
    read = (_of_own_shares(requirement.affine, matrix) for requirement in statement.requirements)
    asked = [each for each in read if each is not None]
    too_many = len(classes) * most_corners(matrix.V, len(asked)) > CORNERS
    if too_many or len(asked) < len(statement.requirements):
        return None
    try:
        answer = solve_sums(
            matrix.gains(value_JC),
            scale_G=matrix.scale_G,
            count_G=classes.count_G.astype(float),
            capacity_A=snapshot.devices_A.astype(float),
            sizes=matrix.sizes,
            asked=asked,
        )
    except UnsolvedError as failure:
        if failure.status == "infeasible":
            raise
        return None
    share_C = matrix.shares(answer.share_GV)
    if not classes.merge_nothing:
        share_C = classes.shares(share_C[classes.first_Z] / classes.unit_Z)
    bound = float(linear.constant_R[0]) + answer.bound
    return Priced(share_C, bound, answer.price_A, _path(answer.rounds, complete=True), cheapest=True)


@dataclass(frozen=True, eq=False)
class Priced:
    """Shares of all configurations, a proven bound, and what one more device is worth where that is known.

    ``cheapest``: no shares that give every job as much cost less. ``memory``: what makes the next search short.
    """

    share_C: Floats
    bound: float
    marginal_A: Floats | None
    path: str
    cheapest: bool
    memory: Memory = field(default_factory=dict)


def _path(rounds: int, *, complete: bool) -> str:
    return f"prices, {rounds} rounds" + ("" if complete else ", levels not all raised")


def _of_own_shares(affine: Affine, matrix: JobTypeMatrix) -> tuple[Floats, Floats] | None:
    """What each job gets of its own shares, G x V, and must get at least; None where rows are of anything else."""
    table, matrix_RC = matrix.snapshot.configurations, affine.matrix_RC
    job_E = np.arange(matrix_RC.shape[0]).repeat(np.diff(matrix_RC.indptr))
    if affine.rows != "job" or (table.job_M[matrix_RC.indices] != job_E).any():
        return None
    gain_C = np.bincount(matrix_RC.indices, matrix_RC.data, len(table)).astype(float)
    return matrix.gains(table.per_job(gain_C)), -affine.constant_R[matrix.row_G]


def is_plain_max_min(statement: Statement) -> bool:
    """Whether the program is the worst of the jobs' own values, and nothing else."""
    if len(statement.worst) != 1 or statement.linear.base_RC.nnz or statement.logs:
        return False
    worst = statement.worst[0]
    return worst.weight > 0 and worst.rates is None and worst.affine.rows == "job"


def least(requirements: Sequence[Requirement], affine: Affine) -> Floats | None:
    """What the requirements leave each job at least of a value, before its factor; 0 where they leave nothing.

    None where a requirement asks for anything else.
    """
    least_R = np.zeros(len(affine.constant_R))
    for requirement in requirements:
        asked = requirement.affine
        factor_R, asks_R = factor(asked), factor(asked) > 0
        same = asked.rows == affine.rows == "job" and asked.base_RC is affine.base_RC
        if not same or (factor_R < 0).any() or (asked.constant_R[~asks_R] < 0).any():
            return None
        needed_R = np.divide(-asked.constant_R, factor_R, out=np.zeros(len(least_R)), where=asks_R)
        least_R = np.maximum(least_R, needed_R)
    return least_R


def factor(affine: Affine) -> Floats:
    """The factor of each row; 1 where there are none."""
    return np.ones(len(affine.constant_R)) if affine.factor_R is None else affine.factor_R
