"""The live jobs, one row each, in order of submission.

Legend: J live jobs, A accelerator types.
"""

import numpy as np
from numpy.typing import NDArray

from gavelx.jobs import Job
from gavelx.snapshot import WAITING


def row_type(A: int) -> np.dtype[np.void]:
    """What is kept of a live job, on A accelerator types."""
    return np.dtype(
        [
            ("steps_done", float),
            ("scale_factor", np.int64),
            ("throughput", float, (A,)),  # steps/s, NaN where unknown
            ("share", float, (A,)),  # promised share of time
            ("allocated", bool),  # whether the present allocation knows the job
            ("received_s", float, (A,)),  # time on each type, as the priority counts it
            ("credit_s", float, (A,)),  # time promised and not received
            ("type", np.int64),  # the accelerator type it runs on, or WAITING
            ("since_s", float),  # its time on that type is accounted for until then
            ("equal_share_s", float),  # what an equal share would have taken for the steps done at the last solve
            ("equal_share_speed", float),  # steps/s of an equal share, as of the last solve
            ("equal_share_usd", float),  # the same in dollars
            ("equal_share_usd_per_s", float),
            ("spent_usd", float),  # what the devices have cost that it held
            ("steps_then", float),  # steps done at the last solve
            ("done", bool),
        ]
    )


class LiveJobs:
    """Live jobs and what is known of each: ``rows["share"]`` is a J x A matrix, and so on."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.rows: NDArray[np.void] = np.zeros(0, dtype=row_type(0))
        self.index: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.jobs)

    def add(self, job: Job, throughput_A: NDArray[np.float64]) -> None:
        """A job enters, last in order."""
        row = np.zeros(1, dtype=self.rows.dtype)
        row["scale_factor"], row["throughput"], row["type"] = job.scale_factor, throughput_A, WAITING
        self.index[job.id] = len(self.jobs)
        self.jobs.append(job)
        self.rows = np.concatenate([self.rows, row])

    def drop_done(self) -> bool:
        """Forget the jobs that are done; says whether there were any."""
        keep_J = ~self.rows["done"]
        if keep_J.all():
            return False
        self.jobs = [job for job, keep in zip(self.jobs, keep_J, strict=True) if keep]
        self.rows = self.rows[keep_J]
        self.index = {job.id: j for j, job in enumerate(self.jobs)}
        return True

    def add_type(self, throughput_J: NDArray[np.float64]) -> None:
        """A new accelerator type: one more column, in which nobody was promised or received anything."""
        A = self.rows.dtype["throughput"].shape[0]
        wider = np.zeros(len(self.rows), dtype=row_type(A + 1))
        for name in self.rows.dtype.names or ():
            if self.rows.dtype[name].shape:
                wider[name][:, :A] = self.rows[name]
            else:
                wider[name] = self.rows[name]
        wider["throughput"][:, A] = throughput_J
        self.rows = wider
