"""The log cannot be written, the solver hangs or dies: leases run on, nothing is lost, callers are told."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest

from gavelx.rpc import wire_pb2 as wire
from gavelx.service.log import Log
from gavelx.service.snapshots import restore
from gavelx.service.state import State
from gavelx.service.store import LogUnavailableError
from gavelx.solvers import Settings
from tests.service.agents import FakeAgent, User, configuration, serving, spec, user_of
from tests.service.databases import database
from tests.service.running import run

LONG = 1e6
HANGS = """
import os, time
from gavelx.policies import MaxMinFairness

class Sometimes(MaxMinFairness):
    def allocate(self, snapshot):
        if os.path.exists({flag!r}):
            {does}
        return super().allocate(snapshot)

policy = Sometimes()
"""


@pytest.mark.parametrize("written", [False, True])
def test_while_the_log_cannot_be_written_nothing_is_acted_on_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    """``written``: the batch reached the disk, and only the answer was lost."""

    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user, FakeAgent(service.address) as agent:
            await user.submit(spec(LONG), spec(60.0))
            while not agent.going:
                await asyncio.sleep(0.02)
            log, write = service.log, service.log._store.write
            failed = 0

            def failing(statements: Any) -> None:
                nonlocal failed
                failed += 1
                if written and failed == 1:
                    write(statements)
                raise LogUnavailableError("the log cannot be written now: disk full")

            monkeypatch.setattr(log._store, "write", failing)
            before = log.last_sequence
            with pytest.raises(grpc.aio.AioRpcError, match="disk full") as refused:
                await user.submit(spec(70.0, request_id="mine"))
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
            lease = set(agent.going)
            await asyncio.sleep(2.5)  # longer than a lease: it was renewed
            assert set(agent.going) == lease
            assert log.last_sequence == before or written
            monkeypatch.setattr(log._store, "write", write)
            (third,) = await user.submit(spec(70.0, request_id="mine"))
            assert third == 2
            jobs = await user.until("complete", 1, third)
            assert [job.total_steps for job in jobs] == [60.0, 70.0]
            assert len(await user.jobs()) == 3
            assert not agent.seen.twice

    run(main())


@pytest.mark.parametrize("does", ["time.sleep(1000)", "os._exit(1)", "raise ValueError('my mistake')"])
def test_a_solver_that_hangs_dies_or_fails_stops_no_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    flag = tmp_path / "flag"
    (tmp_path / "sometimes.py").write_text(HANGS.format(flag=str(flag), does=does))

    async def main() -> None:
        options = {"policy": f"{tmp_path}/sometimes.py:policy", "settings": Settings(budget_s=1.0)}
        monkeypatch.setattr("gavelx.service.solving.SLACK_S", 0.5)
        async with serving(tmp_path / "state", **options) as service, user_of(service) as user:
            async with FakeAgent(service.address) as agent:
                await user.submit(spec(LONG))
                while not agent.going:
                    await asyncio.sleep(0.02)
                flag.touch()
                solver = service.scheduler.solver
                (second,) = await user.submit(spec(30.0))
                lease = set(agent.going)
                while not solver.failures:
                    assert set(agent.going) == lease
                    await asyncio.sleep(0.02)
                allocation = service.scheduler.state.allocation
                await user.until("complete", second)
                assert allocation is not None
                flag.unlink()
                (third,) = await user.submit(spec(30.0))
                await user.until("complete", third)
                assert "carried over" not in service.scheduler.state.allocation.certificate.path  # type: ignore[union-attr]
                assert solver.restarts == (0 if does.startswith("raise") else 1)

    run(main(), within_s=90.0)


def test_a_solver_that_is_killed_is_started_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, configuration=configuration()) as service, user_of(service) as user:
            async with FakeAgent(service.address):
                await user.until("complete", *await user.submit(spec()))
                process = service.scheduler.solver._process
                assert process is not None and process.pid is not None
                os.kill(process.pid, signal.SIGKILL)
                await user.until("complete", *await user.submit(spec()))

    run(main())


def test_a_database_that_is_killed_and_comes_back_has_all_that_was_answered() -> None:
    async def main() -> None:
        with database() as server:
            place = f"{server.url}/postgres"
            async with serving(place) as service, user_of(service) as user, FakeAgent(service.address) as agent:
                await user.submit(spec(LONG), spec(60.0, request_id="first"))
                while not agent.going:
                    await asyncio.sleep(0.02)
                lease = set(agent.going)
                await asyncio.to_thread(server.kill)
                with pytest.raises(grpc.aio.AioRpcError, match="cannot be written now"):
                    await user.submit(spec(70.0, request_id="second"))
                await asyncio.sleep(2.0)  # longer than a lease: it was renewed
                assert set(agent.going) == lease
                await asyncio.to_thread(server.start)
                (second,) = await _insist(user, spec(70.0, request_id="second"))
                jobs = await user.until("complete", 1, second)
                assert [job.total_steps for job in jobs] == [60.0, 70.0]
                assert len(await user.jobs()) == 3
                assert not agent.seen.twice
                configured = service.wanted
            log = Log(place, read_only=True)
            state, *_ = restore(log, lambda: State(configured))
            log.close()
            assert sorted(state.book) == [0, 1, second]

    run(main(), within_s=90.0)


async def _insist(user: User, wanted: wire.JobSpec) -> list[int]:
    while True:
        try:
            return await user.submit(wanted)
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE, error
            await asyncio.sleep(0.1)
