"""Jobs that are not drawn by the published recipe, by the name that a point has for them."""

from collections.abc import Iterator
from itertools import count
from random import Random

from gavelx.jobs import Job
from gavelx.throughputs import Throughputs

COST_TYPES = ("ResNet-50 (batch size 64)", "A3C")
"""The one gains most from a dear V100, the other is cheapest on a K80."""
DURATION_DAYS = (0.5, 1.0, 2.0, 4.0, 8.0)
SLOS = (1.2, 2.0, 10.0)
REFERENCE = "v100"


def draw_cost_jobs(throughputs: Throughputs, *, rate_per_hour: float, seed: int) -> Iterator[Job]:
    """ResNet-50 and A3C jobs of one device with deadlines, without end; they arrive at so many per hour.

    Type, duration on a V100 and SLO (the deadline is so many durations after arrival) are drawn evenly. Source:
    the cost experiment of Gavel (OSDI'20), section 7.3.
    """
    chance, arrival_s = Random(seed), 0.0
    for job_id in count():
        job_type, days, slo = chance.choice(COST_TYPES), chance.choice(DURATION_DAYS), chance.choice(SLOS)
        speed = throughputs.get(job_type, REFERENCE, 1)
        assert speed, f"{throughputs.name} has no speed of {job_type} on a {REFERENCE}"
        duration_s = days * 86_400.0
        yield Job(job_id, job_type, duration_s * speed, arrival_s=arrival_s, slo=slo, duration_s=duration_s)
        arrival_s += chance.expovariate(rate_per_hour / 3600.0)
