"""Plain jobs: scripts that know nothing of leases, and begin anew each time that they are stopped."""

from collections.abc import Iterable
from dataclasses import replace
from random import Random

from gavelx.jobs import Job


def with_plain_jobs(jobs: Iterable[Job], part: float, seed: int = 0) -> tuple[Job, ...]:
    """The same jobs, this part of which saves nothing (``Job.checkpoints``).

    A job's draw depends on the seed and on its own id alone, so what is plain at one part is so at any larger one.
    """
    return tuple(
        replace(job, checkpoints=False) if Random(f"plain:{seed}:{job.id}").random() < part else job
        for job in jobs
    )
