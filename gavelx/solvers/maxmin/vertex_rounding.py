"""Divide what a class of identical jobs gets so that its members mix accelerator types as little as possible.

Classes (see `collapse`) give every member the same shares, so each member mixes types as the whole class does. Any
other division that keeps each member's throughput, its time within 1 and the totals of each kind of configuration
is as good, as fair and as cheap; one in which most members stay on one type needs fewer moves.

A kind with speed T_k that the class spends n z_k of time in does the whole work of s_k = n z_k T_k / e members, of
throughput e each, in t_k = e / T_k of time per member. Lay this work on a line of length n and give each member a
piece of length 1: throughputs and totals are then right however it is laid. Time is within 1 if every *point* of
the line is: kinds with t_k <= 1 may lie there alone, slower ones only mixed with faster ones, best so that time
is just 1. Hence the greedy: mix the slowest kind that is left with the fastest one until either is used up, and
so on; when nothing slow is left, lay the others one after the other. The fast ones make up for the slow ones,
because the class's own time is within 1.

Each stretch of the line uses up a kind, so there are as many stretches as kinds at most. With K kinds all members
but K - 1 lie within one stretch: they use one kind, or two where something slow is mixed. The stretches that are
mixed are as short as can be, as the fastest kinds have the most time to spare; so no division has more members
without a slow kind, but for those K - 1.

Legend: J jobs, G classes, M classes that mix kinds, K kinds of a class (slowest first), S stretches, V cuts, I
lots (members of a class who get the same), P jobs of the M classes, A accelerator types, N pairs of a class and a
type (or waiting), C configurations, Z kinds of configurations, E those of these classes that are in use.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gavelx.configurations import Configurations
from gavelx.snapshot import WAITING, Snapshot
from gavelx.solvers.program.collapse import Classes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FULL, SLOW = 1.0 + 1e-13, 1.0 + 2e-13
"""The time of what is mixed, a hair above 1 so that rounding leaves nothing slow over; and what must be mixed."""
SAME = 1e-12
"""Part of a class by which a stretch may be longer or shorter, to end with a member instead of a crumb later."""


def sparser(snapshot: Snapshot, classes: Classes, share_C: Floats) -> Floats:
    """Shares that are as good for everyone, with few jobs on more than one type; a job that runs stays if it can.

    They are written into ``share_C``, in which members of a class must have equal shares. Members keep their
    throughputs, to 1e-12, and the totals of each kind of configuration, to rounding. Where jobs share devices
    nothing is changed, nor in classes that use one kind only. Which member gets what depends on what it runs on
    now, and then on the order of the jobs.
    """
    table = snapshot.configurations
    if classes.merge_nothing or len(table.job_M) != len(table):
        return share_C
    job_C, speed_C = _in_order(table)
    mixing = _mixing(table, classes, share_C, job_C, speed_C)
    if mixing is None:
        return share_C
    lots = _lots(mixing, *_stretches(mixing.work_MK, mixing.time_MK / mixing.limit_M[:, None]))
    row_J = mixing.row_G[classes.class_J]
    job_P = np.flatnonzero(row_J >= 0)
    lot_J = np.zeros(len(row_J), dtype=np.int64)
    lot_J[job_P] = _drawn(snapshot, mixing, lots, row_J[job_P], job_P)
    theirs_C = classes.configurations_of(job_P)
    column_C = mixing.column_Z[kind_C := classes.kinds(theirs_C)]
    at_E, column_E, kind_E = (all_C[column_C >= 0] for all_C in (theirs_C, column_C, kind_C))
    share_C[at_E] = lots.share_IK[lot_J[job_C[at_E]], column_E] * classes.unit_Z[kind_E]
    return share_C


@dataclass(frozen=True, eq=False)
class _Mixing:
    """Classes of several members that use several kinds.

    ``work_MK`` is the work of so many members, ``time_MK`` the time that a member takes for its own with that kind
    alone, ``limit_M`` the time that it has, ``type_MK`` the accelerator type. ``row_G`` and ``column_Z`` say where
    classes and kinds stand; what has nothing to do with it at -1.
    """

    count_M: Ints
    work_MK: Floats
    time_MK: Floats
    limit_M: Floats
    type_MK: Ints
    row_G: Ints
    column_Z: Ints


@dataclass(frozen=True, eq=False)
class _Lots:
    """What the members of the classes get: ``number_I`` members of class ``row_I`` spend ``share_IK`` of time."""

    row_I: Ints
    number_I: Ints
    share_IK: Floats


def _in_order(table: Configurations) -> tuple[Ints, Floats]:
    """The one job of each configuration, and its steps/s."""
    if table.stand_together:
        return table.job_M, table.throughput_M
    job_C, speed_C = np.empty_like(table.job_M), np.empty_like(table.throughput_M)
    job_C[table.configuration_M], speed_C[table.configuration_M] = table.job_M, table.throughput_M
    return job_C, speed_C


def _mixing(
    table: Configurations, classes: Classes, share_C: Floats, job_C: Ints, speed_C: Floats
) -> _Mixing | None:
    """The classes to which there is something to do, or None."""
    first_Z, G, Z = classes.first_Z, len(classes), len(classes.first_Z)
    total_Z = share_C[first_Z] * classes.number_Z
    speed_Z, class_Z = speed_C[first_Z], classes.class_J[job_C[first_Z]]
    used_Z = total_Z > 0
    mixes_G = (np.bincount(class_Z[used_Z], minlength=G) > 1) & (classes.count_G > 1)
    mixes_G[class_Z[used_Z & ~(speed_Z > 0)]] = False
    kind_E = np.flatnonzero(used_Z & mixes_G[class_Z])
    if not len(kind_E):
        return None
    kind_E = kind_E[np.lexsort((speed_Z[kind_E], class_Z[kind_E]))]
    class_M, first_M, row_E = np.unique(class_Z[kind_E], return_index=True, return_inverse=True)
    column_E = np.arange(len(kind_E)) - first_M[row_E]
    shape, at = (len(class_M), int(column_E.max()) + 1), (row_E, column_E)
    share_MK, time_MK, type_MK = np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=np.int64)
    count_M = classes.count_G[class_M]
    share_MK[at] = total_Z[kind_E] / count_M[row_E]
    throughput_M = np.bincount(row_E, share_MK[at] * speed_Z[kind_E])
    time_MK[at] = throughput_M[row_E] / speed_Z[kind_E]
    type_MK[at] = table.accelerator_C[first_Z[kind_E]]
    work_MK = np.zeros(shape)
    work_MK[at] = total_Z[kind_E] / time_MK[at]
    row_G, column_Z = np.full(G, -1), np.full(Z, -1)
    row_G[class_M], column_Z[kind_E] = np.arange(len(class_M)), column_E
    limit_M = np.maximum(1.0, share_MK.sum(axis=1))
    return _Mixing(count_M, work_MK, time_MK, limit_M, type_MK, row_G, column_Z)


def _stretches(work_MK: Floats, time_MK: Floats) -> tuple[Floats, Floats]:
    """The length of each stretch of the line, S x M, and which part of it each kind takes, S x M x K."""
    M, K = work_MK.shape
    left_MK, row_M = work_MK.copy(), np.arange(M)
    length_SM, part_SMK = np.zeros((K, M)), np.zeros((K, M, K))
    for s in range(K):
        slow_M, fast_M = (left_MK > 0).argmax(axis=1), K - 1 - (left_MK[:, ::-1] > 0).argmax(axis=1)
        at_slow, at_fast = (row_M, slow_M), (row_M, fast_M)
        pair_M = (time_MK[at_slow] > SLOW) & (time_MK[at_fast] < FULL)
        apart_M = np.where(pair_M, time_MK[at_slow] - time_MK[at_fast], 1.0)
        part_M = np.where(pair_M, (FULL - time_MK[at_fast]) / apart_M, 0.0)  # of the slow kind
        length_M = left_MK[at_fast] / (1.0 - part_M)
        slow_ends_M = pair_M & (left_MK[at_slow] < length_M * part_M)
        length_M = np.where(slow_ends_M, left_MK[at_slow] / np.where(pair_M, part_M, 1.0), length_M)
        length_SM[s], part_SMK[s][at_fast] = length_M, 1.0 - part_M
        part_SMK[s][at_slow] += part_M
        left_MK[at_slow] = np.where(slow_ends_M, 0.0, left_MK[at_slow] - length_M * part_M)
        left_MK[at_fast] = np.where(slow_ends_M, left_MK[at_fast] - length_M * (1.0 - part_M), 0.0)
    return length_SM, part_SMK


def _lots(mixing: _Mixing, length_SM: Floats, part_SMK: Floats) -> _Lots:
    """The line cut into members: those within a stretch get the same, those on a border each their own."""
    end_SM, count_M = length_SM.cumsum(axis=0), mixing.count_M
    whole_SM = np.rint(end_SM)
    end_SM = np.where(np.abs(end_SM - whole_SM) <= SAME * count_M, whole_SM, end_SM)
    end_SM[-1] = count_M
    cut_MV = np.sort(np.concatenate([np.floor(end_SM), np.ceil(end_SM)]), axis=0).T
    from_MV = np.column_stack([np.zeros(len(count_M)), cut_MV[:, :-1]])
    row_I, place_I = np.nonzero(cut_MV > from_MV)
    from_I, to_I = from_MV[row_I, place_I], cut_MV[row_I, place_I]
    work_IK, start_M = np.zeros((len(row_I), length_SM.shape[0])), np.zeros(len(count_M))
    for end_M, part_MK in zip(end_SM, part_SMK, strict=True):
        overlap_I = np.minimum(to_I, end_M[row_I]) - np.maximum(from_I, start_M[row_I])
        work_IK += np.maximum(0.0, overlap_I)[:, None] * part_MK[row_I]
        start_M = end_M
    share_IK = work_IK / (to_I - from_I)[:, None] * mixing.time_MK[row_I]
    over_I = share_IK.sum(axis=1) / (mixing.limit_M * (1.0 - 2e-15))[row_I]
    return _Lots(row_I, (to_I - from_I).astype(np.int64), share_IK / np.maximum(1.0, over_I)[:, None])


def _drawn(snapshot: Snapshot, mixing: _Mixing, lots: _Lots, row_P: Ints, job_P: Ints) -> Ints:
    """The lot of each job: one with most of its time on the type that the job runs on, as far as there are any.

    Lots that are on one type go first; jobs that run elsewhere, or wait, get what is left, all in their order.
    """
    A, number = len(snapshot.devices_A), lots.number_I
    main_I = mixing.type_MK[lots.row_I, lots.share_IK.argmax(axis=1)]
    kinds_I = np.count_nonzero(lots.share_IK, axis=1)
    order_I = np.lexsort((kinds_I, main_I, lots.row_I))
    lot_P = order_I.repeat(number[order_I])
    group_I = lots.row_I * (A + 1) + main_I
    lots_N = np.bincount(group_I, number, len(mixing.count_M) * (A + 1)).astype(np.int64)
    running_P = snapshot.running_J[job_P]
    group_P = row_P * (A + 1) + np.where(running_P == WAITING, A, running_P)
    order_P = np.argsort(group_P.astype(np.min_scalar_type(len(lots_N))), kind="stable")
    jobs_N = np.bincount(group_P, minlength=len(lots_N))
    group_P = group_P[order_P]
    rank_P = np.arange(len(order_P)) - (np.cumsum(jobs_N) - jobs_N)[group_P]
    stays_P = rank_P < lots_N[group_P]
    place_P = rank_P + (np.cumsum(lots_N) - lots_N)[group_P]
    free_P = np.ones(len(order_P), dtype=bool)
    free_P[place_P[stays_P]] = False
    place_P[~stays_P] = np.flatnonzero(free_P)
    drawn_P: Ints = np.empty(len(order_P), dtype=np.int64)
    drawn_P[order_P] = lot_P[place_P]
    return drawn_P
