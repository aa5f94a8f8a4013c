"""Why a job waits, in a sentence that costs little: the explanation of its share is in `explain`."""

from functools import cached_property

import numpy as np

from gavelx.mechanism.protection import Protection
from gavelx.mechanism.view import JobView
from gavelx.service.state.state import JobRecord, State
from gavelx.workload import kind_that_fits

NAMED = 5
"""Jobs that a reason names at most."""
NEW = "it has just been submitted; the next round looks at it"


def failures(known: JobRecord) -> str:
    """How often a job has failed, and why the last time; nothing if it never has."""
    times = "once" if known.failures == 1 else f"{known.failures} times, last"
    return f"it failed {times}: {known.reason}" if known.failures else ""


class Waiting:
    """The reasons at one instant, of any number of jobs."""

    def __init__(self, state: State) -> None:
        self._state, self._mechanism = state, state.mechanism

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
        others = self._held_by_others(job_id) or "others are further behind"
        return f"it waits for its turn: {live.share:.1%} of its time was promised, and {others}"

    def _reserved(self, job_id: int) -> str:
        """That devices are held for this job, and which jobs it waits for; or that they are held for another."""
        mechanism = self._mechanism
        if (held := mechanism.reserved) is None:
            return ""
        name = mechanism.hardware.accelerators[held.type]
        if held.job_id == job_id:
            running = [lease.job_id for lease in mechanism.leasing.leases.values() if lease.accelerator == name]
            jobs = ", ".join(map(str, sorted(running)[:NAMED])) + (", ..." if len(running) > NAMED else "")
            return f"{held.devices} {name} are held for it as they fall free; it waits for jobs {jobs}"
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
