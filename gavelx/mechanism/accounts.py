"""What an equal share of the cluster would have taken for the steps that every live job has done.

Legend: J live jobs, A accelerator types.
"""

import numpy as np
from numpy.typing import NDArray

from gavelx.mechanism.live import LiveJobs
from gavelx.metrics import equal_share

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def account_equal_share(live: LiveJobs, devices_A: Ints, usd_per_s_A: Floats) -> None:
    """Time and dollars that the steps done since the last time would have taken with the equal share of that time.

    And from now on, the speed and the price of the equal share among the jobs that live now.
    """
    steps_J, speed_J = live["steps_done"] - live["steps_then"], live["equal_share_speed"]
    seconds_J = np.divide(steps_J, speed_J, out=np.zeros(len(live)), where=speed_J > 0)
    live["equal_share_s"][:] += seconds_J
    live["equal_share_usd"][:] += seconds_J * live["equal_share_usd_per_s"]
    live["steps_then"][:] = live["steps_done"]
    scale_J = live["scale_factor"]
    share_JA = equal_share(scale_J, devices_A, len(live))
    live["equal_share_speed"][:] = np.nansum(live["throughput"] * share_JA, axis=1)
    live["equal_share_usd_per_s"][:] = (share_JA * usd_per_s_A).sum(axis=1) * scale_J
