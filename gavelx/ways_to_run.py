"""Every configuration of some jobs that a throughput table knows: alone, in other sizes, mixed, spread, in pairs.

Legend: J jobs, A accelerator types, T job types, P pairs, K kinds of jobs, R sizes of all kinds, C configurations.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gavelx.configurations import Configurations, joined
from gavelx.elastic import DEVICES_MOST
from gavelx.job_table import column, kinds
from gavelx.jobs import Job
from gavelx.mixes import mixes as mixes_of
from gavelx.mixes import speed_on
from gavelx.sizes import OWN_BATCH, Sized, speed
from gavelx.sizes import sizes as sizes_of
from gavelx.throughputs import Throughputs


def ways_to_run(
    jobs: Sequence[Job],
    accelerators: Sequence[str],
    throughputs: Throughputs,
    *,
    pairs: bool = False,
    placements: bool = False,
    sizes: bool = False,
    mixes: bool = False,
    devices_A: Sequence[int] | None = None,
) -> Configurations:
    """The configurations of these jobs: each job alone on each type, and more on request.

    ``placements`` adds gangs spread over servers; ``pairs`` adds all pairs of one-device jobs whose speeds on a
    shared device are known: n jobs make up to n (n - 1) / 2 pairs on each type. ``sizes`` adds the other sizes of
    elastic jobs (:func:`gavelx.sizes.sizes`), on the types where the speed of their own is known, and ``mixes``
    adds to those devices of several types at once (:func:`gavelx.mixes.mixes`), of each at most ``devices_A``. If
    the table has ranges of estimated speeds, the configurations have them too.

    A spread gang is never faster here than a consolidated one, and has no speed if the consolidated one has none:
    the mechanism consolidates a gang wherever there is room.
    """
    opened = {"pairs": pairs, "placements": placements, "sizes": sizes}
    most_A = (devices_A or [DEVICES_MOST] * len(accelerators)) if mixes else None
    if not throughputs.ranges:
        return _ways(jobs, accelerators, throughputs, throughputs, most_A=most_A, **opened)
    exact = replace(throughputs, ranges={})
    middle, lower, upper = (
        _ways(jobs, accelerators, table, exact, most_A=most_A, **opened)
        for table in (exact, throughputs.at("lower"), throughputs.at("upper"))
    )
    return replace(middle, lower_M=lower.throughput_M, upper_M=upper.throughput_M)


def _ways(
    jobs: Sequence[Job],
    accelerators: Sequence[str],
    throughputs: Throughputs,
    chosen_by: Throughputs,
    *,
    most_A: Sequence[int] | None,
    pairs: bool,
    placements: bool,
    sizes: bool,
) -> Configurations:
    """The configurations at the speeds of one table; in the sizes and mixes that are worth it by another."""
    scale_J = column(jobs, "scale_factor")
    kind_J, keys = kinds(jobs, "job_type", "scale_factor", "elastic")
    together_JA = throughputs.matrix(jobs, accelerators)
    if sizes := sizes and any(elastic is not None for _, _, elastic in keys):
        tables = [_in_all_sizes(jobs, accelerators, throughputs, chosen_by, kind_J, most_A=most_A)]
    else:
        tables = [Configurations.of_matrix(together_JA, scale_J, kind_J=kind_J)]
    if placements:
        spread_JA = np.minimum(together_JA, throughputs.matrix(jobs, accelerators, consolidated=False))
        spread_JA[scale_J == 1] = np.nan  # one device is always in one server
        tables.append(Configurations.of_matrix(spread_JA, scale_J, spread=True))
    if placements and sizes:
        tables.append(_in_all_sizes(jobs, accelerators, throughputs, chosen_by, kind_J, spread=True))
    if pairs:
        tables.append(_pairs(jobs, accelerators, throughputs))
    return joined(tables)


def _in_all_sizes(
    jobs: Sequence[Job],
    accelerators: Sequence[str],
    throughputs: Throughputs,
    chosen_by: Throughputs,
    kind_J: NDArray[np.int64],
    *,
    most_A: Sequence[int] | None = None,
    spread: bool = False,
) -> Configurations:
    """Each job alone, by type first in its own size and then in the others; ``spread``: in the others, spread.

    Mixes with at most ``most_A`` devices of each type come last, if there are to be any.
    """
    first_K = np.unique(kind_J, return_index=True)[1].tolist()
    rows_K = [
        [
            (a, *way)
            for a, name in enumerate(accelerators)
            for way in _sizes_on(jobs[j], name, throughputs, chosen_by, spread=spread)
        ]
        + ([] if most_A is None else list(_mixes_of(jobs[j], accelerators, throughputs, chosen_by, most_A)))
        for j in first_K
    ]
    length_K = np.array([len(rows) for rows in rows_K], dtype=np.int64)
    type_R, devices_R, batch_R, speed_R = (
        np.array([row[n] for rows in rows_K for row in rows], dtype=kind)
        for n, kind in enumerate((np.int64, np.int64, np.int64, float))
    )
    length_J = length_K[kind_J]
    job_C = np.repeat(np.arange(len(jobs)), length_J)
    end_J, start_K = np.cumsum(length_J), np.cumsum(length_K) - length_K
    row_C = np.arange(len(job_C)) + np.repeat(start_K[kind_J] - (end_J - length_J), length_J)
    scale_J, A = column(jobs, "scale_factor"), len(accelerators)
    others_RA = np.array([_others(row, A) for rows in rows_K for row in rows], dtype=np.int64).reshape(
        len(type_R), A
    )
    return Configurations(
        shape=(len(jobs), A),
        accelerator_C=type_R[row_C],
        devices_C=devices_R[row_C],
        job_M=job_C,
        configuration_M=np.arange(len(job_C)),
        throughput_M=speed_R[row_C],
        spread_C=np.full(len(job_C), spread),
        batch_C=batch_R[row_C],
        own_C=(devices_R[row_C] == scale_J[job_C]) & (batch_R[row_C] == OWN_BATCH) & ~others_RA[row_C].any(axis=1),
        others_CA=others_RA[row_C] if others_RA.any() else others_RA[row_C, :0],
        kind_J=kind_J,
    )


def _mixes_of(
    job: Job, accelerators: Sequence[str], throughputs: Throughputs, chosen_by: Throughputs, most_A: Sequence[int]
) -> Iterator[tuple[Any, ...]]:
    """The mixes of a job as rows: those of one type, and the devices of the others."""
    number = {name: a for a, name in enumerate(accelerators)}
    for mix in mixes_of(job, accelerators, chosen_by, most_A):
        (first, devices), *others = mix
        steps_per_s = speed_on(job, mix, OWN_BATCH, throughputs)
        assert steps_per_s is not None
        yield number[first], devices, OWN_BATCH, steps_per_s, [(number[name], count) for name, count in others]


def _others(row: tuple[Any, ...], types: int) -> list[int]:
    """Devices of each further type in a row; those that are not mixed have none."""
    others = dict(row[4]) if len(row) > 4 else {}
    return [others.get(a, 0) for a in range(types)]


def _sizes_on(
    job: Job, accelerator: str, throughputs: Throughputs, chosen_by: Throughputs, *, spread: bool
) -> Iterator[Sized]:
    """The sizes of a job on a type with their speeds, its own first; ``spread``: the others, over servers."""
    own = throughputs.get(job.job_type, accelerator, job.scale_factor)
    if own is not None and not spread:
        yield Sized(job.scale_factor, OWN_BATCH, own)
    for size in sizes_of(job, accelerator, chosen_by):
        together = speed(job, accelerator, size.devices, size.batch, throughputs)
        assert together is not None
        if not spread:
            yield Sized(size.devices, size.batch, together)
        elif size.devices > 1:
            apart = speed(job, accelerator, size.devices, size.batch, throughputs, consolidated=False)
            if apart is not None:
                yield Sized(size.devices, size.batch, min(together, apart))


def _pairs(jobs: Sequence[Job], accelerators: Sequence[str], throughputs: Throughputs) -> Configurations:
    """All pairs of one-device jobs, first by partners, then by accelerator type."""
    type_J, names = kinds(jobs, "job_type")
    speed_TTA = throughputs.beside([name for (name,) in names], accelerators)
    single_J = np.flatnonzero(column(jobs, "scale_factor") == 1)
    first, second = np.triu_indices(len(single_J), k=1)
    first_P, second_P = single_J[first], single_J[second]
    speed_PA = speed_TTA[type_J[first_P], type_J[second_P]]
    partner_PA = speed_TTA[type_J[second_P], type_J[first_P]]
    pair_C, accelerator_C = np.nonzero(~(np.isnan(speed_PA) | np.isnan(partner_PA)))
    members = np.column_stack([first_P[pair_C], second_P[pair_C]])
    speeds = np.column_stack([speed_PA[pair_C, accelerator_C], partner_PA[pair_C, accelerator_C]])
    return Configurations(
        shape=(len(jobs), len(accelerators)),
        accelerator_C=accelerator_C,
        devices_C=np.ones(len(pair_C), dtype=np.int64),
        job_M=members.ravel(),
        configuration_M=np.arange(len(pair_C)).repeat(2),
        throughput_M=speeds.ravel(),
    )
