"""Policies of the thesis that are not in the catalog, for the name ``experiments.thesis.policies:NAME``."""

from gavelx.allocation import Allocation
from gavelx.policies import FinishTimeFairness
from gavelx.snapshot import Snapshot

INFORMED = "experiments.thesis.policies:informed_finish_time_fairness"


class InformedFinishTimeFairness(FinishTimeFairness):
    """Finish-time fairness that knows true speeds, while its name has the simulator shuffle the types.

    The published branch has no such policy (its ``finish_time_fairness`` takes every device for a V100), yet the
    series of chapter 6 agree with it and with no other.
    """

    name = "informed_finish_time_fairness"

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return super().allocate(snapshot).with_execution(knows_types=False)


informed_finish_time_fairness = InformedFinishTimeFairness()
