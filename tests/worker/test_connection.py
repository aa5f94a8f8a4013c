"""The stream: it comes again whatever ends it, and carries the token."""

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest

from gavelx.rpc.channels import Access, aio_channel
from gavelx.worker.connection import attend
from gavelx.worker.devices import Devices
from gavelx.worker.emulation import sleeping_agent
from tests.waiting import until
from tests.worker.scheduler import Scheduler


def play(scene: Any, scheduler: Scheduler, *metadata: tuple[str, str]) -> None:
    async def run() -> None:
        async with scheduler:
            agent = sleeping_agent("server", Devices("cpu", ("",)))
            leave = asyncio.Event()
            task = asyncio.create_task(
                attend(agent, lambda: aio_channel(Access(scheduler.address)), leave, metadata)
            )
            await scene(scheduler, leave, task)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def test_it_carries_the_token() -> None:
    async def scene(scheduler: Scheduler, *_: Any) -> None:
        await scheduler.connected()
        assert scheduler.metadata[0]["authorization"] == "Bearer sesame"

    play(scene, Scheduler(), ("authorization", "Bearer sesame"))


class Moody(Scheduler):
    """Ends streams in every way that there is, before it serves one."""

    moods = ("abort", "raise", "return", "cancel")

    async def Attend(self, requests: Any, context: Any) -> Any:
        mood = self.moods[len(self.metadata)] if len(self.metadata) < len(self.moods) else ""
        if mood:
            self.metadata.append(mood)
        if mood == "abort":
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you?")
        elif mood == "raise":
            raise RuntimeError("a mistake in the scheduler")
        elif mood == "cancel":
            context.cancel()
        elif not mood:
            async for message in super().Attend(requests, context):
                yield message


@pytest.mark.slow
def test_whatever_ends_a_stream_another_one_begins() -> None:
    async def scene(scheduler: Scheduler, *_: Any) -> None:
        await scheduler.connected()
        assert scheduler.metadata[:4] == list(Moody.moods)

    play(scene, Moody())


def test_who_is_asked_to_leave_while_nobody_listens_leaves() -> None:
    async def scene(scheduler: Scheduler, leave: asyncio.Event, task: asyncio.Task[None]) -> None:
        await scheduler.connected()
        await scheduler.stop()
        leave.set()
        await until(task.done, "it has left")

    play(scene, Scheduler())
