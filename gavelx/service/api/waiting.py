"""Why a job waits, in a sentence that costs little: the explanation of its share is in `explain`."""

import numpy as np

from gavelx.mechanism.view import JobView
from gavelx.service.state.state import State

NEW = "it has just been submitted; the next round looks at it"


def why_waiting(state: State, live: JobView | None, job_id: int) -> str:
    """One sentence on a job that holds no devices; ``live`` is what the mechanism knows of it."""
    if live is None:
        return nowhere(state, job_id) or NEW
    known = state.jobs[job_id]
    failed = f"; it failed {known.failures} times, last: {known.reason}" if known.failures else ""
    if not allocated(state, job_id):
        return (nowhere(state, job_id) or not_asked(state)) + failed
    if live.share > 0:
        return turn(state, live, job_id) + failed
    return (nowhere(state, job_id) or f"{state.policy} gives it nothing now") + failed


def allocated(state: State, job_id: int) -> bool:
    """Whether the present allocation knows the job, and there is a server."""
    live = state.mechanism.live
    j = live.index.get(job_id)
    return j is not None and bool(live.allocated[j]) and bool(state.mechanism.servers())


def not_asked(state: State) -> str:
    return "the policy is thinking" if state.asked else "the policy has not been asked about it yet"


def turn(state: State, live: JobView, job_id: int) -> str:
    others = held_by_others(state, job_id) or "others are further behind"
    return f"it waits for its turn: {live.share:.1%} of its time was promised, and {others}"


def nowhere(state: State, job_id: int) -> str:
    """That it can run on none of the servers, where that is so."""
    mechanism, job = state.mechanism, state.jobs[job_id].job
    if not (servers := mechanism.servers()):
        return "no server is here"
    types = sorted({server.accelerator for server in servers})
    speeds = [mechanism.throughputs.get(job.job_type, name, job.scale_factor) for name in types]
    usable = [name for name, speed in zip(types, speeds, strict=True) if speed]
    if usable:
        most = max(mechanism.devices()[name] for name in usable)
        if most >= job.scale_factor:
            return ""
        return f"can run nowhere: it needs {job.scale_factor} devices of a type, and {most} are here at most"
    unknown = [name for name, speed in zip(types, speeds, strict=True) if speed is None]
    why = f"its speed is unknown on {', '.join(unknown)}" if unknown else f"it does not fit on {', '.join(types)}"
    return f"can run nowhere: {why}"


def held_by_others(state: State, job_id: int) -> str:
    """That too many of the devices that it can use are held by jobs that are not preempted, if so."""
    mechanism, width = state.mechanism, state.jobs[job_id].job.scale_factor
    live, devices, protection = mechanism.live, mechanism.leasing.devices(), mechanism.protection()
    if protection is None:
        return ""
    speed_A = live.speeds(devices, np.array([live.index[job_id]]))[0]
    left = [count - held for count, held in zip(devices, protection.held_A, strict=True)]
    usable = [a for a, speed in enumerate(speed_A.tolist()) if speed > 0]
    if any(left[a] >= width for a in usable):
        return ""
    names = ", ".join(mechanism.leasing.accelerators[a] for a in usable)
    return f"jobs that would lose their work hold {names}"
