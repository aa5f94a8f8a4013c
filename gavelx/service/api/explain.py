"""Why a job waits, or runs no faster: what it was promised and has received, and what binds.

The allocation's own explanation (`gavelx.explain`) says why its share is what it is; the mechanism says what
became of the share since.
"""

import json
from typing import Any

import numpy as np

from gavelx.explain.explanation import Explanation
from gavelx.explain.sizes import size_shares, why_no_larger
from gavelx.jobs import Job
from gavelx.mechanism.view import JobView
from gavelx.metrics import known as plain
from gavelx.mixes import is_mix
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.convert import safe_number
from gavelx.service.agents.registry import AgentRegistry
from gavelx.service.api.calls import Call
from gavelx.service.api.naming import RULE
from gavelx.service.api.waiting import NEW, Waiting, failures, silent
from gavelx.service.state.state import JobRecord, State
from gavelx.throughputs import Setting

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
        "type": known.spec.get("type", job.job_type),
        "type_is": RULE if known.spec.get("named_by") else "as submitted",
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
            "total_steps": plain_steps(job),
            "spent_usd": plain(known.spent_usd),
            "speeds": _measured(state, here, job),
        }
    if (live := state.mechanism.job(job_id, now_s)) is None:
        return document | {"why": NEW} | _believed(state, job)
    document |= {
        "promised_share": live.share,
        "promised_s": live.promised_s,
        "received_s": live.received_s,
        "behind_s": live.behind_s,
        "lost_s": live.lost_s,
        "preemptible": job.preemptible,
        "protected": live.protected,
        "steps_done": live.steps_done,
        "total_steps": plain_steps(job),
        "spent_usd": plain(live.spent_usd),
    }
    document |= _believed(state, job) | {"speeds": _speeds(state, here, job_id)}
    allocated = _allocated(state, job_id)
    document |= allocated
    if (run := state.runs.latest_of(job_id)) is not None:
        document["state"] = "stopping" if run.stopping else "running"
        document["servers"] = [state.machines[part.server_id].name for part in run.parts]
        document["accelerator"] = run.lease.configuration.types
        if (report := here.progress.get(run.lease.id)) is not None and (silent_s := safe_number(report.silent_s)):
            document |= {"silent_s": silent_s, "usual_step_s": safe_number(report.usual_step_s)}
        if job.elastic is not None:
            document["size"] = {"devices": len(run.lease.devices), "batch": run.lease.configuration.batch}
    why = _why(state, here, document, live, now_s)
    document["why"] = "; ".join(filter(None, (why, failures(known) or _last_end(known))))
    return document


def plain_steps(job: Job) -> float | None:
    """Its last step; None where its user did not say."""
    return job.total_steps if job.has_length else None


def _believed(state: State, job: Job) -> dict[str, Any]:
    """How much longer it takes where its user did not say, and what it says itself."""
    mechanism, said, done = state.mechanism, 0.0, 0.0
    lengths, source = mechanism.lengths, mechanism.lengths.source(job)
    if job.has_length:
        return {}
    if (j := mechanism.live.index.get(job.id)) is None:
        left = lengths.left([job], np.zeros(1), np.zeros(1))
    else:
        left = mechanism.left(np.array([j]))
        said, done = float(mechanism.live.said_steps[j]), float(mechanism.live.steps_done[j])
        if lengths.by_training(job, mechanism.worked_s(np.array([j]))[0]):
            source = "its losses and epochs, and those of the jobs before it"
    return {
        "left_s": [float(end[0]) for end in left],
        "left_from": "its own output" if said > done > 0 else source,
        "said_steps": said or None,
    }


def _speeds(state: State, here: AgentRegistry, job_id: int) -> dict[str, Any]:
    """Steps/s on each type that is here, with an interval where it was neither told nor measured, and why not."""
    job, table = state.jobs[job_id].job, state.mechanism.throughputs
    found = {}
    for name in state.mechanism.hardware.accelerators:
        way = Setting(job.job_type, name, job.scale_factor)
        if (speed := table.isolated.get(way)) is not None:
            estimated = way in table.ranges
            origin = "estimated" if estimated else "measured" if way in state.online else "said"
            found[name] = {"steps_per_s": speed, "from": origin}
            if estimated:
                found[name]["range"] = list(table.ranges[way])
                if (rejected := here.measuring.rejected.get(way)) is not None:
                    found[name]["not_measured"] = rejected[1]
    return found | _of_mixes(state, job)


def _measured(state: State, here: AgentRegistry, job: Job) -> dict[str, Any]:
    """Steps/s that leases of such jobs measured, on each type where one ran, or why they did not."""
    found = {}
    for name in state.mechanism.hardware.accelerators:
        way = Setting(job.job_type, name, job.scale_factor)
        if (learned := state.online.learned(way)) is not None:
            found[name] = {"steps_per_s": learned.speed, "from": "measured", "leases": learned.count}
        elif (rejected := here.measuring.rejected.get(way)) is not None:
            found[name] = {"steps_per_s": None, "not_measured": rejected[1]}
    return found | _of_mixes(state, job)


def _of_mixes(state: State, job: Job) -> dict[str, Any]:
    """Steps/s that leases on several types at once measured."""
    ways = {way.accelerator: way for way in state.online if way.job_type == job.job_type and is_mix(way)}
    learned = {name: state.online.learned(way) for name, way in ways.items()}
    return {
        name: {"steps_per_s": one.speed, "from": "measured", "leases": one.count}
        for name, one in learned.items()
        if one is not None
    }


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
    names, reasons = allocation.snapshot.accelerators, explanation.reasons
    sizes = size_shares(reasons, j)
    of_sizes = {"sizes": [size._asdict() for size in sizes], "no_larger": why_no_larger(reasons, j)}
    return (of_sizes if sizes else {}) | {
        "allocation": {
            name: float(share) for name, share in zip(names, allocation.share_JA[j].tolist(), strict=True)
        },
        "steps_per_s": float(explanation.throughput_J[j]),
        "equal_share_gain": plain(float(explanation.gain_J[j])),
        "limited_by": reasons.limited_by(j),
        "one_more_device": explanation.one_more_device,
        "certificate": allocation.certificate.to_json(),
        "notes": [*allocation.notes, *([allocation.relaxation] if allocation.relaxation else [])],
    }


def _why(state: State, here: AgentRegistry, document: dict[str, Any], live: JobView, now_s: float) -> str:
    """One sentence."""
    job_id = live.job.id
    limited = document.get("limited_by", "")
    if document["state"] == "running":
        run = state.runs.latest_of(job_id)
        assert run is not None
        away = [
            state.machines[part.server_id].name
            for part in run.parts
            if (session := here.here.get(part.server_id)) is None or session.stream is None
        ]
        if away:
            return f"it was given devices on {', '.join(away)}, which is silent"
        hung = silent(here.progress.get(run.lease.id))
        return "; ".join(
            filter(None, (f"it runs, but made {hung}" if hung else "it runs", _kept(document), limited))
        )
    if document["state"] == "stopping":
        return "it was asked to stop and gives its devices up; it will go on from what it saves"
    if document["allocation"] is None or not state.mechanism.servers():
        waiting = Waiting(state, now_s)
        return waiting.nowhere(job_id) or waiting.not_asked()
    if document["promised_share"] > 0:
        return "; ".join(filter(None, (Waiting(state, now_s).turn(live, job_id), _kept(document), limited)))
    return limited or "the policy gives it nothing"


def _last_end(known: JobRecord) -> str:
    """How the last lease ended of a job that never failed: a server may not have been able to start it."""
    return f"its last lease ended: {known.reason}" if known.reason else ""


def _kept(document: dict[str, Any]) -> str:
    """That it is not preempted, and why; nothing where it may be."""
    if not document["protected"]:
        return ""
    if document["preemptible"] == "no":
        return "once it runs it is not preempted, as was asked for"
    return f"{_lost(document)}, so once it runs it is not preempted before it saves something or ends"


def _lost(document: dict[str, Any]) -> str:
    return f"it saved nothing when it was stopped, and {document['lost_s']:,.0f} s of work are lost"
