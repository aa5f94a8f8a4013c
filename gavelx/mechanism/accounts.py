"""What every live job has cost, and what an equal share of the cluster would have taken for the same steps.

Legend: J live jobs, A accelerator types.
"""

import numpy as np
from numpy.typing import NDArray

from gavelx.mechanism.live import LiveJobs
from gavelx.metrics import equal_share_throughput

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def charge(live: LiveJobs, j: Ints, a: Ints, seconds: Floats, usd_per_hour_A: Floats) -> None:
    """Jobs j held their devices of types a for so long. Types without a known price cost nothing here."""
    usd_A = np.nan_to_num(usd_per_hour_A) / 3600.0
    live.rows["spent_usd"][j] += seconds * usd_A[a] * live.rows["scale_factor"][j]


def account_equal_share(live: LiveJobs, devices_A: Ints, usd_per_hour_A: Floats) -> None:
    """Time and dollars that the steps done since the last time would have taken with the equal share of that time.

    And from now on, the speed and the price of the equal share among the jobs that live now.
    """
    rows = live.rows
    steps_J, speed_J = rows["steps_done"] - rows["steps_then"], rows["equal_share_speed"]
    seconds_J = np.divide(steps_J, speed_J, out=np.zeros(len(rows)), where=speed_J > 0)
    rows["equal_share_s"] += seconds_J
    rows["equal_share_usd"] += seconds_J * rows["equal_share_usd_per_s"]
    rows["steps_then"] = rows["steps_done"]
    n_J = np.full(len(rows), float(len(rows)))
    rows["equal_share_speed"] = equal_share_throughput(rows["throughput"], rows["scale_factor"], devices_A, n_J)
    usd_JA = np.tile(np.nan_to_num(usd_per_hour_A) / 3600.0, (len(rows), 1))
    held_J = equal_share_throughput(usd_JA, rows["scale_factor"], devices_A, n_J)
    rows["equal_share_usd_per_s"] = held_J * rows["scale_factor"]
