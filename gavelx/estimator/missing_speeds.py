"""The speeds that a table lacks, estimated, and marked as estimates.

In a shipped table, only accelerator types that it does not have are estimated: what it leaves out of its own types
stays unknown. In a table of the user, every speed that a job needs and that is missing is estimated.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

from gavelx.estimator.base import LEVEL, Estimator
from gavelx.jobs import Job
from gavelx.measurements import Way
from gavelx.throughputs import Pairing, Setting, Throughputs


def missing_ways(
    jobs: Iterable[Job],
    accelerators: Sequence[str],
    table: Throughputs,
    *,
    only_new_types: bool,
    pairs: bool = False,
) -> list[Way]:
    """The ways to run of these jobs on these accelerator types of which the table has no speed.

    Of an elastic job, also those of the numbers of devices that :attr:`Elastic.widths` names.
    """
    jobs = list(jobs)
    widths = dict.fromkeys((job.job_type, job.scale_factor) for job in jobs)
    widths |= dict.fromkeys((job.job_type, width) for job in jobs if job.elastic for width in job.elastic.widths)
    known, types = set(table.accelerators), set(table.job_types)
    ways = list[Way]()
    for (job_type, width), name in product(widths, accelerators):
        if not (only_new_types and name in known and job_type in types):
            ways += [Setting(job_type, name, width, together) for together in (True, False)[: 1 + (width > 1)]]
    if pairs:
        alone = [job_type for job_type, width in widths if width == 1]
        new = [name for name in accelerators if not (only_new_types and name in known)]
        ways += [Pairing(a, b, name) for a, b, name in product(alone, alone, new)]
    return [way for way in ways if way not in table.isolated and way not in table.colocated]


def filled(table: Throughputs, missing: Sequence[Way], estimator: Estimator, level: float = LEVEL) -> Throughputs:
    """The table with estimates of the missing ways to run, each with its range; what is unknown stays so.

    ``estimator`` has observed what is known. The name of the table stays.
    """
    isolated, colocated = dict(table.isolated), dict(table.colocated)
    ranges, reasons = dict(table.ranges), dict(table.reasons)
    for way, estimate in zip(missing, estimator.estimate(missing, level), strict=True):
        if estimate.origin == "unknown":
            continue
        if isinstance(way, Setting):
            isolated[way] = estimate.steps_per_second
        else:
            colocated[way] = estimate.steps_per_second
        if estimate.steps_per_second == 0:
            reasons[way] = estimator.why_not(way) or "a job that needs no more memory failed there"
        elif estimate.origin == "estimated":
            ranges[way] = (estimate.lower, estimate.upper)
    return replace(table, isolated=isolated, colocated=colocated, ranges=ranges, reasons=reasons)
