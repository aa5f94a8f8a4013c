"""Speeds as the published systems take them where they do not tell types apart: those on a V100.

Legend: J jobs, M memberships.
"""

from dataclasses import replace

import numpy as np

from gavelx.policies.view import View
from gavelx.snapshot import Snapshot


def on_v100(snapshot: Snapshot, *, only_where_it_cannot_run: bool = False) -> Snapshot | None:
    """The snapshot in which jobs run everywhere, also where they cannot, as fast as on a V100.

    Past equal shares are taken at these speeds too. Pairs and spread gangs keep theirs. None where the cluster has
    no V100. For reproduction: with speeds of 0 replaced, jobs are given shares that stay idle.
    """
    table = snapshot.known
    if "v100" not in snapshot.accelerators:
        return None
    speed_J = np.nan_to_num(table.throughput_JA[:, snapshot.accelerators.index("v100")])
    replaced_M = table.throughput_M == 0 if only_where_it_cannot_run else speed_J[table.job_M] > 0
    throughput_M = np.where(table.plain_M & replaced_M, speed_J[table.job_M], table.throughput_M)
    seen = snapshot.replace(known=replace(table, throughput_M=throughput_M, lower_M=None, upper_M=None))
    true_J, seen_J = (View(each).equal_share_throughput_J for each in (snapshot, seen))
    part_J = np.divide(true_J, seen_J, out=np.ones(len(seen_J)), where=seen_J > 0)
    return seen.replace(equal_share_s_J=snapshot.equal_share_s_J * part_J)
