"""Take a job back; one that has ended stays as it is."""

from gavelx.mechanism.events import JobCancelled
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.api.calls import Call
from gavelx.service.store.records import Entry


async def cancel(call: Call, request: wire.CancelRequest) -> wire.CancelReply:
    """Durable when it is answered, with the state that the job ended in."""
    known, note = call.job(request.job_id), {"reason": f"cancelled by {call.caller.owner}"}
    await call.scheduler.ask(
        lambda now_s: [] if known.ended else [Entry(JobCancelled(now_s, request.job_id), note)]
    )
    return wire.CancelReply(state=known.ended)
