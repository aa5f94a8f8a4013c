"""What a job wrote."""

from collections.abc import AsyncIterator

from gavelx.rpc import wire_pb2 as wire
from gavelx.service.api.calls import Call


async def logs(call: Call, request: wire.LogsRequest) -> AsyncIterator[wire.LogChunk]:
    """Server after server; with ``follow`` until the job ends."""
    call.job(request.job_id)
    readers = call.agents.log_streams
    async for chunk in readers.read_job(request.job_id, request.offset, follow=request.follow):
        yield chunk
