"""In which sizes an elastic job has its time, and why in no larger ones: facts about an allocation.

Legend: A accelerator types, C configurations, R those of the job, S those in which it has time.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gavelx.explain.reasons import NEAR, WANTS_NO_MORE, Reasons
from gavelx.snapshot import Snapshot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class SizeShare(NamedTuple):
    """The share of time of a job in one size; ``batch`` 0: the samples in an update are as submitted."""

    accelerator: str
    devices: int
    batch: int
    share: float


def size_shares(reasons: Reasons, j: int) -> list[SizeShare]:
    """The sizes in which job j (an index) has time, by type and number of devices; empty if it is not elastic."""
    table, share_C = reasons.snapshot.configurations, reasons.allocation.share_C
    return [
        SizeShare(
            *_types_and_devices(reasons.snapshot, c),
            int(table.batch_C[c]),
            float(share_C[c]),
        )
        for c in _with_time(reasons, j).tolist()
    ]


def _types_and_devices(snapshot: Snapshot, c: int) -> tuple[str, int]:
    """The accelerator type of a configuration, or several as ``v100+k80``, and the devices of all together."""
    table = snapshot.configurations
    others = [(snapshot.accelerators[a], n) for a, n in enumerate(table.others_CA[c].tolist()) if n]
    first = snapshot.accelerators[table.accelerator_C[c]]
    return "+".join([first, *(name for name, _ in others)]), int(table.devices_C[c]) + sum(n for _, n in others)


def why_no_larger(reasons: Reasons, j: int) -> str:
    """Why job j (an index) has no time in a larger size on the types where it runs; empty if it runs nowhere."""
    snapshot, table, rows_S = reasons.snapshot, reasons.snapshot.configurations, _with_time(reasons, j)
    if not len(rows_S):
        return ""
    if "sizes" not in snapshot.opened:
        return "the policy keeps to the sizes as submitted: elastic(...) opens the others"
    mine_M = table.job_M == j
    mine_C, speed_R = table.configuration_M[mine_M], table.throughput_M[mine_M]
    use_RA, usable_R = table.devices_AC[:, mine_C].toarray().T, snapshot.usable_C[mine_C]
    full_A, free_A = (np.zeros(len(snapshot.accelerators), dtype=bool) for _ in range(2))
    for r in _widest(np.flatnonzero(np.isin(mine_C, rows_S)), use_RA):
        larger_R = usable_R & (use_RA >= use_RA[r]).all(axis=1) & (speed_R > speed_R[r])
        for more_A in use_RA[larger_R] > use_RA[r]:
            if not more_A.any():  # in other batches
                continue
            if (more_A & reasons.full_A).any():
                full_A |= more_A & reasons.full_A
            else:
                free_A |= more_A
    full, free = (
        [snapshot.accelerators[a] for a in np.flatnonzero(types_A).tolist()] for types_A in (full_A, free_A)
    )
    if free:
        return f"larger sizes are faster, and {', '.join(free)} has free devices, but {WANTS_NO_MORE}"
    if full:
        return f"larger sizes are faster, but all devices are in use: {', '.join(full)}"
    return "no larger size is faster, as far as is known"


def _widest(rows: Ints, use_RA: Floats) -> list[int]:
    """Of these rows on the same types those with most devices, one for each types."""
    found: dict[bytes, int] = {}
    for r in rows.tolist():
        types = (use_RA[r] > 0).tobytes()
        if types not in found or use_RA[r].sum() > use_RA[found[types]].sum():
            found[types] = r
    return list(found.values())


def _with_time(reasons: Reasons, j: int) -> Ints:
    """The configurations of an elastic job, alone, in which it has time, by type, devices and batch."""
    snapshot, table = reasons.snapshot, reasons.snapshot.configurations
    if snapshot.jobs[j].elastic is None:
        return np.zeros(0, dtype=np.int64)
    mine_C = table.configuration_M[table.job_M == j]
    mine_C = mine_C[(reasons.allocation.share_C[mine_C] > NEAR) & (table.members_C[mine_C] == 1)]
    order = np.lexsort((table.batch_C[mine_C], table.devices_C[mine_C], table.accelerator_C[mine_C]))
    return np.asarray(mine_C[order])
