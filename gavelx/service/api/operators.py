"""What operators alone may do: take a server out of service, and let another policy decide."""

from gavelx.mechanism.events import PolicyChanged
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.api.calls import Call
from gavelx.service.store.records import Entry


async def drain(call: Call, request: wire.DrainRequest) -> wire.DrainReply:
    """No new leases on a server, and how many are still to stop there; or take it back into service."""
    await call.scheduler.ask(lambda now_s: call.agents.drain(request.server, now_s, undo=request.undo))
    machine = call.state.machine_named(request.server)
    assert machine is not None
    return wire.DrainReply(leases=len(call.state.runs.on(machine.server.id)))


async def set_policy(call: Call, request: wire.SetPolicyRequest) -> wire.SetPolicyReply:
    """Another policy decides from now on; it is loaded first, where policies are asked."""
    before, text = call.state.policy, request.policy
    _, opens = await call.scheduler.solver.load(text)
    await call.scheduler.ask(lambda now_s: [Entry(PolicyChanged(now_s, opens), {"policy": text})])
    return wire.SetPolicyReply(policy=text, before=before)
