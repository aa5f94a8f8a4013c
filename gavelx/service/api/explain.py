"""Why a job waits, or runs no faster: what it was promised and has received, and what binds.

The allocation's own explanation (`gavelx.explain`) says why its share is what it is; the mechanism says what
became of the share since.
"""

import json
from typing import Any

import numpy as np

from gavelx.explain.explanation import Explanation
from gavelx.metrics import known as plain
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.registry import AgentRegistry
from gavelx.service.api.calls import Call
from gavelx.service.state.state import State

_explanations: dict[int, Explanation] = {}


async def explain(call: Call, request: wire.ExplainRequest) -> wire.ExplainReply:
    """Everything about one job that the caller may see, as JSON."""
    call.job(request.job_id)
    document = explained(call.state, call.agents, request.job_id, call.scheduler.clock.now_s())
    return wire.ExplainReply(explanation_json=json.dumps(document))


def explained(state: State, here: AgentRegistry, job_id: int, now_s: float) -> dict[str, Any]:
    """Everything about one job, as plain values."""
    known = state.jobs[job_id]
    job = known.job
    document: dict[str, Any] = {
        "job_id": job_id,
        "name": known.spec.get("name", ""),
        "owner": job.owner,
        "policy": state.policy,
        "state": known.ended or "waiting",
        "why": known.reason or known.ended,
        "age_s": now_s - job.arrival_s,
        "failures": known.failures,
        "launches": known.launches,
        "history": [
            {"s_ago": now_s - decision.time_s, "what": decision.what} for decision in state.stories.of(job_id)
        ],
    }
    if known.ended:
        return document | {
            "took_s": known.ended_s - job.arrival_s,
            "promised_s": known.promised_s,
            "received_s": known.received_s,
            "lost_s": known.lost_s,
            "steps_done": known.steps_done,
            "total_steps": job.total_steps,
            "spent_usd": plain(known.spent_usd),
        }
    if (live := state.mechanism.job(job_id)) is None:
        document["why"] = "it has just been submitted; the next round looks at it"
        return document
    document |= {
        "promised_share": live.share,
        "promised_s": live.promised_s,
        "received_s": live.received_s,
        "behind_s": live.behind_s,
        "lost_s": live.lost_s,
        "preemptible": job.preemptible,
        "protected": live.protected,
        "steps_done": live.steps_done,
        "total_steps": job.total_steps,
        "spent_usd": plain(live.spent_usd),
    }
    allocated = _allocated(state, job_id)
    document |= allocated
    if (run := state.runs.latest_of(job_id)) is not None:
        document["state"] = "stopping" if run.stopping else "running"
        document["servers"] = [state.machines[part.server_id].name for part in run.parts]
        document["accelerator"] = run.lease.accelerator
    document["why"] = _why(state, here, document, job_id)
    return document


def _allocated(state: State, job_id: int) -> dict[str, Any]:
    """What the present allocation says of the job."""
    allocation = state.allocation
    ids = () if allocation is None else [job.id for job in allocation.snapshot.jobs]
    if allocation is None or job_id not in ids:
        return {"allocation": None}
    explanation = _explanations.get(id(allocation))
    if explanation is None or explanation.allocation is not allocation:
        _explanations.clear()
        explanation = _explanations[id(allocation)] = Explanation(allocation)
    j = ids.index(job_id)
    names = allocation.snapshot.accelerators
    return {
        "allocation": {
            name: float(share) for name, share in zip(names, allocation.share_JA[j].tolist(), strict=True)
        },
        "steps_per_s": float(explanation.throughput_J[j]),
        "equal_share_gain": plain(float(explanation.gain_J[j])),
        "limited_by": explanation.reasons.limited_by(j),
        "one_more_device": explanation.one_more_device,
        "certificate": allocation.certificate.to_json(),
        "notes": list(allocation.notes),
    }


def _nowhere(state: State, job_id: int) -> str:
    """That it can run on none of the servers, where that is so."""
    mechanism, job = state.mechanism, state.jobs[job_id].job
    if not (servers := mechanism.servers()):
        return "no server is here"
    types = sorted({server.accelerator for server in servers})
    speeds = [mechanism.throughputs.get(job.job_type, name, job.scale_factor) for name in types]
    if any(speeds):
        return ""
    unknown = [name for name, speed in zip(types, speeds, strict=True) if speed is None]
    why = f"its speed is unknown on {', '.join(unknown)}" if unknown else f"it does not fit on {', '.join(types)}"
    return f"can run nowhere: {why}"


def _why(state: State, here: AgentRegistry, document: dict[str, Any], job_id: int) -> str:
    """One sentence."""
    limited = document.get("limited_by", "")
    if document["state"] == "running":
        run = state.runs.latest_of(job_id)
        assert run is not None
        silent = [
            state.machines[part.server_id].name
            for part in run.parts
            if (session := here.here.get(part.server_id)) is None or session.stream is None
        ]
        if silent:
            return f"it was given devices on {', '.join(silent)}, which is silent"
        return "; ".join(filter(None, ("it runs", _kept(document), limited)))
    if document["state"] == "stopping":
        return "it was asked to stop and gives its devices up; it will go on from what it saves"
    if document["allocation"] is None or not state.mechanism.servers():
        thinking = "the policy is thinking" if state.asked else "the policy has not been asked about it yet"
        return _nowhere(state, job_id) or thinking
    if document["promised_share"] > 0:
        others = _held_by_others(state, job_id) or "others are further behind"
        turn = f"it waits for its turn: {document['promised_share']:.1%} of its time was promised, and {others}"
        return "; ".join(filter(None, (turn, _kept(document), limited)))
    return limited or "the policy gives it nothing"


def _kept(document: dict[str, Any]) -> str:
    """That it is not preempted, and why; nothing where it may be."""
    if not document["protected"]:
        return ""
    if document["preemptible"] == "no":
        return "once it runs it is not preempted, as was asked for"
    return f"{_lost(document)}, so once it runs it is not preempted before it saves something or ends"


def _lost(document: dict[str, Any]) -> str:
    return f"it saved nothing when it was stopped, and {document['lost_s']:,.0f} s of work are lost"


def _held_by_others(state: State, job_id: int) -> str:
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
