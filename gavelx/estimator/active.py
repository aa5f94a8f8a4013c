"""What to measure next: the speed that could change the policy's decision most.

    worth(trial) = 1/2 sum_{end} (gain(X_end) - gain(X_now)) / |gain(X_now)|

X_now is the allocation under the estimated speeds, X_end the allocation if the measured speed were at this end of
its range (lower or upper), and gain the policy's own objective at the speeds of that end. A narrow range is worth
nothing, and neither is a wide one if the configuration would be used in any case, or in none.

This is the knowledge gradient (Frazier, Powell and Dayanik, "A knowledge-gradient policy for sequential
information collection", 2008): one step of look-ahead, here with two points for the expectation. For a policy
without an objective, the worth is the change of the jobs' effective throughputs instead (mean over jobs, each
relative to its best), which is "expected model change" (Settles, "Active learning literature survey", 2009,
section 3.3); on generated clusters that saves less. Each trial takes two calls of the policy, so only the widest
``LOOKED_AT`` are tried.

Legend: J jobs, C configurations, M memberships.
"""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.asking import ask, gain_of
from gavelx.measurements import Way
from gavelx.snapshot import WAITING, Snapshot
from gavelx.throughputs import Pairing, Setting, Throughputs
from gavelx.ways_to_run import ways_to_run

Floats = NDArray[np.float64]
LOOKED_AT, FIRST_LOOKED_AT = 32, 4
WORTH_MIN = 1e-3
"""A trial that changes the objective by less than this part is not worth a lease."""
FirstOn = tuple[tuple[int, str], ...]
Trial = tuple[Way, ...]
"""The ways to run that one run measures: a job alone, or both jobs of a pair."""


class Judges(Protocol):
    """A policy that may also evaluate shares."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        """The share of time of every configuration."""

    def gain(self, snapshot: Snapshot, share_C: Floats) -> float | None:
        """The policy's own objective for these shares, larger is better; None if it has no objective."""


def trials(believed: Throughputs) -> list[Trial]:
    """Every run that would measure a speed that is not known exactly."""
    found: dict[Trial, None] = {}
    for way in believed.ranges:
        if isinstance(way, Pairing):
            other = Pairing(way.partner, way.job_type, way.accelerator)
            found[tuple(sorted({way, other}))] = None
        else:
            found[(way,)] = None
    return list(found)


def most_telling(
    policy: Judges, snapshot: Snapshot, believed: Throughputs, looked_at: int = LOOKED_AT
) -> list[tuple[float, Trial]]:
    """Trials with their worth, best first, for a policy that decides on such snapshots.

    Only speeds of the snapshot's jobs count; the snapshot's own speeds are replaced by the estimated ones. Trials
    with narrower ranges, whose worth was not computed, are left out.
    """
    now = ask(policy, _told(snapshot, believed))
    widest = sorted(_of_these(snapshot, trials(believed)), key=lambda trial: -_width(trial, snapshot, believed))
    worths = [(_worth(policy, snapshot, believed, trial, now), trial) for trial in widest[:looked_at]]
    return sorted(worths, key=lambda worth: -worth[0])


def first_leases(policy: Judges, snapshot: Snapshot, looked_at: int = FIRST_LOOKED_AT) -> FirstOn:
    """Where jobs that have not run yet should begin, so that leases measure what matters: job ids and types.

    Of each kind of jobs one begins on the type that is the most telling; without ``looked_at``, which costs two
    calls of the policy each, on the one that is least sure. On each type one job is tried at a time.
    """
    if snapshot.known.lower_M is None:
        return ()
    idle_J = (snapshot.held_s_J == 0.0) & (snapshot.running_J == WAITING)
    fresh = {
        (job.job_type, job.scale_factor): job.id
        for job, idle in zip(snapshot.jobs[::-1], idle_J[::-1].tolist(), strict=True)
        if idle
    }
    believed = _believed(snapshot, fresh)
    if not believed.ranges:
        return ()
    if looked_at:
        ordered = [
            trial for worth, trial in most_telling(policy, snapshot, believed, looked_at) if worth > WORTH_MIN
        ]
    else:
        ordered = sorted(trials(believed), key=lambda trial: -_width(trial, snapshot, believed))
    found: dict[int, str] = {}
    for (way,) in ordered:
        assert isinstance(way, Setting)
        job_id = fresh[way.job_type, way.scale_factor]
        if job_id not in found and way.accelerator not in found.values():
            found[job_id] = way.accelerator
    return tuple(found.items())


def _believed(snapshot: Snapshot, fresh: Collection[tuple[str, int]]) -> Throughputs:
    """A snapshot's speeds as a table, with the ranges of these kinds of jobs on types that have the devices."""
    known, speeds, ranges = snapshot.known, dict[Setting, float](), dict[Way, tuple[float, float]]()
    assert known.lower_M is not None
    assert known.upper_M is not None
    fits_C = known.devices_C <= snapshot.devices_A[known.accelerator_C]
    for m in np.flatnonzero(known.plain_M & fits_C[known.configuration_M]).tolist():
        job, c = snapshot.jobs[known.job_M[m]], known.configuration_M[m]
        way = Setting(job.job_type, snapshot.accelerators[known.accelerator_C[c]], job.scale_factor)
        speeds[way] = float(known.throughput_M[m])
        lower, upper = float(known.lower_M[m]), float(known.upper_M[m])
        if lower < upper and (job.job_type, job.scale_factor) in fresh:
            ranges[way] = lower, upper
    return Throughputs(speeds, {}, ranges=ranges)


def _of_these(snapshot: Snapshot, candidates: Sequence[Trial]) -> list[Trial]:
    """The trials of configurations that jobs of the snapshot can use."""
    settings = {(job.job_type, job.scale_factor) for job in snapshot.jobs}
    singles = Counter(job.job_type for job in snapshot.jobs if job.scale_factor == 1)
    together = "pairs" in snapshot.opened or bool((snapshot.known.members_C == 2).any())

    def concerns(way: Way) -> bool:
        if way.accelerator not in snapshot.accelerators:
            return False
        if isinstance(way, Setting):
            return (way.job_type, way.scale_factor) in settings
        needed = Counter((way.job_type, way.partner))
        return together and all(singles[job_type] >= count for job_type, count in needed.items())

    return [trial for trial in candidates if all(map(concerns, trial))]


def _width(trial: Trial, snapshot: Snapshot, believed: Throughputs) -> float:
    """The width of the ranges of a trial's speeds, times the number of jobs: a sum of logarithms."""
    jobs = Counter(job.job_type for job in snapshot.jobs)
    ends = ((jobs[way.job_type], *believed.ranges[way]) for way in trial if way in believed.ranges)
    return sum(count * math.log(max(upper, 1e-300) / max(lower, 1e-300)) for count, lower, upper in ends)


def _worth(policy: Judges, snapshot: Snapshot, believed: Throughputs, trial: Trial, now: Allocation) -> float:
    """Relative gain of knowing the speeds of a trial: the mean of both ends."""
    gained = 0.0
    for end in ("lower", "upper"):
        found = {way: believed.ranges[way][end == "upper"] for way in trial if way in believed.ranges}
        then = ask(policy, _told(snapshot, known_to_be(believed, found)))
        before, after = (gain_of(policy, then.snapshot, share_C) for share_C in (now.share_C, then.share_C))
        if before is None or after is None:
            gained += _moved(then, now)
        elif after > before:  # otherwise it is noise of solvers, or neither is finite
            gained += (after - before) / max(abs(before), 1e-300)
    return gained / 2


def _moved(then: Allocation, now: Allocation) -> float:
    """Change of the jobs' effective throughputs, relative to their best; at the speeds of ``then``."""
    difference_J = np.abs(then.throughput_J - replace(now, snapshot=then.snapshot).throughput_J)
    best_J = then.snapshot.configurations.throughput_JC.max(axis=1).toarray().ravel()
    return float(np.mean(difference_J / np.maximum(best_J, 1e-300)))


def known_to_be(believed: Throughputs, found: dict[Way, float]) -> Throughputs:
    """The table after these speeds have been measured."""
    isolated = {way: speed for way, speed in found.items() if isinstance(way, Setting)}
    colocated = {way: speed for way, speed in found.items() if isinstance(way, Pairing)}
    return replace(
        believed,
        isolated={**believed.isolated, **isolated},
        colocated={**believed.colocated, **colocated},
        ranges={way: bounds for way, bounds in believed.ranges.items() if way not in found},
    )


def _told(snapshot: Snapshot, believed: Throughputs) -> Snapshot:
    """The snapshot with these speeds and the kinds of configuration that it had."""
    pairs, placements = bool((snapshot.known.members_C == 2).any()), bool(snapshot.known.spread_C.any())
    known = ways_to_run(snapshot.jobs, snapshot.accelerators, believed, pairs=pairs, placements=placements)
    return snapshot.replace(known=known)
