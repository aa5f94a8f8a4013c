"""What users do to a service: submit in batches, as fast as they can, ask again and again, read logs and stall."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc

from benchmarks.service.agents import quantile
from gavelx.files.throughput_tables import load_throughputs
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc import wire_pb2_grpc
from gavelx.rpc.channels import Access, aio_channel
from gavelx.simulator.random_jobs import random_jobs

COMMAND = ["python", "train.py", "--epochs", "9"]
CALL_S = 120.0


def specs(count: int, seed: int) -> list[wire.JobSpec]:
    """Jobs as the literature draws them: 26 types, a third of them gangs, half an hour to a week on a v100."""
    jobs = random_jobs(count, load_throughputs("simulation"), seed=seed, multi_gpu=True)
    return [
        wire.JobSpec(job_type=job.job_type, total_steps=job.total_steps, workers=job.scale_factor, command=COMMAND)
        for job in jobs
    ]


async def submit(address: str, jobs: Sequence[wire.JobSpec], batch: int, callers: int) -> dict[str, float]:
    """Submit all jobs in batches, from several callers at once; how long that took."""
    seconds = list[float]()
    batches = [jobs[first : first + batch] for first in range(0, len(jobs), batch)]
    async with aio_channel(Access(address)) as channel:
        stub = wire_pb2_grpc.SchedulerStub(channel)

        async def caller() -> None:
            while batches:
                request, started = wire.SubmitRequest(version=1, jobs=batches.pop()), time.perf_counter()
                await stub.Submit(request, timeout=CALL_S)
                seconds.append(time.perf_counter() - started)

        started = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(callers)))
        elapsed = time.perf_counter() - started
    seconds.sort()
    return {
        "jobs": len(jobs),
        "per_s": len(jobs) / elapsed,
        "call_p50_s": quantile(seconds, 0.5),
        "call_max_s": seconds[-1],
    }


async def status(address: str, **fields: Any) -> wire.StatusReply:
    async with aio_channel(Access(address)) as channel:
        reply: wire.StatusReply = await wire_pb2_grpc.SchedulerStub(channel).Status(
            wire.StatusRequest(version=1, **fields), timeout=CALL_S
        )
        return reply


Call = Callable[[wire_pb2_grpc.SchedulerStub], Awaitable[Any]]


async def flood(address: str, call: Call, seconds: float, callers: int, per_s: float = 1e9) -> dict[str, float]:
    """The same call again and again; how many were answered and how many refused."""
    end_s, counts = time.monotonic() + seconds, {"answered": 0, "refused": 0}

    async def caller() -> None:
        async with aio_channel(Access(address)) as channel:
            stub = wire_pb2_grpc.SchedulerStub(channel)
            while (now_s := time.monotonic()) < end_s:
                try:
                    await call(stub)
                    counts["answered"] += 1
                except grpc.aio.AioRpcError as error:
                    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, error
                    counts["refused"] += 1
                await asyncio.sleep(max(0.0, now_s + callers / per_s - time.monotonic()))

    await asyncio.gather(*(caller() for _ in range(callers)))
    return {f"{name}_per_s": count / seconds for name, count in counts.items()}


async def stall(address: str, job_ids: Sequence[int], seconds: float) -> dict[str, float]:
    """Begin to read these jobs' output, and never read on; and meanwhile read one to its end."""
    async with aio_channel(Access(address)) as channel:
        stub = wire_pb2_grpc.SchedulerStub(channel)
        calls = [stub.Logs(wire.LogsRequest(version=1, job_id=job_id, follow=True)) for job_id in job_ids]
        await asyncio.gather(*(call.read() for call in calls))
        read, started = 0, time.perf_counter()
        async for chunk in stub.Logs(wire.LogsRequest(version=1, job_id=job_ids[0])):
            assert not chunk.dropped
            read += len(chunk.text)
        read_s = time.perf_counter() - started
        await asyncio.sleep(max(0.0, seconds - read_s))
        for call in calls:
            call.cancel()
    return {"stalled_readers": len(calls), "one_reader_mb_per_s": read / 1e6 / read_s}
