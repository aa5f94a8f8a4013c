"""Servers that lend only some of their devices: who has to leave, for how long it stays so, what is refused."""

import asyncio
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from gavelx.mechanism.events import ServerOffers
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.store.records import Entry, entry_of, record_of
from tests.service.agents import FakeAgent, User, serving, spec, user_of
from tests.waiting import PATIENCE_S, until

LONG = 1e9


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 4 * PATIENCE_S))


def offer(devices: int, server: str = "one", notice_s: float = 60.0) -> wire.OfferRequest:
    return wire.OfferRequest(version=1, server=server, devices=devices, notice_s=notice_s)


async def until_left(user: User, devices: int) -> None:
    async def none_left() -> bool:
        return not (await user.call("Offer", offer(devices))).leases

    await until(none_left, "no job holds devices that are not lent")


def test_jobs_leave_what_is_not_lent_and_it_stays_so_over_restarts(tmp_path: Path) -> None:
    async def main() -> None:
        agent = FakeAgent("", devices=2)
        async with serving(tmp_path) as service, user_of(service) as user:
            agent.access = user.access
            agent.connect()
            await user.submit(spec(LONG), spec(LONG))
            await until(lambda: len(agent.going) == 2, "both run")
            assert (await user.call("Offer", offer(1))).leases == 1
            await until_left(user, 1)
            await until(lambda: len(agent.going) == 1, "one has left")
            (left,) = agent.going.values()
            assert list(left.launch.slots) == [0]
            server = (await user.servers())["one"]
            assert (server.devices, server.lent, server.leased) == (2, 1, 1)
            await agent.cut()
        async with serving(tmp_path) as service, user_of(service) as user:
            agent.access = user.access
            agent.connect()
            await agent.until_renewed()
            assert service.scheduler.state.mechanism.devices() == {"v100": 1}
            await user.call("Offer", offer(2))
            await until(lambda: len(agent.going) == 2, "both run again")
            await agent.cut()

    run(main())


def test_what_is_still_there_after_the_notice_is_stopped(tmp_path: Path) -> None:
    """The mechanism has it shrink; a job that does not go over in time loses its lease."""

    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user, FakeAgent(service.address) as agent:
            await user.submit(spec(LONG))
            await until(lambda: len(agent.going) == 1, "it runs")
            machine = service.scheduler.state.machine_named("one")
            assert machine is not None
            machine.lent = 0  # as if it had been told to shrink, and did not
            service.scheduler.agents._taken_back[machine.server.id] = time.monotonic()
            await until(lambda: agent.seen.launches == 2, "it is stopped, and launched again as far as is known")
            assert list(agent.going) == [2]

    run(main())


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (offer(1, "two"), grpc.StatusCode.NOT_FOUND),
        (offer(2), grpc.StatusCode.INVALID_ARGUMENT),
        (offer(1, notice_s=-1.0), grpc.StatusCode.INVALID_ARGUMENT),
        (offer(1, notice_s=float("nan")), grpc.StatusCode.INVALID_ARGUMENT),
        (offer(1, notice_s=1e9), grpc.StatusCode.INVALID_ARGUMENT),
    ],
    ids=["no such server", "too many", "negative", "nan", "for ever"],
)
def test_what_is_refused(tmp_path: Path, request_: wire.OfferRequest, code: grpc.StatusCode) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user, FakeAgent(service.address) as agent:
            await agent.until_renewed()
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await user.call("Offer", request_)
            assert error.value.code() is code
            assert not (await user.call("Offer", offer(1))).leases  # all that it has: no news

    run(main())


def test_a_server_that_comes_back_lends_no_more_than_before(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user:
            async with FakeAgent(service.address, devices=4) as agent:
                await agent.until_renewed()
                await user.call("Offer", offer(3))
            async with FakeAgent(service.address, devices=2, boot_id="another"):
                machine = lambda: service.scheduler.state.machines[0]  # noqa: E731
                await until(lambda: machine().boot_id == "another", "it is back with fewer devices")
                assert machine().lent == 2
                assert service.scheduler.state.mechanism.devices() == {"v100": 2}

    run(main())


def test_records_of_it_are_read_again() -> None:
    event = ServerOffers(5.0, 3, 2, epoch=1, number=4, notice_s=30.0)
    assert entry_of(record_of(1, Entry(event))).event == event
