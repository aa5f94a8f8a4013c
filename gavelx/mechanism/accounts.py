"""What an equal share of the cluster would have taken for the steps that every live job has done.

Legend: J live jobs, A accelerator types.
"""

import numpy as np
from numpy.typing import NDArray

from gavelx.mechanism.live import LiveJobs
from gavelx.metrics import equal_share_throughput

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
    n_J = np.full(len(live), float(len(live)))
    scale_J = live["scale_factor"]
    live["equal_share_speed"][:] = equal_share_throughput(live["throughput"], scale_J, devices_A, n_J)
    usd_JA = np.tile(usd_per_s_A, (len(live), 1))
    live["equal_share_usd_per_s"][:] = equal_share_throughput(usd_JA, scale_J, devices_A, n_J) * scale_J
