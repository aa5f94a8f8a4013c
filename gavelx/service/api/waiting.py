"""Why a job waits, in a sentence that costs little: the explanation of its share is in `explain`."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gavelx.mechanism.protection import Protection
from gavelx.mechanism.view import JobView
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.convert import safe_number
from gavelx.service.state.state import JobRecord, State
from gavelx.training_report import silent_words
from gavelx.workload import kind_that_fits

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
NAMED = 5
"""Jobs that a reason names at most."""
SOON_S = 1.0
"""A job is further behind than another one by more than this."""
NEW = "it has just been submitted; the next round looks at it"


def failures(known: JobRecord) -> str:
    """How often a job has failed, and why the last time; nothing if it never has."""
    times = "once" if known.failures == 1 else f"{known.failures} times, last"
    return f"it failed {times}: {known.reason}" if known.failures else ""


def silent(report: wire.LeaseReport | None) -> str:
    """That a job which runs makes no step any more; nothing if it does, or if nothing is known."""
    if report is None or not (for_s := safe_number(report.silent_s)):
        return ""
    return silent_words(for_s, safe_number(report.usual_step_s))


def _jobs(ids: Sequence[int]) -> str:
    """Some jobs by number; of many the first ones.

    >>> _jobs([3]), _jobs([3, 4]), _jobs(range(9))
    ('job 3', 'jobs 3, 4', 'jobs 0, 1, 2, 3, 4, ...')
    """
    named = ", ".join(map(str, ids[:NAMED])) + (", ..." if len(ids) > NAMED else "")
    return f"job{'s' if len(ids) > 1 else ''} {named}"


class Waiting:
    """The reasons at one instant, of any number of jobs."""

    def __init__(self, state: State, now_s: float) -> None:
        self._state, self._mechanism, self._now_s = state, state.mechanism, now_s

    def why(self, live: JobView | None, job_id: int) -> str:
        """One sentence on a job that holds no devices; ``live`` is what the mechanism knows of it."""
        if live is None:
            return self.nowhere(job_id) or NEW
        failed = f"; {words}" if (words := failures(self._state.jobs[job_id])) else ""
        if not self._is_allocated(job_id):
            return (self.nowhere(job_id) or self.not_asked()) + failed
        if live.share > 0:
            return self.turn(live, job_id) + failed
        return (self.nowhere(job_id) or f"{self._state.policy} gives it nothing now") + failed

    def turn(self, live: JobView, job_id: int) -> str:
        """What a job waits for that was promised time; servers may have gone since."""
        if nowhere := self.nowhere(job_id):
            return nowhere
        if held := self._reserved(job_id):
            return held
        if words := self._tried_again(job_id):
            return words
        others = self._held_by_others(job_id) or self._not_free(job_id)
        return f"it waits for its turn: {live.share:.1%} of its time was promised, and {others}"

    def _tried_again(self, job_id: int) -> str:
        """When a job that failed is launched again, if that is what it waits for."""
        tries = self._mechanism.failures
        if not tries.waits(job_id, self._now_s):
            return ""
        elsewhere = ", or earlier on another server" if tries.may_begin_elsewhere(job_id) else ""
        return f"it is tried again in {tries.until_s(job_id) - self._now_s:,.0f} s{elsewhere}"

    def _not_free(self, job_id: int) -> str:
        """Which of the devices that it can use are free, and if too few: who is further behind, or holds them."""
        mechanism, width = self._mechanism, self._state.jobs[job_id].job.scale_factor
        usable = self._usable_A(job_id)
        names = [name for name, can in zip(mechanism.hardware.accelerators, usable, strict=True) if can]
        free = mechanism.free()
        if enough := [name for name in names if free[name] >= width]:
            return f"{' and '.join(enough)} is free: the next round looks at it"
        if ahead := self._further_behind(job_id, usable):
            return f"{_jobs(ahead)} {'is' if len(ahead) == 1 else 'are'} further behind"
        holders = sorted(i for i, lease in mechanism.leasing.leases.items() if lease.accelerator in names)
        held = f" ({_jobs(holders)} {'runs' if len(holders) == 1 else 'run'} there)" if holders else ""
        if width > 1 and (some := {name: free[name] for name in names if free[name]}):
            words = ", ".join(f"{count} {name}" for name, count in some.items())
            return f"of the {width} devices that it needs only {words} are free{held}"
        return f"no {' or '.join(names)} is free{held}"

    def _further_behind(self, job_id: int, usable: Bools) -> list[int]:
        """The jobs that are owed more time than this one on types that it can use, the furthest behind first."""
        live, (behind_s_J, order) = self._mechanism.live, self._owed
        mine_s = behind_s_J[live.index[job_id]] + SOON_S
        rows = order[: int(np.searchsorted(-behind_s_J[order], -mine_s))]
        rows = rows[(live.share[rows] > 0) & (live.throughput[rows][:, usable] > 0).any(axis=1)]
        ids: list[int] = live.id[rows].tolist()
        return ids

    def _usable_A(self, job_id: int) -> Bools:
        """Of each accelerator type, whether it is here and the job can run on it."""
        live, devices = self._mechanism.live, np.array(self._mechanism.hardware.devices())
        speed_A = live.speeds(devices.tolist(), np.array([live.index[job_id]]))[0]
        return np.asarray((speed_A > 0) & (devices > 0))

    @cached_property
    def _owed(self) -> tuple[Floats, Ints]:
        """By how much each live job is behind its promises, and their rows, the furthest behind first."""
        behind_s_J = np.where(self._mechanism.live.done, -np.inf, self._mechanism.service().behind_s_J)
        return behind_s_J, np.argsort(-behind_s_J, kind="stable")

    def _reserved(self, job_id: int) -> str:
        """That devices are held for this job, and which jobs it waits for; or that they are held for another."""
        mechanism = self._mechanism
        if (held := mechanism.reserved) is None:
            return ""
        name = mechanism.hardware.accelerators[held.type]
        if held.job_id == job_id:
            running = [lease.job_id for lease in mechanism.leasing.leases.values() if lease.accelerator == name]
            jobs = _jobs(sorted(running))
            return f"{held.devices} {name} are held for it as they fall free; it waits for {jobs}"
        types = {name for name, count in mechanism.free().items() if count}
        return f"free {name} are held for job {held.job_id}, which is further behind" if types == {name} else ""

    def not_asked(self) -> str:
        return (
            "the policy is thinking"
            if self._state.asked
            else "it is new: the policy is asked about it within a round"
        )

    def nowhere(self, job_id: int) -> str:
        """That it can run on none of the servers, where that is so."""
        table, job = self._mechanism.throughputs, self._state.jobs[job_id].job
        if not self._devices:
            return "no server is here"
        speeds = {name: table.get(job.job_type, name, job.scale_factor) for name in self._devices}
        if usable := [name for name, speed in speeds.items() if speed]:
            most = max(self._devices[name] for name in usable)
            if most >= job.scale_factor or kind_that_fits(job, self._devices, table) in self._mechanism.opens:
                return ""
            return f"can run nowhere: it needs {job.scale_factor} devices of a type, and {most} are here at most"
        unknown = ", ".join(name for name, speed in speeds.items() if speed is None)
        why = f"its speed is unknown on {unknown}" if unknown else f"it does not fit on {', '.join(speeds)}"
        return f"can run nowhere: {why}"

    def _is_allocated(self, job_id: int) -> bool:
        """Whether the present allocation knows the job, and there is a server."""
        live = self._mechanism.live
        j = live.index.get(job_id)
        return j is not None and bool(live.allocated[j]) and bool(self._devices)

    def _held_by_others(self, job_id: int) -> str:
        """That too many of the devices that it can use are held by jobs that are not preempted, if so."""
        if (protection := self._protection) is None:
            return ""
        mechanism, width = self._mechanism, self._state.jobs[job_id].job.scale_factor
        live, devices = mechanism.live, mechanism.hardware.devices()
        speed_A = live.speeds(devices, np.array([live.index[job_id]]))[0]
        left = [count - held for count, held in zip(devices, protection.held_A, strict=True)]
        usable = [a for a, speed in enumerate(speed_A.tolist()) if speed > 0]
        if any(left[a] >= width for a in usable):
            return ""
        names = ", ".join(mechanism.hardware.accelerators[a] for a in usable)
        return f"jobs that would lose their work hold {names}"

    @cached_property
    def _devices(self) -> dict[str, int]:
        """Devices of the types of which servers are here."""
        types = {server.accelerator for server in self._mechanism.servers()}
        return {name: count for name, count in sorted(self._mechanism.devices().items()) if name in types}

    @cached_property
    def _protection(self) -> Protection | None:
        return self._mechanism.protection()
