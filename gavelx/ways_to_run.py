"""Every configuration of some jobs that a throughput table knows: alone, spread, in pairs.

Legend: J jobs, A accelerator types, T job types, P pairs.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gavelx.configurations import Configurations, joined
from gavelx.jobs import Job
from gavelx.throughputs import Throughputs


def ways_to_run(
    jobs: Sequence[Job],
    accelerators: Sequence[str],
    throughputs: Throughputs,
    *,
    pairs: bool = False,
    placements: bool = False,
) -> Configurations:
    """The configurations of these jobs: each job alone on each type, and more on request.

    ``placements`` adds gangs spread over servers; ``pairs`` adds all pairs of one-device jobs whose speeds on a
    shared device are known: n jobs make up to n (n - 1) / 2 pairs on each type. If the table has ranges of
    estimated speeds, the configurations have them too.

    A spread gang is never faster here than a consolidated one, and has no speed if the consolidated one has none:
    the mechanism consolidates a gang wherever there is room.
    """
    if throughputs.ranges:
        exact = replace(throughputs, ranges={})
        middle, lower, upper = (
            ways_to_run(jobs, accelerators, table, pairs=pairs, placements=placements)
            for table in (exact, throughputs.at("lower"), throughputs.at("upper"))
        )
        return replace(middle, lower_M=lower.throughput_M, upper_M=upper.throughput_M)
    scale_J = np.array([job.scale_factor for job in jobs], dtype=np.int64)
    number = {kind: k for k, kind in enumerate(dict.fromkeys((job.job_type, job.scale_factor) for job in jobs))}
    kind_J = np.array([number[job.job_type, job.scale_factor] for job in jobs], dtype=np.int64)
    together_JA = throughputs.matrix(jobs, accelerators)
    tables = [Configurations.of_matrix(together_JA, scale_J, kind_J=kind_J)]
    if placements:
        spread_JA = np.minimum(together_JA, throughputs.matrix(jobs, accelerators, consolidated=False))
        spread_JA[scale_J == 1] = np.nan  # one device is always in one server
        tables.append(Configurations.of_matrix(spread_JA, scale_J, spread=True))
    if pairs:
        tables.append(_pairs(jobs, accelerators, throughputs))
    return joined(tables)


def _pairs(jobs: Sequence[Job], accelerators: Sequence[str], throughputs: Throughputs) -> Configurations:
    """All pairs of one-device jobs, first by partners, then by accelerator type."""
    names = list(dict.fromkeys(job.job_type for job in jobs))
    speed_TTA = throughputs.beside(names, accelerators)
    number = {name: t for t, name in enumerate(names)}
    type_J = np.array([number[job.job_type] for job in jobs], dtype=np.int64)
    single_J = np.flatnonzero([job.scale_factor == 1 for job in jobs])
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
