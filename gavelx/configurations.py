"""The table of configurations: every way in which the jobs of a snapshot may run.

A configuration is one job (or a pair that shares devices) on a number of devices of one accelerator type, or of
several, consolidated or spread, with the throughput of each member. Space sharing, placement, the sizes of elastic
jobs and mixes of types only add rows here; policies see no difference.

Legend: J jobs, A accelerator types, C configurations, M memberships (a job in a configuration; a pair has two).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.configuration import ALONE, ConfigurationSet, equally_wide, keys, widened
from gavelx.fixed import Fixed, fixed_property
from gavelx.throughputs import End

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
CHUNK = 65536
"""Configurations summed at a time: they fit in the cache, and sums over millions lose less to rounding."""


@dataclass(frozen=True, eq=False)
class Configurations(Fixed):
    """Which configurations exist and what each gives.

    * ``accelerator_C``, ``devices_C``: the accelerator type (an index) and the number of its devices in use; of a
      mix, the first of its types;
    * ``others_CA``: of a mix, the devices of its other types; default: no columns, as there are no mixes;
    * ``job_M``, ``configuration_M``, ``throughput_M``: the job (an index), its configuration and its steps/s
      there; 0 means that it is known not to run there. If nothing is known, there is no row;

    * ``spread_C``: the devices sit in several servers, which slows a gang down; default: all are consolidated;
    * ``batch_C``: the samples in an update; default: 0 everywhere, as submitted;
    * ``own_C``: the job is in the size as submitted, by which it is judged; default: everywhere. A job has exactly
      one such row, alone and consolidated, on each type where it has any;
    * ``barred_C``: must not be used, at any speed (a type that a job cannot run on but is compared with); default:
      none;
    * ``kind_J``: jobs of one kind have the same ways to run at the same speeds, in the same order; default: each
      job is a kind of its own. Set it in a table of very many jobs, where finding it later takes time;
    * ``lower_M``, ``upper_M``: the range around ``throughput_M`` if speeds are estimated; default: every speed is
      exact. Only ``robust`` and ``optimistic`` read them.

    ``shape`` is (J, A).
    """

    shape: tuple[int, int]
    accelerator_C: Ints
    devices_C: Ints
    job_M: Ints
    configuration_M: Ints
    throughput_M: Floats
    spread_C: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    barred_C: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    batch_C: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    own_C: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    others_CA: Ints = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    kind_J: Ints | None = None
    lower_M: Floats | None = None
    upper_M: Floats | None = None

    def __post_init__(self) -> None:
        for name, value in (("spread_C", False), ("barred_C", False), ("batch_C", 0), ("own_C", True)):
            if not len(getattr(self, name)):
                object.__setattr__(self, name, np.broadcast_to(value, len(self)))  # takes no room
        if len(self.others_CA) != len(self):
            object.__setattr__(self, "others_CA", np.zeros((len(self), 0), dtype=np.int64))
        for array in (
            *(self.accelerator_C, self.devices_C, self.spread_C, self.barred_C, self.batch_C, self.own_C),
            *(self.others_CA, self.job_M, self.configuration_M, self.throughput_M),
        ):
            array.setflags(write=False)
        assert len(self.accelerator_C) == len(self.devices_C) == len(self.spread_C)
        assert len(self.accelerator_C) == len(self.batch_C) == len(self.own_C)
        assert self.others_CA.shape[1] in {0, self.shape[1]}
        assert len(self.job_M) == len(self.configuration_M) == len(self.throughput_M)
        if self.lower_M is not None and self.upper_M is not None:
            self.lower_M.setflags(write=False)
            self.upper_M.setflags(write=False)
            assert len(self.lower_M) == len(self.upper_M) == len(self.job_M)
        else:
            assert self.lower_M is self.upper_M is None
        if self.kind_J is not None:
            self.kind_J.setflags(write=False)

    @staticmethod
    def of_matrix(
        throughput_JA: Floats, scale_factor_J: Ints, *, spread: bool = False, kind_J: Ints | None = None
    ) -> "Configurations":
        """The plain table of the literature: each job alone on each accelerator type with a known speed.

        ``throughput_JA`` is in steps/s, NaN if unknown; with ``spread`` it holds over several servers.
        """
        cell_C = np.flatnonzero(~np.isnan(throughput_JA))
        job_C, accelerator_C = np.divmod(cell_C, max(1, throughput_JA.shape[1]))
        return Configurations(
            shape=(throughput_JA.shape[0], throughput_JA.shape[1]),
            accelerator_C=accelerator_C,
            devices_C=np.asarray(scale_factor_J, dtype=np.int64)[job_C],
            job_M=job_C,
            configuration_M=np.arange(len(job_C)),
            throughput_M=throughput_JA.ravel()[cell_C],
            spread_C=np.broadcast_to(spread, len(job_C)),
            kind_J=kind_J,
        )

    def __len__(self) -> int:
        return len(self.accelerator_C)

    @fixed_property
    def members_C(self) -> Ints:
        """The number of jobs in each configuration: 1, or 2 for a pair."""
        if len(self.job_M) == len(self):  # every configuration has a member
            return np.broadcast_to(np.int64(1), (len(self),))
        return np.bincount(self.configuration_M, minlength=len(self))

    @fixed_property
    def runnable_C(self) -> NDArray[np.bool_]:
        """Whether every member makes progress in the configuration, and it is not barred."""
        runnable, runs_M = ~self.barred_C, self.throughput_M > 0
        if not runs_M.all():
            runnable[self.configuration_M[~runs_M]] = False
        return runnable

    @fixed_property
    def mixed_C(self) -> NDArray[np.bool_]:
        """Whether a configuration has devices of several types."""
        return np.asarray(self.others_CA.any(axis=1))

    @property
    def has_mixes(self) -> bool:
        """Whether any has."""
        return bool(self.others_CA.shape[1])

    @cached_property
    def rows(self) -> ConfigurationSet:
        """Each configuration under the indices of its members and of its type."""
        first_C, last_C = np.full(len(self), self.shape[0]), np.full(len(self), ALONE)
        if len(self.job_M) == len(self):  # each has one member
            first_C[self.configuration_M] = self.job_M
        else:
            np.minimum.at(first_C, self.configuration_M, self.job_M)
            np.maximum.at(last_C, self.configuration_M, self.job_M)
            last_C[self.members_C == 1] = ALONE
        places = self.accelerator_C, self.devices_C, self.spread_C, self.batch_C, self.others_CA
        return ConfigurationSet(first_C, last_C, *places)

    def named(self, id_J: Ints, c_P: Ints) -> ConfigurationSet:
        """These configurations under the ids of their members and the index of their type."""
        rows = self.rows.take(c_P)
        partner_P = np.where(rows.partner == ALONE, ALONE, id_J[rows.partner])
        return ConfigurationSet.of(id_J[rows.job], partner_P, *rows.columns()[2:])

    @fixed_property
    def mode_C(self) -> Ints:
        """A number for jobs, size and placement: configurations of one mode differ only in accelerator type."""
        of_any_type = replace(self.rows, type=np.zeros(len(self), dtype=np.int64))
        return np.unique(keys(of_any_type)[0], return_inverse=True)[1]

    def misjudged(self) -> tuple[int, int] | None:
        """A job and a type where it may run alone, but not in exactly one row in its own size; or None."""
        alone_M = ((self.members_C == 1) & ~self.spread_C & ~self.mixed_C)[self.configuration_M]
        place_M = self.job_M * self.shape[1] + self.accelerator_C[self.configuration_M]
        cells = self.shape[0] * self.shape[1]
        rows, own = (np.bincount(place_M[chosen], minlength=cells) for chosen in (alone_M, self.plain_M))
        wrong = np.flatnonzero((rows > 0) & (own != 1))
        return divmod(int(wrong[0]), self.shape[1]) if len(wrong) else None

    def of_jobs(self, job_S: Ints) -> "tuple[Configurations, Ints]":
        """The table of just these jobs, renumbered, and the indices of its configurations in this table."""
        number_J = np.full(self.shape[0], -1)
        number_J[job_S] = np.arange(len(job_S))
        keep_C = np.ones(len(self), dtype=bool)
        keep_C[self.configuration_M[number_J[self.job_M] < 0]] = False
        table = self.where(keep_C)
        kind_S = None if self.kind_J is None else self.kind_J[job_S]
        shape = (len(job_S), self.shape[1])
        return replace(table, shape=shape, job_M=number_J[table.job_M], kind_J=kind_S), np.flatnonzero(keep_C)

    def unlike(self) -> tuple[int, int] | None:
        """Two jobs of one kind in ``kind_J`` whose ways to run differ, or None."""
        if self.kind_J is None:
            return None
        sum_C = np.bincount(self.configuration_M, self.kind_J[self.job_M] + 1.0, len(self))
        partner_M = sum_C[self.configuration_M] - self.kind_J[self.job_M] - 1.0
        columns = (*self._ways, self.barred_C)
        speeds = [speed_M for speed_M in (self.throughput_M, self.lower_M, self.upper_M) if speed_M is not None]
        ways_MV = np.column_stack([*(c[self.configuration_M] for c in columns), partner_M, *speeds])
        alone_M = self.members_C[self.configuration_M] == 1  # these must stand in the same order, pairs need not
        index_M, pair_MV = np.arange(len(alone_M)), np.where(alone_M[:, None], 0.0, ways_MV)
        order_M = np.lexsort((*pair_MV.T, index_M * alone_M, ~alone_M, self.job_M))
        by_job = np.split(ways_MV[order_M], np.searchsorted(self.job_M[order_M], np.arange(1, self.shape[0])))
        first: dict[int, int] = {}
        for j, kind in enumerate(self.kind_J.tolist()):
            if not np.array_equal(by_job[j], by_job[first.setdefault(kind, j)]):
                return first[kind], j
        return None

    @fixed_property
    def plain_M(self) -> NDArray[np.bool_]:
        """Whether the configuration of a membership is of one job, consolidated, in its own size."""
        plain_C = (self.members_C == 1) & ~self.spread_C & self.own_C
        return np.asarray(plain_C[self.configuration_M])

    @cached_property
    def throughput_JC(self) -> sparse.csr_array:
        """Steps/s that job j gets in configuration c."""
        return self.per_job(self.throughput_M)

    @cached_property
    def membership_JC(self) -> sparse.csr_array:
        """1 where job j takes part in configuration c."""
        return self.per_job(np.ones(len(self.job_M)))

    @cached_property
    def devices_AC(self) -> sparse.csr_array:
        """Devices of type a in use in configuration c."""
        index = (self.accelerator_C, np.arange(len(self)))
        first_AC = sparse.csr_array((self.devices_C.astype(float), index), shape=(self.shape[1], len(self)))
        return first_AC + sparse.csr_array(self.others_CA.T.astype(float)) if self.has_mixes else first_AC

    @fixed_property
    def throughput_JA(self) -> Floats:
        """Steps/s of each job alone, consolidated, in its own size, on each type; NaN if unknown, 0 if barred."""
        T_JA = np.full(self.shape, np.nan)
        job_P, type_P = self.job_M[self.plain_M], self.accelerator_C[self.configuration_M[self.plain_M]]
        open_M = ~self.barred_C[self.configuration_M]
        T_JA[job_P, type_P] = (self.throughput_M * open_M)[self.plain_M]
        return T_JA

    def time_J(self, share_C: Floats) -> Floats:
        """The share of time in which each job runs under these shares."""
        if self.stand_together and self.first_J is not None:
            return np.asarray(np.add.reduceat(share_C, self.first_J[:-1]))
        return np.asarray(self.membership_JC @ share_C)

    def devices_A(self, share_C: Floats) -> Floats:
        """The devices of each type in use under these shares, averaged over time."""
        in_use_A = np.zeros(self.shape[1])
        for start in range(0, len(self), CHUNK):
            part = slice(start, start + CHUNK)
            weight = share_C[part] * self.devices_C[part]
            in_use_A += np.bincount(self.accelerator_C[part], weight, self.shape[1])
        return in_use_A + np.einsum("C,CA->A", share_C, self.others_CA) if self.has_mixes else in_use_A

    def usd_C(self, usd_A: Floats) -> Floats:
        """What the devices of each configuration cost together, where one of each type costs so much."""
        usd_C = usd_A[self.accelerator_C] * self.devices_C
        if self.has_mixes:
            usd_C += (self.others_CA * np.where(self.others_CA > 0, usd_A, 0.0)).sum(axis=1)
        return usd_C

    def least_C(self, value_A: Floats) -> Floats:
        """The least of a value over the types of each configuration."""
        least_C = value_A[self.accelerator_C]
        if self.has_mixes:
            least_C = np.minimum(least_C, np.where(self.others_CA > 0, value_A, np.inf).min(axis=1))
        return least_C

    def fit_C(self, devices_A: Ints) -> NDArray[np.bool_]:
        """Whether there are as many devices of each of its types as a configuration needs."""
        return self.rows.fits(devices_A) if self.has_mixes else self.devices_C <= devices_A[self.accelerator_C]

    def row_of_kind(self) -> tuple[Ints, Ints]:
        """One job of each kind, and for each job the index of its kind in that list."""
        if self.kind_J is None:
            every = np.arange(self.shape[0])
            return every, every
        first_K = np.full(int(self.kind_J.max(initial=-1)) + 1, -1)
        first_K[self.kind_J[::-1]] = np.arange(self.shape[0])[::-1]
        place_K = np.cumsum(first_K >= 0) - 1
        return first_K[first_K >= 0], place_K[self.kind_J]

    def at(self, end: End) -> "Configurations":
        """The table with every speed at this end of its range, and no ranges."""
        speed_M = self.lower_M if end == "lower" else self.upper_M
        return self if speed_M is None else replace(self, throughput_M=speed_M, lower_M=None, upper_M=None)

    def with_speeds(self, changed: Callable[[Floats], Floats]) -> "Configurations":
        """The same ways to run with ``changed`` applied to each speed and to both ends of its range."""
        lower_M, upper_M = (None if end_M is None else changed(end_M) for end_M in (self.lower_M, self.upper_M))
        return replace(self, throughput_M=changed(self.throughput_M), lower_M=lower_M, upper_M=upper_M)

    def where(self, keep_C: NDArray[np.bool_]) -> "Configurations":
        """The table of just these configurations."""
        position_C = np.cumsum(keep_C) - 1
        keep_M = keep_C[self.configuration_M]
        return Configurations(
            shape=self.shape,
            accelerator_C=self.accelerator_C[keep_C],
            devices_C=self.devices_C[keep_C],
            job_M=self.job_M[keep_M],
            configuration_M=position_C[self.configuration_M[keep_M]],
            throughput_M=self.throughput_M[keep_M],
            spread_C=self.spread_C[keep_C],
            barred_C=self.barred_C[keep_C],
            batch_C=self.batch_C[keep_C],
            own_C=self.own_C[keep_C],
            others_CA=self.others_CA[keep_C] if self.mixed_C[keep_C].any() else self.others_CA[keep_C, :0],
            kind_J=self.kind_J,
            lower_M=None if self.lower_M is None else self.lower_M[keep_M],
            upper_M=None if self.upper_M is None else self.upper_M[keep_M],
        )

    def foreign(self, other: "Configurations") -> int | None:
        """Index of another table's first configuration that this one lacks, or None.

        Both are of the same jobs and types.
        Members, type, size, placement and speeds are compared. A duplicate counts as foreign too.
        """
        if other is self or all(map(_same, self._columns, other._columns)):
            return None
        number_R = _numbered(np.vstack([self._rows(), other._rows()]))
        mine_C, number_D = number_R[: len(self)], number_R[len(self) :]  # D: configurations of the other table
        foreign_D = ~np.isin(number_D, mine_C)
        again_D = np.ones(len(other), dtype=bool)
        again_D[np.unique(number_D, return_index=True)[1]] = False
        return int((foreign_D | again_D).argmax()) if (foreign_D | again_D).any() else None

    @property
    def _columns(self) -> tuple[NDArray[Any], ...]:
        """Every column that makes up a configuration."""
        return (*self._ways, self.job_M, self.configuration_M, self.throughput_M)

    @property
    def _ways(self) -> tuple[NDArray[Any], ...]:
        """On which devices each configuration runs, and how."""
        return (
            *(self.accelerator_C, self.devices_C, self.spread_C, self.batch_C, self.own_C),
            *widened(self.others_CA, self.shape[1]).T,
        )

    def _rows(self) -> Floats:
        """Each configuration as a row of numbers that does not depend on the order of its members."""
        order_M = np.append(np.lexsort((self.job_M, self.configuration_M)), len(self.job_M))
        job_M, speed_M = np.append(self.job_M, -1), np.append(self.throughput_M, 0.0)
        members_C = np.bincount(self.configuration_M, minlength=len(self))
        last_C = members_C.cumsum()
        ends = (order_M[last_C - members_C], order_M[last_C - 1])
        members = (column_M[m_C] for m_C in ends for column_M in (job_M, speed_M))
        return np.column_stack([*self._ways, members_C, *members])

    def per_job(self, value_M: Floats) -> sparse.csr_array:
        """A value for each job in each of its configurations, as a J x C matrix."""
        shape = (self.shape[0], len(self))
        if self._places is None:
            return sparse.csr_array((value_M, (self.job_M, self.configuration_M)), shape=shape)
        return sparse.csr_array((value_M, *self._places), shape=shape)

    @cached_property
    def stand_together(self) -> bool:
        """Whether every configuration has one job, every job has one, and they are sorted by job."""
        if self._places is None or len(self.job_M) > len(self) or not self.shape[0]:
            return False
        return bool((np.diff(self._places[1]) > 0).all())

    @cached_property
    def is_matrix(self) -> bool:
        """Whether the table is a full J x A matrix, row by row: each job alone on each type in their order."""
        J, A = self.shape
        if len(self) != J * A or not self.stand_together or self.has_mixes:
            return False
        return bool((self.accelerator_C.reshape(J, A) == np.arange(A)).all())

    @cached_property
    def _places(self) -> tuple[NDArray[np.int32], NDArray[np.int32]] | None:
        """Columns and row starts of a matrix with jobs as rows, if memberships are in that order already.

        All such matrices share these arrays. They are sorted, so scipy does not sort them in place.
        """
        if self.first_J is None or (self.configuration_M[1:] <= self.configuration_M[:-1]).any():
            return None
        return self.configuration_M.astype(np.int32), self.first_J.astype(np.int32)

    @fixed_property
    def first_J(self) -> Ints | None:
        """Where the memberships of each job begin, and the end of the last, if they are in the order of jobs."""
        J, A = self.shape
        if len(self.job_M) == J * A and (self.job_M.reshape(J, A) == np.arange(J)[:, None]).all():
            return np.arange(J + 1) * A
        if (self.job_M[1:] < self.job_M[:-1]).any():
            return None
        return np.concatenate([[0], np.cumsum(np.bincount(self.job_M, minlength=self.shape[0]))])

    def by_job_and_type(self, value_C: Floats) -> Floats:
        """Sum a value per configuration into a J x A matrix; it counts in full for both members of a pair.

        And for each type of a mix.
        """
        out_JA = np.zeros(self.shape)
        np.add.at(out_JA, (self.job_M, self.accelerator_C[self.configuration_M]), value_C[self.configuration_M])
        if self.has_mixes:
            c_X, a_X = np.nonzero(self.others_CA)
            np.add.at(out_JA, (self.rows.job[c_X], a_X), value_C[c_X])  # a mix has one member
        return out_JA


def _numbered(row_RX: Floats) -> Ints:
    """A number for each row; equal rows have the same."""
    order_R, number_R = np.lexsort(row_RX.T), np.zeros(len(row_RX), dtype=np.int64)
    ordered_RX = row_RX[order_R]
    number_R[order_R[1:]] = (ordered_RX[1:] != ordered_RX[:-1]).any(axis=1).cumsum()
    return number_R


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one is other or np.array_equal(one, other)


def joined(tables: Sequence[Configurations]) -> Configurations:
    """One table with the configurations of several tables of the same jobs and types, one after the other.

    The kinds of the first table hold for all. If one table has ranges, the others get ranges of width 0.
    """
    if len(tables) == 1:
        return tables[0]
    in_doubt = any(table.lower_M is not None for table in tables)
    first_C = np.cumsum([0, *(len(table) for table in tables[:-1])])
    return Configurations(
        shape=tables[0].shape,
        accelerator_C=np.concatenate([table.accelerator_C for table in tables]),
        devices_C=np.concatenate([table.devices_C for table in tables]),
        job_M=np.concatenate([table.job_M for table in tables]),
        configuration_M=np.concatenate(
            [table.configuration_M + first for table, first in zip(tables, first_C, strict=True)]
        ),
        throughput_M=np.concatenate([table.throughput_M for table in tables]),
        spread_C=np.concatenate([table.spread_C for table in tables]),
        barred_C=np.concatenate([table.barred_C for table in tables]),
        batch_C=np.concatenate([table.batch_C for table in tables]),
        own_C=np.concatenate([table.own_C for table in tables]),
        others_CA=np.concatenate(equally_wide([table.others_CA for table in tables])),
        kind_J=tables[0].kind_J,
        lower_M=np.concatenate([table.at("lower").throughput_M for table in tables]) if in_doubt else None,
        upper_M=np.concatenate([table.at("upper").throughput_M for table in tables]) if in_doubt else None,
    )
