"""What operators alone may do: take a server or its devices out of service, and let another policy decide."""

from gavelx.errors import UserError
from gavelx.mechanism.events import PolicyChanged
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.api.calls import Call
from gavelx.service.store.records import Entry

NOTICE_MAX_S = 86400.0


async def drain(call: Call, request: wire.DrainRequest) -> wire.DrainReply:
    """No new leases on a server, and how many are still to stop there; or take it back into service."""
    await call.scheduler.ask(lambda now_s: call.agents.drain(request.server, now_s, undo=request.undo))
    machine = call.state.machine_named(request.server)
    assert machine is not None
    return wire.DrainReply(leases=len(call.state.runs.on(machine.server.id)))


async def offer(call: Call, request: wire.OfferRequest) -> wire.OfferReply:
    """A server lends its first so many devices to jobs; how many leases hold one of the others still."""
    if not 0.0 <= request.notice_s <= NOTICE_MAX_S:
        problem = f"notice_s is {request.notice_s:g}"
        raise UserError(problem, expected=f"seconds from 0 to {NOTICE_MAX_S:g}")
    asked = request.server, request.devices, request.notice_s
    await call.scheduler.ask(lambda now_s: call.agents.offer(*asked, now_s))
    machine = call.state.machine_named(request.server)
    assert machine is not None
    return wire.OfferReply(leases=len(call.agents.not_lent(machine)))


async def set_policy(call: Call, request: wire.SetPolicyRequest) -> wire.SetPolicyReply:
    """Another policy decides from now on; it is loaded first, where policies are asked."""
    before, text = call.state.policy, request.policy
    _, opens = await call.scheduler.solver.load(text)
    await call.scheduler.ask(lambda now_s: [Entry(PolicyChanged(now_s, opens), {"policy": text})])
    return wire.SetPolicyReply(policy=text, before=before)
