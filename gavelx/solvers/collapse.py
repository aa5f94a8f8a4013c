"""Collapse jobs whose data are identical into classes, exactly.

Two jobs with the same rows in every expression of the program (and so the same scale factor and the same ways to
run) can change places without changing feasibility or objective. Averaging an optimum over all such exchanges is
feasible, because the feasible set is convex, and no worse, because the objective is concave. So some optimum
gives every member of a class the same shares, and one set of variables per class is enough: x = expand @ z.
The lexicographic optimum is unique in throughput, hence symmetric, so this holds level by level too.

Merging by *adding demands* is not exact: with speeds T = (1, 2) and demands of 0 and 2, the merged pair
``T.(x1 + x2) >= 2`` admits (2, 0), yet the second job can only be served by (0, 1). Demands are per-job data here
and keep such jobs in classes of their own.

Legend: J jobs, G classes, C configurations, Z configurations of the classes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.solvers.statement import Affine, Statement

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
WIDE = 64
"""Expressions with more rows than this that are not one per job are not looked into: no collapse."""


@dataclass(frozen=True, eq=False)
class Classes:
    """``representative_G``: one job of each class; ``expand_CZ @ z_Z`` are the shares of all configurations."""

    representative_G: Ints
    expand_CZ: sparse.csr_array

    def __len__(self) -> int:
        return len(self.representative_G)

    def rows(self, affine: Affine) -> tuple[sparse.csr_array, Floats]:
        """The expression over z: one row for each class instead of one for each job."""
        matrix_RC, constant_R = affine.matrix_RC, affine.constant_R
        if affine.rows == "job":
            matrix_RC, constant_R = matrix_RC[self.representative_G], constant_R[self.representative_G]
        return sparse.csr_array(matrix_RC @ self.expand_CZ), constant_R


def collapse(statement: Statement) -> Classes:
    """The classes of identical jobs of a program; every job for itself where its structure is not understood."""
    table = statement.snapshot.configurations
    J = table.shape[0]
    signature_JV = _signatures(statement) if len(table) and J else None
    if signature_JV is None:
        return Classes(np.arange(J), sparse.eye_array(len(table), format="csr"))
    rows = np.ascontiguousarray(signature_JV + 0.0).view(np.dtype((np.void, signature_JV.shape[1] * 8))).ravel()
    _, representative_G, class_J = np.unique(rows, return_index=True, return_inverse=True)
    return Classes(representative_G, _expansion(statement, representative_G, class_J))


def _signatures(statement: Statement) -> Floats | None:
    """Everything the program says of each job, as one row of numbers; None if a job's data are not its own."""
    table = statement.snapshot.configurations
    if (table.members_C > 1).any():
        return None
    job_C = _job_of_configuration(statement)
    per_C: list[Floats] = [
        table.accelerator_C.astype(float),
        table.devices_C.astype(float),
        table.runnable_C.astype(float),
    ]
    per_J: list[Floats] = []
    for affine in statement.affines:
        if affine.rows == "job":
            entries = affine.matrix_RC.tocoo()
            if not np.array_equal(entries.row, job_C[entries.col]):
                return None
            per_C.append(np.asarray(affine.matrix_RC.sum(axis=0)).ravel())
            per_J.append(affine.constant_R)
        elif affine.matrix_RC.shape[0] <= WIDE:
            per_C.extend(affine.matrix_RC.toarray())
        else:
            return None
    slot_C, slots = _slots(job_C, table.shape[0])
    signature_JLV = np.zeros((table.shape[0], slots, len(per_C)))
    signature_JLV[:, :, 0] = -1.0  # no configuration in this slot
    signature_JLV[job_C, slot_C] = np.column_stack(per_C)
    return np.column_stack([signature_JLV.reshape(table.shape[0], -1), *per_J])


def _job_of_configuration(statement: Statement) -> Ints:
    table = statement.snapshot.configurations
    job_C = np.empty(len(table), dtype=np.int64)
    job_C[table.configuration_M] = table.job_M
    return job_C


def _slots(job_C: Ints, J: int) -> tuple[Ints, int]:
    """Number the configurations of each job 0, 1, 2, ... in the order of the table."""
    count_J = np.bincount(job_C, minlength=J)
    order = np.argsort(job_C, kind="stable")
    first_J = np.cumsum(count_J) - count_J
    slot_C = np.empty(len(job_C), dtype=np.int64)
    slot_C[order] = np.arange(len(job_C)) - first_J[job_C[order]]
    return slot_C, int(count_J.max())


def _expansion(statement: Statement, representative_G: Ints, class_J: Ints) -> sparse.csr_array:
    """Which class configuration each configuration follows: its job's class and its own slot."""
    job_C = _job_of_configuration(statement)
    slot_C, slots = _slots(job_C, len(class_J))
    representative_C = np.isin(job_C, representative_G)
    column = np.full(len(representative_G) * slots, -1, dtype=np.int64)
    key_C = class_J[job_C] * slots + slot_C
    column[key_C[representative_C]] = np.arange(int(representative_C.sum()))
    column_C = column[key_C]
    C = len(job_C)
    return sparse.csr_array((np.ones(C), (np.arange(C), column_C)), shape=(C, int(representative_C.sum())))
