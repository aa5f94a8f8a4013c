"""What users see: the state of jobs and servers, as messages."""

import json
import time
from collections.abc import Iterable, Mapping

from gavelx.rpc import wire_pb2 as wire
from gavelx.service.attendance import Attendance
from gavelx.service.auth import Caller
from gavelx.service.runs import Run
from gavelx.service.state import State

SHOWN = 1000


def status(
    state: State, here: Attendance, request: wire.StatusRequest, caller: Caller, now_s: float
) -> wire.StatusReply:
    """Jobs that the caller may see and asked for; and all servers, which are nobody's secret."""
    limit = min(request.limit or SHOWN, 100_000)
    wanted = _wanted(state, request, caller)
    live, mechanism = state.mechanism.live, state.mechanism
    service = mechanism.service()
    received_s = dict(zip(service.job_ids, service.received_s_J.tolist(), strict=True)) if wanted else {}
    lease_of = {run.lease.job_id: run for run in state.runs.values()}
    running = int(live.running().sum())
    return wire.StatusReply(
        jobs=(_job(state, here, job_id, received_s, lease_of, now_s) for job_id in wanted[:limit]),
        servers=_servers(state, here),
        policy=state.policy,
        rounds=mechanism.rounds,
        round_s=mechanism.rules.round_s,
        waiting=len(state.live) - running,
        running=running,
        ended=sum(state.ended.values()),
        left_out=max(0, len(wanted) - limit),
        certificate_json=json.dumps(state.allocation.certificate.to_json()) if state.allocation else "",
    )


def _wanted(state: State, request: wire.StatusRequest, caller: Caller) -> list[int]:
    ids: Iterable[int] = request.job_ids or (state.book if request.ended else sorted(state.live))
    return [i for i in ids if (known := state.book.get(i)) is not None and caller.may_see(known.job.owner)]


def _job(  # noqa: PLR0917
    state: State,
    here: Attendance,
    job_id: int,
    received_s: Mapping[int, float],
    lease_of: Mapping[int, Run],
    now_s: float,
) -> wire.JobStatus:
    known = state.book[job_id]
    job, live = known.job, state.mechanism.live
    message = wire.JobStatus(
        job_id=job_id,
        name=known.spec.get("name", ""),
        owner=job.owner,
        job_type=known.spec.get("type", job.job_type),
        workers=job.scale_factor,
        state=known.ended or "waiting",
        steps_done=known.steps_done,
        total_steps=job.total_steps,
        promised_s=known.promised_s,
        received_s=known.received_s,
        submitted_s_ago=now_s - job.arrival_s,
        spent_usd=known.spent_usd,
        failures=known.failures,
        reason=known.reason,
        weight=job.weight,
        duration_s=known.ended_s - job.arrival_s if known.ended else 0.0,
        restarts=max(0, known.launches - 1),
    )
    if known.ended or (j := live.index.get(job_id)) is None:
        return message
    message.steps_done = float(live["steps_done"][j])
    message.promised_share = float(live["share"][j])
    message.promised_s, message.received_s = float(live["promised_s"][j]), received_s.get(job_id, 0.0)
    message.spent_usd = float(live["spent_usd"][j])
    if (run := lease_of.get(job_id)) is not None:
        message.state = "stopping" if run.stopping else "running"
        message.accelerator = run.lease.accelerator
        message.servers.extend(state.machines[part.server_id].name for part in run.parts)
        if (report := here.progress.get(run.lease.id)) is not None:
            message.steps_done = max(message.steps_done, min(report.steps_done, job.total_steps))
    return message


def _servers(state: State, here: Attendance) -> list[wire.ServerStatus]:
    leased: dict[int, set[int]] = {}
    for run in state.runs.values():
        for part in run.parts:
            leased.setdefault(part.server_id, set()).update(part.slots)
    messages = []
    for server_id, machine in state.machines.items():
        attendee = here.here.get(server_id)
        heard = attendee is not None and attendee.stream is not None
        condition = (
            "drained" if machine.drained and not leased.get(server_id) else "draining" if machine.drained else ""
        )
        messages.append(
            wire.ServerStatus(
                server_id=server_id,
                name=machine.name,
                accelerator=machine.server.accelerator,
                devices=machine.server.device_count,
                leased=len(leased.get(server_id, ())),
                state="lost" if machine.lost else condition or ("serving" if heard else "silent"),
                heard_s_ago=time.monotonic() - attendee.heard_s if attendee else 0.0,
            )
        )
    return messages
