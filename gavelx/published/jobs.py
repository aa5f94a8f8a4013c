"""The jobs that were submitted so far, one row each, in order of submission.

Legend: J jobs, A accelerator types.
"""

import numpy as np

from gavelx.jobs import Job
from gavelx.mechanism.columns import Bools, Columns, Floats, Ints
from gavelx.metrics import equal_share


class Jobs(Columns):
    """What is known of each job; its row stays the same."""

    of_type = frozenset({"throughput"})

    throughput: Floats  # steps/s, NaN where unknown
    total_steps: Floats
    arrival_s: Floats
    scale_factor: Ints
    kind: Ints  # jobs of one kind run equally fast everywhere

    steps_done: Floats
    saved_steps: Floats  # of these are in a checkpoint
    steps_then: Floats  # steps done when the policy was last asked
    failures: Ints  # since it last came forward
    gone: Bools  # complete, or given up

    allocated: Bools  # whether the policy has been asked about the job
    share: Floats  # of its time, promised in all
    promised_s: Floats  # time promised so far
    held_s: Floats  # time received so far
    spent_usd: Floats  # what that has cost

    equal_share_s: Floats  # what an equal share would have taken for the steps done when the policy was last asked
    equal_share_speed: Floats  # steps/s of an equal share, as of then
    equal_share_usd: Floats  # the same in dollars; NaN where a price was not known, as below
    equal_share_usd_per_s: Floats

    def __init__(self, types: int) -> None:
        super().__init__()
        self.jobs: list[Job] = []
        self.row: dict[int, int] = {}  # by job id
        self._kinds: dict[tuple[str, int], int] = {}
        for _ in range(types):
            self.add_type(throughput=np.zeros(0))

    def add(self, job: Job, throughput_A: Floats) -> int:
        """A job is submitted; its row."""
        self.jobs.append(job)
        self.row[job.id] = self.add_row(
            total_steps=job.total_steps,
            arrival_s=job.arrival_s,
            scale_factor=job.scale_factor,
            throughput=throughput_A,
            kind=self._kinds.setdefault((job.job_type, job.scale_factor), len(self._kinds)),
        )
        self.show()
        return self.row[job.id]

    def compare_with_equal_share(self, live: Ints, devices_A: Ints, usd_per_s_A: Floats) -> None:
        """Time and dollars that the steps since the last time would have taken with the equal share of then.

        And from now on, the speed and the price of the equal share among the jobs that live now.
        """
        steps_J, speed_J = (self.steps_done - self.steps_then)[live], self.equal_share_speed[live]
        seconds_J = np.divide(steps_J, speed_J, out=np.zeros(len(live)), where=speed_J > 0)
        self.equal_share_s[live] += seconds_J
        self.equal_share_usd[live] += np.where(seconds_J > 0, seconds_J * self.equal_share_usd_per_s[live], 0.0)
        self.steps_then[live] = self.steps_done[live]
        scale_J = self.scale_factor[live]
        share_JA = equal_share(scale_J, devices_A, len(live))
        self.equal_share_speed[live] = np.nansum(self.throughput[live] * share_JA, axis=1)
        there_A = np.where(devices_A > 0, usd_per_s_A, 0.0)
        self.equal_share_usd_per_s[live] = (share_JA * there_A).sum(axis=1) * scale_J
