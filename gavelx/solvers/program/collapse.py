"""Collapse jobs whose data are identical into classes, exactly.

Two jobs with the same data everywhere in the program can change places without changing feasibility or
objective. Averaging an optimum over all such exchanges is feasible, because the feasible set is convex, and no
worse, because the objective is concave. So some optimum gives every member of a class the same shares, and one
variable is enough for all configurations of a kind. The lexicographic optimum is unique in throughput, hence
symmetric, so this holds level by level too.

What "the same data" means where jobs share devices is settled by colour refinement: jobs have the colour of
their constants, configurations that of what the program says of them and of their members' colours, jobs that of
their configurations', and so on until no colour splits. Averaging over such an equitable partition keeps every
row and the objective (Grohe, Kersting, Mladenov and Selman, "Dimension reduction via colour refinement", ESA'14,
theorem 4.1), although jobs need not be interchangeable one by one. Colours are 64-bit hashes: two different ones
are taken for the same with a probability below 1e-7 for a million jobs.

Merging by *adding demands* is not exact: with speeds T = (1, 2) and demands of 0 and 2, the merged pair
``T.(x1 + x2) >= 2`` admits (2, 0), yet the second job can only be served by (0, 1). Demands are per-job data here
and keep such jobs in classes of their own.

Legend: J jobs, G classes of jobs, C configurations, Z kinds of configurations, R rows, E entries of a matrix.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.configurations import Configurations
from gavelx.solvers.program.statement import Affine, Statement

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Colours = NDArray[np.uint64]
WIDE = 64
"""Expressions with more rows than this that are not one per job are not looked into: no collapse."""
SAMPLE = 4096
BITS = 16
LARGE = 50_000
"""Jobs from which on a sample of them is looked at first."""


@dataclass(frozen=True, eq=False)
class Classes:
    """One job of each class, how many there are, and which configurations are of one kind.

    A program over the classes has one variable for each kind: the share of time that a job of its class spends in
    all configurations of that kind together, ``1 / unit_Z`` in number. There are ``number_Z`` of the kind in all.
    Without ``kind_C``, every job is alone in its configurations, and the n-th one of a job is of the same kind as
    the n-th of any other job of its class.
    """

    table: Configurations
    representative_G: Ints
    count_G: Ints
    class_J: Ints
    kind_C: Ints | None
    first_Z: Ints
    number_Z: Ints
    unit_Z: Floats

    def __len__(self) -> int:
        return len(self.representative_G)

    @property
    def merge_nothing(self) -> bool:
        """Whether every job and every configuration is for itself."""
        return self.kind_C is self.first_Z

    def shares(self, value_Z: Floats) -> Floats:
        """The share of every configuration, of the values of the kinds."""
        if self.merge_nothing:
            return value_Z
        value_Z = value_Z * self.unit_Z
        if self.kind_C is None and (self._length_G == self._length_G[0]).all():
            return np.asarray(value_Z.reshape(len(self), -1)[self.class_J]).ravel()
        return np.asarray(value_Z[self.kinds(np.arange(len(self.table)))])

    def kinds(self, c_E: Ints) -> Ints:
        """The kinds of these configurations."""
        if self.kind_C is not None:
            return self.kind_C[c_E]
        assert self.table.first_J is not None
        job_E = self.table.job_M[c_E]
        return np.asarray(self._start_G[self.class_J[job_E]] + c_E - self.table.first_J[job_E])

    def configurations_of(self, job_P: Ints) -> Ints:
        """The configurations of these jobs."""
        if self.kind_C is None:
            return _places(self.table, job_P)
        wanted_J = np.zeros(len(self.class_J), dtype=bool)
        wanted_J[job_P] = True
        return np.asarray(self.table.configuration_M[wanted_J[self.table.job_M]])

    @cached_property
    def _length_G(self) -> Ints:
        assert self.table.first_J is not None
        return np.asarray(np.diff(self.table.first_J)[self.representative_G])

    @cached_property
    def _start_G(self) -> Ints:
        return np.cumsum(self._length_G) - self._length_G

    @cached_property
    def time_GZ(self) -> sparse.csr_array:
        """The time of one job of each class over the kinds."""
        if self.kind_C is None:
            starts = np.append(self._start_G, len(self.first_Z))
            return sparse.csr_array((np.ones(len(self.first_Z)), np.arange(len(self.first_Z)), starts))
        return self.rows(Affine(self.table.membership_JC, np.zeros(len(self.class_J)), "job"))[0]

    def rows(self, affine: Affine) -> tuple[sparse.csr_array, Floats]:
        """The expression over the kinds: one row for each class instead of one for each job."""
        if self.merge_nothing:
            return affine.matrix_RC, affine.constant_R
        if affine.rows == "job":
            affine = affine.of_rows(self.representative_G)
        return self._over_kinds(affine.matrix_RC), affine.constant_R

    def _over_kinds(self, matrix_RC: sparse.csr_array) -> sparse.csr_array:
        R, Z = matrix_RC.shape[0], len(self.first_Z)
        kind_E = self.kinds(matrix_RC.indices)
        row_E = np.arange(R).repeat(np.diff(matrix_RC.indptr))
        return sparse.csr_array((matrix_RC.data * self.unit_Z[kind_E], (row_E, kind_E)), shape=(R, Z))


def collapse(statement: Statement) -> Classes:
    """The classes of identical jobs of a program; every job for itself where its structure is not understood."""
    table = statement.snapshot.configurations
    J, C = table.shape[0], len(table)
    colour_J = _told(statement) if C and J else np.zeros(0, dtype=np.uint64)
    by_place = colour_J is not None and table.first_J is not None and len(table.job_M) == C
    colour_C = _of_members(table, colour_J) if colour_J is not None and not by_place else None
    if colour_J is not None and colour_C is not None and not _is_stable(table, colour_J, colour_C):
        colour_J = None
    if colour_J is None:
        if _are_distinct(statement) or _look_distinct(statement):
            return no_classes(table)
        colour_J, colour_C = _refined(statement)
    representative_G, count_G, class_J = _distinct(colour_J)
    if len(representative_G) == len(colour_J):
        return no_classes(table)
    if colour_C is None:
        first_Z = _places(table, representative_G)
        number_Z = count_G[class_J[table.job_M[first_Z]]]
        return Classes(table, representative_G, count_G, class_J, None, first_Z, number_Z, np.ones(len(first_Z)))
    first_Z, number_Z, kind_C = _distinct(colour_C)
    unit_Z = np.ones(len(first_Z))
    classes = Classes(table, representative_G, count_G, class_J, kind_C, first_Z, number_Z, unit_Z)
    return replace(classes, unit_Z=1.0 / classes.time_GZ.max(axis=0).toarray().ravel())


def no_classes(table: Configurations) -> Classes:
    every_J = np.arange(table.shape[0])
    every_C = table.configuration_M if table.stand_together else np.arange(len(table))
    one_J, one_C = np.broadcast_to(np.int64(1), every_J.shape), np.broadcast_to(np.int64(1), every_C.shape)
    unit_C = np.broadcast_to(1.0, every_C.shape)
    return Classes(table, every_J, one_J, every_J, every_C, every_C, one_C, unit_C)


def _places(table: Configurations, job_G: Ints) -> Ints:
    """The configurations of these jobs, one job's after the other's."""
    first_J = table.first_J
    assert first_J is not None
    length_G = np.diff(first_J)[job_G]
    start_G = np.cumsum(length_G) - length_G
    return np.asarray(np.arange(length_G.sum()) + (first_J[job_G] - start_G).repeat(length_G))


def _told(statement: Statement) -> Colours | None:
    """Colours of jobs by the kinds that the table tells and by what the program says of each job.

    None if the table tells no kinds, or the program looks at more than speeds and time.
    """
    table = statement.snapshot.configurations
    if table.kind_J is None:
        return None
    colour_J = table.kind_J.view(np.uint64)
    for number_J in statement.labels:
        colour_J = _mixed(colour_J, number_J)
    for affine in statement.affines:
        if affine.rows == "job" and (
            affine.base_RC is table.throughput_JC or affine.base_RC is table.membership_JC
        ):
            if affine.factor_R is not None:
                colour_J = _mixed(colour_J, affine.factor_R)
            colour_J = _mixed(colour_J, affine.constant_R)
        elif affine.base_RC.nnz:
            return None
    return colour_J


def _of_members(table: Configurations, colour_J: Colours) -> Colours:
    """Colours of configurations by those of their members, with their speeds, their devices and their place."""
    label_C = _devices(table) + table.spread_C
    sum_C = np.zeros(len(table), dtype=np.uint64)
    np.add.at(sum_C, table.configuration_M, _mixed(_mixed(colour_J, colour_J)[table.job_M], table.throughput_M))
    return _mixed(sum_C, label_C)


def _devices(table: Configurations) -> Ints:
    """An even number for the devices of each configuration."""
    place_C = (table.devices_C << 24) + table.accelerator_C * 2
    if table.has_mixes:
        place_C += np.unique(table.others_CA, axis=0, return_inverse=True)[1].ravel() << 44
    return place_C


def _is_stable(table: Configurations, colour_J: Colours, colour_C: Colours) -> bool:
    """Whether jobs of a colour see the same configurations: told kinds know nothing of their partners' weights."""
    if len(table.job_M) == len(table):  # no job has a partner
        return True
    seen_J = np.zeros_like(colour_J)
    np.add.at(seen_J, table.job_M, _mixed(colour_C[table.configuration_M], table.throughput_M))
    return len(np.unique(_mixed(colour_J, seen_J))) == len(np.unique(colour_J))


def _are_distinct(statement: Statement) -> bool:
    """Whether one number tells all jobs apart, the largest coefficient of a row: then no other is looked at."""
    for affine in statement.affines:
        base_RC = affine.base_RC
        if affine.rows == "job" and base_RC.nnz and np.diff(base_RC.indptr).all():
            most_J = np.maximum.reduceat(base_RC.data, base_RC.indptr[:-1])
            most_J = np.sort(most_J if affine.factor_R is None else most_J * affine.factor_R)
            if (most_J[1:] != most_J[:-1]).all():
                return True
    return False


def _look_distinct(statement: Statement) -> bool:
    """Whether jobs of a sample are all different, so that it is not worth looking at very many more closely."""
    table = statement.snapshot.configurations
    if table.shape[0] < LARGE:
        return False
    sample = np.arange(0, table.shape[0], table.shape[0] // SAMPLE)
    colour_S = np.zeros(len(sample), dtype=np.uint64)
    for affine in statement.affines:
        if affine.rows == "job":
            part = affine.of_rows(sample)
            sum_S = np.zeros(len(sample), dtype=np.uint64)
            row_E = np.arange(len(sample)).repeat(np.diff(part.base_RC.indptr))
            label_E = table.accelerator_C[part.base_RC.indices]
            np.add.at(sum_S, row_E, _mixed(label_E.view(np.uint64), part.matrix_RC.data))
            colour_S = _mixed(_mixed(colour_S, sum_S), part.constant_R)
    return len(np.unique(colour_S)) == len(sample)


def _refined(statement: Statement) -> tuple[Colours, Colours]:
    """Colours of jobs and configurations, split until they are stable.

    All jobs different if rows are not understood. Where no job shares devices, once is enough.
    """
    table = statement.snapshot.configurations
    J, number = table.shape[0], 0
    own_J, own_C, edges = np.zeros(J, dtype=np.uint64), _own_colours(statement), [table.membership_JC]
    for number_J in statement.labels:
        own_J = _mixed(own_J, number_J)
    for affine in statement.affines:
        if affine.rows == "job":
            edges.append(affine.matrix_RC)
            own_J = _mixed(own_J, affine.constant_R)
    if own_C is None:
        return np.arange(J).view(np.uint64), np.arange(len(table)).view(np.uint64)
    merged, colour_C = _merged(edges), own_C
    alone = len(merged) == 1 and (table.members_C == 1).all()  # nothing but a job itself sees its configurations
    while True:
        colour_J = _seen_from_rows(own_J, colour_C, merged)
        distinct = len(_distinct(colour_J)[0])
        if distinct == J:
            return colour_J, colour_C
        colour_C = _seen_from_columns(own_C, colour_J, merged)
        if distinct == number or alone:
            return colour_J, colour_C
        number = distinct


def _own_colours(statement: Statement) -> Colours | None:
    """What a program says of each configuration but its jobs; None if it has too much to say."""
    table = statement.snapshot.configurations
    own_C = (_devices(table) + statement.snapshot.usable_C).view(np.uint64)
    for affine in statement.affines:
        if affine.rows != "job" and affine.base_RC.nnz:
            if affine.base_RC.shape[0] > WIDE:
                return None
            for row_C in affine.matrix_RC.toarray():
                own_C = _mixed(own_C, row_C)
    return own_C


def _seen_from_rows(own_J: Colours, colour_C: Colours, edges: list[tuple[sparse.csr_array, Colours]]) -> Colours:
    """Each job's own colour and the colours of what it is joined to, in whatever order."""
    colour_J = own_J
    for matrix, weight_E in edges:
        seen_E = np.append(_mixed(colour_C[matrix.indices], weight_E), np.uint64(0))
        sum_J = np.add.reduceat(seen_E, matrix.indptr[:-1])
        sum_J[np.diff(matrix.indptr) == 0] = 0
        colour_J = _mixed(colour_J, sum_J)
    return colour_J


def _seen_from_columns(
    own_C: Colours, colour_J: Colours, edges: list[tuple[sparse.csr_array, Colours]]
) -> Colours:
    """Each configuration's own colour and those of the jobs that it is joined to."""
    colour_C = own_C
    for matrix, weight_E in edges:
        sum_C = np.zeros_like(own_C)
        np.add.at(sum_C, matrix.indices, _mixed(colour_J.repeat(np.diff(matrix.indptr)), weight_E))
        colour_C = _mixed(colour_C, sum_C)
    return colour_C


def _merged(matrices: list[sparse.csr_array]) -> list[tuple[sparse.csr_array, Colours]]:
    """The values of each matrix as colours; matrices with entries in the same places as one."""
    edges: list[tuple[sparse.csr_array, Colours]] = []
    for matrix in matrices:
        for k, (other, weight_E) in enumerate(edges):
            if _same_places(matrix, other):
                edges[k] = (other, _mixed(weight_E, matrix.data))
                break
        else:
            if matrix.nnz:
                edges.append((matrix, (matrix.data + 0.0).view(np.uint64)))
    return edges


def _same_places(a: sparse.csr_array, b: sparse.csr_array) -> bool:
    return np.array_equal(a.indptr, b.indptr) and np.array_equal(a.indices, b.indices)


def _mixed(colour: Colours, value: Floats | Ints | Colours) -> Colours:
    """A colour that depends on both, each bit of it on all of theirs (after the finaliser of splitmix64)."""
    bits = (value + 0.0 if value.dtype == np.float64 else value).view(np.uint64)  # -0.0 is 0.0
    mixed = colour * np.uint64(0x9E3779B97F4A7C15)
    mixed += bits
    mixed ^= mixed >> np.uint64(30)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return mixed


def _distinct(colour_N: Colours) -> tuple[Ints, Ints, Ints]:
    """The first place of each colour, in the order of places, how many there are of each, and which stands where.

    Few colours among very many are found in a sample, which spares sorting them all.
    """
    known_U = np.unique(colour_N[:: max(1, len(colour_N) // SAMPLE)])
    place_N = _looked_up(known_U, colour_N)
    if len(known_U) < SAMPLE // 4 and np.array_equal(known_U[place_N], colour_N):
        first_U = np.empty(len(known_U), dtype=np.int64)
        first_U[place_N[::-1]] = np.arange(len(colour_N))[::-1]  # the last one written stays
        count_U = np.bincount(place_N, minlength=len(known_U))
    else:
        _, first_U, place_N, count_U = np.unique(
            colour_N, return_index=True, return_inverse=True, return_counts=True
        )
    order_U = np.argsort(first_U)
    rank_U = np.empty_like(order_U)
    rank_U[order_U] = np.arange(len(order_U))
    return first_U[order_U], count_U[order_U], rank_U[place_N]


def _looked_up(known_U: Colours, colour_N: Colours) -> Ints:
    """Where each colour stands among these, if it does: by its first bits, or by search where two share them."""
    if len(colour_N) < LARGE:
        return np.minimum(np.searchsorted(known_U, colour_N), len(known_U) - 1)
    table = np.zeros(1 << BITS, dtype=np.int64)
    table[known_U >> np.uint64(64 - BITS)] = np.arange(len(known_U))
    if np.array_equal(table[known_U >> np.uint64(64 - BITS)], np.arange(len(known_U))):
        return np.asarray(table[colour_N >> np.uint64(64 - BITS)])
    return np.minimum(np.searchsorted(known_U, colour_N), len(known_U) - 1)
