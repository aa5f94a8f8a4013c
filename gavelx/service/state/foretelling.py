"""What data sheets and shipped speeds say of the speeds of job types, before any lease has measured them.

Of a type that the table knows on other devices, and of one with the name of one of today's jobs
(``llama-7b-lora-bs16``): the same estimates as those of ``gavelx compare``. They take a second or two the first
time, so they are made in a thread; and they are logged, so that a replay does not make them again.
"""

import asyncio
import threading
from collections.abc import Iterable, Sequence

from gavelx.errors import UserError
from gavelx.estimated_speeds import with_estimates
from gavelx.estimator.job_names import read_job
from gavelx.jobs import Job
from gavelx.service.state.untold import Foretold, Kind
from gavelx.throughputs import Setting, Throughputs

_one_at_a_time = threading.Lock()


async def foretold(kinds: Iterable[Kind], accelerators: Sequence[str], table: Throughputs) -> list[Foretold]:
    """Speeds of these kinds of jobs on these accelerator types that the table lacks, where anything is known.

    The name of a kind may have a mark of its owner, as types of the service have: ``llama-7b-lora-bs16~1a2b3c4d``.
    """
    asked = list(dict.fromkeys(kinds))
    return await asyncio.to_thread(_foretold, asked, accelerators, table) if asked else []


def _lacks(table: Throughputs, kind: Kind, accelerators: Sequence[str]) -> bool:
    return any(Setting(plain(kind[0]), name, kind[1]) not in table.isolated for name in accelerators)


def is_known(job_type: str, table: Throughputs) -> bool:
    """Whether the table or the name says how fast such jobs are. A name that is nearly one of today's is not."""
    name = plain(job_type)
    try:
        return name in table.job_types or read_job(name) is not None
    except UserError:
        return False


def plain(job_type: str) -> str:
    """The name of a job type without the mark of its owner."""
    return job_type.partition("~")[0]


def _foretold(kinds: Sequence[Kind], accelerators: Sequence[str], table: Throughputs) -> list[Foretold]:
    kinds = [kind for kind in kinds if is_known(kind[0], table) and _lacks(table, kind, accelerators)]
    if not kinds:
        return []
    jobs = [Job(n, plain(job_type), 1.0, devices) for n, (job_type, devices) in enumerate(kinds)]
    with _one_at_a_time:
        filled = with_estimates(table, jobs, accelerators)
    rows = list[Foretold]()
    for job_type, devices in kinds:
        for name in accelerators:
            way = Setting(plain(job_type), name, devices)
            if way not in table.isolated and (speed := filled.isolated.get(way)) is not None:
                rows.append([job_type, devices, name, speed, *filled.ranges.get(way, (speed, speed))])
    return rows
