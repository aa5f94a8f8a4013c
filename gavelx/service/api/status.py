"""What users see: the state of jobs and servers, as messages."""

import json
import time
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from gavelx.configuration import ALONE
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.convert import check_ids, safe_number
from gavelx.service.agents.registry import AgentRegistry
from gavelx.service.agents.session import AgentSession
from gavelx.service.api.auth import Caller
from gavelx.service.api.calls import Call
from gavelx.service.api.waiting import Waiting
from gavelx.service.state.state import Machine, State

Floats = NDArray[np.float64]
SHOWN, LIMIT_MAX = 1000, 100_000


class Asked:
    """What is worked out once for all jobs of a call: why they wait, how long they are believed to take, sizes."""

    def __init__(self, state: State, job_ids: Sequence[int], now_s: float) -> None:
        self.waiting, self._live = Waiting(state, now_s), state.mechanism.live
        known = [self._live.index[i] for i in job_ids if i in self._live.index]
        untold = np.intersect1d(known, self._live.untold()).astype(np.int64)
        left = zip(*(end.tolist() for end in state.mechanism.left(untold)), strict=True)
        self._left = dict(zip(untold.tolist(), left, strict=True))
        self._sizes = _sizes(state)

    def add_length(self, message: wire.JobStatus) -> None:
        """What is believed where its user did not say."""
        j = self._live.index[message.job_id]
        if (left := self._left.get(j)) is not None:
            message.said_steps = float(self._live.said_steps[j])
            message.left_s, message.left_lower_s, message.left_upper_s = left

    def add_sizes(self, message: wire.JobStatus) -> None:
        """Where it was promised time."""
        message.sizes.extend(self._sizes.get(self._live.index[message.job_id], ()))


def _sizes(state: State) -> dict[int, list[wire.SizeShare]]:
    """Of each elastic job (a row), alone: its sizes by the present allocation, the largest share first."""
    live, ways, names = state.mechanism.live, state.mechanism.accounts.ways, state.mechanism.hardware.accelerators
    found: dict[int, list[wire.SizeShare]] = {}
    elastic = np.flatnonzero(live.elastic[ways.job] & (ways.partner == ALONE))
    for way in elastic[np.argsort(-ways.share[elastic], kind="stable")].tolist():
        further = {names[a]: n for a, n in enumerate(ways.others[way].tolist()) if n}
        size = wire.SizeShare(
            accelerator="+".join([names[ways.type[way]], *further]),
            devices=int(ways.devices[way]) + sum(further.values()),
            batch=ways.batch[way],
            share=ways.share[way],
        )
        found.setdefault(int(ways.job[way]), []).append(size)
    return found


async def status(call: Call, request: wire.StatusRequest) -> wire.StatusReply:
    """Jobs that the caller may see and asked for; and all servers, which are no secret."""
    check_ids(request.job_ids)
    if len(request.job_ids) == 1:
        call.job(request.job_ids[0])
    state, here, now_s = call.state, call.agents, call.scheduler.clock.now_s()
    limit = min(request.limit or SHOWN, LIMIT_MAX)
    wanted = _wanted(state, request, call.caller)
    mechanism, asked = state.mechanism, Asked(state, wanted[:limit], now_s)
    running = mechanism.running()
    return wire.StatusReply(
        jobs=(_job(state, here, job_id, now_s, asked) for job_id in wanted[:limit]),
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


def _wanted(state: State, request: wire.StatusRequest, caller: Caller) -> Sequence[int]:
    """Ids of jobs. There may be very many: only those that were named are looked at one by one."""
    if request.job_ids:
        known = state.jobs
        return [i for i in request.job_ids if i in known and caller.may_see(known[i].job.owner)]
    if caller.role == "operator":
        return list(state.jobs if request.ended else state.live)
    owned: Iterable[int] = (state.of_owner if request.ended else state.live_of).get(caller.owner, ())
    return list(owned)


def _job(state: State, here: AgentRegistry, job_id: int, now_s: float, asked: Asked) -> wire.JobStatus:
    known = state.jobs[job_id]
    job = known.job
    message = wire.JobStatus(
        job_id=job_id,
        name=known.spec.get("name", ""),
        owner=job.owner,
        job_type=known.spec.get("type", job.job_type),
        workers=job.scale_factor,
        elasticity="" if job.elastic is None else str(job.elastic),
        state=known.ended or "waiting",
        steps_done=known.steps_done,
        total_steps=job.total_steps if job.has_length else 0.0,
        promised_s=known.promised_s,
        received_s=known.received_s,
        submitted_s_ago=now_s - job.arrival_s,
        spent_usd=known.spent_usd,
        failures=known.failures,
        reason=known.reason,
        weight=job.weight,
        duration_s=known.ended_s - job.arrival_s if known.ended else 0.0,
        restarts=max(0, known.launches - 1),
        lost_s=known.lost_s,
        determinism=known.determinism,
        order=known.order,
    )
    if known.ended:
        return message
    if (live := state.mechanism.job(job_id, now_s)) is None:
        message.reason = asked.waiting.why(None, job_id)
        return message
    asked.add_length(message)
    asked.add_sizes(message)
    message.steps_done, message.promised_share = live.steps_done, live.share
    message.promised_s, message.received_s = live.promised_s, live.received_s
    message.spent_usd, message.lost_s, message.protected = live.spent_usd, live.lost_s, live.protected
    if (run := state.runs.latest_of(job_id)) is not None:
        message.state = "stopping" if run.stopping else "running"
        message.accelerator = run.lease.configuration.types
        message.devices, message.batch = len(run.lease.devices), run.lease.configuration.batch
        message.servers.extend(state.machines[part.server_id].name for part in run.parts)
        if (report := here.progress.get(run.lease.id)) is not None:
            message.steps_done = max(message.steps_done, min(safe_number(report.steps_done), job.total_steps))
            message.silent_s, message.usual_step_s = safe_number(report.silent_s), safe_number(report.usual_step_s)
    else:
        message.reason = asked.waiting.why(live, job_id)
    return message


def _servers(state: State, here: AgentRegistry) -> Iterator[wire.ServerStatus]:
    now_s = time.monotonic()
    for server_id, machine in state.machines.items():
        parts = (part for run in state.runs.on(server_id).values() for part in run.parts)
        leased = {slot for part in parts if part.server_id == server_id for slot in part.slots}
        session, aside = here.here.get(server_id), state.mechanism.failures.aside.get(server_id)
        yield wire.ServerStatus(
            server_id=server_id,
            name=machine.name,
            accelerator=machine.server.accelerator,
            devices=machine.server.device_count,
            leased=len(leased),
            lent=machine.lent,
            state=_condition(machine, session, bool(leased), aside=aside is not None),
            reason="" if aside is None else aside.reason,
            heard_s_ago=now_s - session.heard_s if session else 0.0,
        )


def _condition(machine: Machine, session: AgentSession | None, leased: bool, *, aside: bool) -> str:
    if machine.lost:
        return "lost"
    if machine.drained:
        return "draining" if leased else "drained"
    if aside:
        return "put aside"
    return "serving" if session is not None and session.stream is not None else "silent"
