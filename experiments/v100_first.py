"""First come, first served as the published system does it where it tells no types apart: V100s first.

It takes the last of the types with room in the order of their names, k80, p100, v100, and leaves a job where it
is. So it is faster at low load than a scheduler that knows nothing of types (``gang_fifo``) has any right to be.
Its slip, which may pile later jobs onto V100s while the other types idle, is left out here: where all jobs are
there at the start, ``makespan`` has it as a cluster of V100s alone; where they come one by one it hardly occurs.
"""

from collections.abc import Sequence

from gavelx.allocation import Allocation
from gavelx.execution import Execution
from gavelx.policies.base import Policy
from gavelx.policies.baselines.run_to_completion import start_until_one_waits
from gavelx.policies.greedy import Handout
from gavelx.snapshot import Snapshot


class _ByName(Handout):
    def emptiest(self, room: Sequence[int]) -> int:
        return max(room, key=lambda a: self.snapshot.accelerators[a])


class V100First(Policy):
    """Start jobs in order of arrival on the type with room whose name comes last, and leave them there."""

    name = "v100_first"

    def allocate(self, snapshot: Snapshot) -> Allocation:
        handout = _ByName(snapshot)
        start_until_one_waits(handout)
        return handout.allocation(Execution(backfill=False, knows_types=False))


v100_first = V100First()
