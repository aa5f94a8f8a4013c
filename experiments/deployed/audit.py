"""The books of a run, simulated or deployed, kept by the simulator's ledger.

The ledger hears when each lease was held and how far its job came, and finds what cannot be: a device in two
leases, a gang in part, a device that is not there, a step for which there was no time, a bill that is not time
times price.
"""

from collections.abc import Iterable, Mapping
from math import isfinite

from gavelx.cluster import Server
from gavelx.jobs import Job
from gavelx.mechanism.history import Held, History
from gavelx.mixes import speed_on
from gavelx.prices import Prices
from gavelx.simulator.ledger import Ledger, usd_between
from gavelx.throughputs import Throughputs


def audit(
    history: History,
    jobs: Iterable[Job],
    servers: Iterable[Server],
    prices: Prices,
    table: Throughputs | None = None,
) -> Ledger:
    """Enter all leases, and return the books. With a table, nobody may have been faster than it says.

    Raises :class:`LedgerError` for what does not add up.
    """
    books, job_of = Ledger(usd_between(prices, ())), {job.id: job for job in jobs}
    steps: dict[int, float] = dict.fromkeys(job_of, 0.0)
    for server in servers:
        books.joined(server)
    busy_s: dict[int, float] = {}
    for held, begins in _in_order(history.leases):
        lease, job = held.lease, job_of[held.lease.job_id]
        if begins:
            left = job.total_steps - steps[job.id]
            pace = _pace(held, job, held.steps_done - steps[job.id], table)
            busy_s[lease.id] = min(held.held_s, left / pace) if pace > 0 else 0.0
            books.started(held.start_s, lease, job, pace)
        else:
            books.ended(held.end_s, lease.id, busy_s[lease.id], held.steps_done, failed=held.failed)
            steps[job.id] = held.steps_done
    return books


def _in_order(leases: Iterable[Held]) -> list[tuple[Held, bool]]:
    """Beginnings and ends in order of time; at one time ends come first, but for a lease that was not held."""
    moments = []
    for held in leases:
        if not isfinite(held.end_s):
            raise AssertionError(f"lease {held.lease.id} of job {held.lease.job_id} is held to this day")
        if held.held_s > 0:
            moments += [(held.start_s, 1, held.lease.id, held), (held.end_s, 0, held.lease.id, held)]
    return [(held, bool(begins)) for _, begins, _, held in sorted(moments, key=lambda moment: moment[:3])]


def _pace(held: Held, job: Job, gained: float, table: Throughputs | None) -> float:
    if table is None:
        return max(0.0, gained) / held.held_s
    how = held.lease.configuration
    return speed_on(job, how.uses, how.batch, table) or 0.0


def seconds_by_type(leases: Iterable[Held]) -> Mapping[str, float]:
    """For how long devices of each type were held."""
    seconds: dict[str, float] = {}
    for held in leases:
        for name, _ in held.lease.configuration.uses:
            seconds[name] = seconds.get(name, 0.0) + held.held_s
    return seconds
