"""The speeds of a snapshot, completed by estimates on accelerator types of which it has none."""

import numpy as np

from gavelx.files.configuration_rows import configurations_of, rows_of
from gavelx.job_table import kinds
from gavelx.measurements import Way
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Throughputs
from gavelx.ways_to_run import ways_to_run


def snapshot_with_estimates(snapshot: Snapshot) -> tuple[Snapshot, Throughputs]:
    """The snapshot with estimates on accelerator types of which it has no speed at all, and its speeds as a table.

    What the snapshot leaves out of its other types stays unknown.
    """
    names, known = snapshot.accelerators, snapshot.known
    speeds, ranges = _speeds_of(snapshot)
    said = Throughputs(speeds, name="of the snapshot", ranges=ranges)
    new = [name for name in names if name not in said.accelerators]
    if not new:
        return snapshot, said
    from gavelx.estimated_speeds import with_estimates  # noqa: PLC0415  # reads data sheets and estimates

    table = with_estimates(said, snapshot.jobs, new)
    ways = ways_to_run(snapshot.jobs, new, table, placements=True, sizes=True)
    new_rows = [row._replace(accelerator=names.index(new[row.accelerator])) for row in rows_of(ways)]
    if not new_rows:
        return snapshot, said
    known = configurations_of([*rows_of(known), *new_rows], known.shape)
    return snapshot.replace(known=known), table


def _speeds_of(snapshot: Snapshot) -> tuple[dict[Setting, float], dict[Way, tuple[float, float]]]:
    """The speeds of jobs alone in their own size, and the ranges around them; of several, the last one counts."""
    known, jobs = snapshot.known, snapshot.jobs
    m = np.flatnonzero(((known.members_C == 1) & known.own_C)[known.configuration_M])
    c, j = known.configuration_M[m], known.job_M[m]
    type_J, _ = kinds(jobs, "job_type")
    way_m = (type_J[j] * known.shape[1] + known.accelerator_C[c]) * 2 + known.spread_C[c]
    way_m = way_m * (known.devices_C.max(initial=0) + 1) + known.devices_C[c]
    first_W = np.unique(way_m, return_index=True)[1]
    last_W = len(m) - 1 - np.unique(way_m[::-1], return_index=True)[1]
    speeds, ranges = dict[Setting, float](), dict[Way, tuple[float, float]]()
    for at in last_W[np.argsort(first_W)].tolist():
        name, devices = snapshot.accelerators[known.accelerator_C[c[at]]], int(known.devices_C[c[at]])
        way = Setting(jobs[j[at]].job_type, name, devices, not known.spread_C[c[at]])
        speeds[way] = float(known.throughput_M[m[at]])
        lower, upper = (float(known.at(end).throughput_M[m[at]]) for end in ("lower", "upper"))
        if lower < upper:
            ranges[way] = lower, upper
    return speeds, ranges
