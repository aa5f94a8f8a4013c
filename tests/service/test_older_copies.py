"""A service that was given an older copy of its log without a word: agents know better, and nothing runs twice."""

import asyncio
import logging
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest

from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.timing import Timing
from gavelx.service.store import marks
from gavelx.service.store.database import LogUnavailableError
from gavelx.service.store.log import Log
from gavelx.service.store.places import FILE, LOCK, beside
from tests.clocks import Clock
from tests.service.agents import FakeAgent, Seen, serving, spec, stopped, user_of
from tests.service.desk import Desk, Remembered
from tests.service.running import run
from tests.waiting import PATIENCE_S, until

LONG = 1e6
PATIENT = Timing(heartbeat_s=10.0, valid_for_s=60.0, grace_s=0.3)
"""Servers are waited for as long as a test takes."""


class Copy:
    """A backup of a log in a folder, and its being put back without a word: the lock file knows nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder.with_name("backup.sqlite")

    def take(self) -> None:
        with closing(sqlite3.connect(self.folder / FILE)) as source, closing(sqlite3.connect(self.file)) as copy:
            source.backup(copy)

    def put_back(self) -> None:
        shutil.copy(self.file, self.folder / FILE)
        beside(self.folder / FILE, LOCK).unlink()


@pytest.fixture
def all_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """No agent comes in while a busy disk looks for what it knows."""
    monkeypatch.setattr(marks, "PATIENCE_S", PATIENCE_S)


@pytest.mark.slow
@pytest.mark.usefixtures("all_is_looked_up")
def test_an_agent_that_knows_more_than_the_log_stops_the_service(tmp_path: Path) -> None:
    async def main() -> None:
        copy = Copy(tmp_path / "state")
        async with serving(copy.folder) as service, user_of(service) as user:
            async with FakeAgent(service.address) as agent:
                await user.until("complete", *await user.submit(spec()))
                copy.take()
                await user.until("complete", *await user.submit(spec(60.0)))
                await until(lambda: agent.log_mark == service.log.mark, "the agent knows the log's mark")
        copy.put_back()
        says = r"server one knows record \d+, which is not in it.*--restored"
        async with stopped(says, copy.folder) as service, user_of(service) as user:
            again = FakeAgent(service.address, seen=Seen())
            again.log_mark = agent.log_mark
            await user.submit(spec())
            async with again:
                await asyncio.wait_for(service.serve(), PATIENCE_S)
                for _ in range(2):  # also when it comes again: a stream may break before the reason comes through
                    await again.until_refused("the log lacks what this server was told")
                    again.refusals.clear()
                assert again.seen.launches == 0
                with pytest.raises(grpc.aio.AioRpcError, match="the log is not what it was"):
                    await user.submit(spec())
        async with serving(copy.folder, restored=True) as service, user_of(service) as user:
            assert len(await user.jobs()) == 2  # that of the backup, and the one that was accepted since
            again.access = FakeAgent(service.address).access
            async with again:
                await user.until("complete", 0, 1)

    run(main())


@pytest.mark.usefixtures("all_is_looked_up")
def test_a_log_that_begins_anew_says_which_servers_stop_jobs_of_the_old_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As when the whole folder is gone: no file there remembers that one was."""

    async def main() -> None:
        async with serving(tmp_path / "state") as service, user_of(service) as user:
            async with FakeAgent(service.address) as agent:
                await user.submit(spec(LONG))
                await agent.until_going()
                await until(lambda: agent.log_mark, "the agent knows a mark")
            assert "another log" not in caplog.text
        shutil.rmtree(tmp_path / "state")
        async with serving(tmp_path / "state") as service:
            again = FakeAgent(service.address)
            again.log_mark, again.going = agent.log_mark, agent.going
            async with again:
                await again.until_renewed()
                assert "server one was of another log, and stops the jobs of that" in caplog.text

    run(main())


@pytest.mark.slow
@pytest.mark.usefixtures("all_is_looked_up")
def test_nothing_is_launched_before_all_servers_were_asked_what_they_know(tmp_path: Path) -> None:
    """One of them runs, for a later log, the very job that this log thinks is waiting."""

    async def main() -> None:
        copy = Copy(tmp_path / "state")
        seen = Seen()
        one, two = FakeAgent("", "one", seen=seen), FakeAgent("", "two", seen=seen)
        async with serving(copy.folder, timing=PATIENT) as service, user_of(service) as user:
            for agent in (one, two):
                agent.access = FakeAgent(service.address).access
                agent.connect()
            await until(lambda: len(service.scheduler.agents.here) == 2, "both agents are in")
            copy.take()
            (job_id,) = await user.submit(spec(LONG))
            await until(lambda: one.going or two.going, "a lease runs")
            runs, idle = (one, two) if one.going else (two, one)
            await until(lambda: runs.log_mark == service.log.mark, "it knows the log's mark")
            for agent in (one, two):
                await agent.cut()
        copy.put_back()
        says = f"server {runs.name} knows record"
        async with stopped(says, copy.folder, timing=PATIENT) as service, user_of(service) as user:
            for agent in (one, two):
                agent.access = FakeAgent(service.address).access
            idle.log_mark, idle.server_id = "", -1  # it has heard nothing lately
            idle.connect()
            await until(lambda: idle.server_id >= 0, "the idle agent is in")
            assert await user.submit(spec(LONG)) == [job_id]
            await user.until("running", job_id)  # by the log; it is promised, and not sent
            here = service.scheduler.agents.here
            await until(lambda: here[idle.server_id].takes_launches, "it may be sent leases")
            assert not idle.going
            runs.connect()
            await asyncio.wait_for(service.serve(), PATIENCE_S)
        assert not idle.going and not seen.twice
        for agent in (one, two):
            await agent.cut(jobs_too=True)

    run(main())


@pytest.mark.slow
def test_a_server_that_does_not_come_back_is_waited_for_so_long_and_no_longer(
    tmp_path: Path, clock: Clock
) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service:
            async with FakeAgent(service.address, "one"), FakeAgent(service.address, "two"):
                await until(lambda: len(service.scheduler.agents.here) == 2, "both agents are in")
        async with serving(tmp_path) as service, user_of(service) as user:
            async with FakeAgent(service.address, "one") as agent:
                (job_id,) = await user.submit(spec())
                assert not agent.going
                await clock.turn(60.0, agent)
                await user.until("complete", job_id)

    run(main())


def test_a_restored_log_launches_nothing_while_servers_run_what_it_knows_nothing_of() -> None:
    async def main() -> None:
        desk = Desk()
        await desk.agent("one", 1)
        await desk.agent("two", 1)
        desk.here = type(desk.here)(desk.state, PATIENT, Remembered(desk.log), desk._post, restored=True)
        desk.submit(LONG)
        desk.wake()
        _, stream_of_one = await desk.agent("one", 1)
        busy = wire.Heartbeat(sent_s=2.0, leases=[wire.LeaseReport(lease_id=77, job_id=5)])
        two, stream_of_two = await desk.agent("two", 1, wire.FromAgent(heartbeat=busy))
        assert [launch for stream in (stream_of_one, stream_of_two) for launch in launches(stream)] == []
        desk.here.receive(two, stream_of_two, wire.FromAgent(heartbeat=wire.Heartbeat(sent_s=3.0)))
        assert len([launch for stream in (stream_of_one, stream_of_two) for launch in launches(stream)]) == 1

    run(main())


def launches(stream: Any) -> list[wire.Launch]:
    """Those that are to be sent."""
    said = []
    while not stream._queue.empty():
        said.append(stream._queue.get_nowait())
    return [message.launch for message in said if message.WhichOneof("message") == "launch"]


@pytest.mark.parametrize("says", ["ended", "refused"])
def test_a_number_that_an_agent_knows_as_another_jobs_costs_the_job_a_lease_and_no_failure(
    says: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Agents that remember no marks: they answer a launch with the end of another job's lease, or refuse it."""
    answers = {
        "ended": wire.FromAgent(
            ended=wire.Ended(report_id="x", lease_id=1, job_id=9, steps_done=7, complete=True)
        ),
        "refused": wire.FromAgent(refused=wire.Refused(lease_id=1, job_id=0, reason="known", of_another_job=True)),
    }

    async def main() -> None:
        desk = Desk()
        agent, stream = await desk.agent("one", 1)
        desk.submit(LONG)
        desk.wake()
        assert [launch.lease_id for launch in launches(stream)] == [1]
        desk.here.receive(agent, stream, answers[says])
        for _ in range(3):
            desk.settle()
            desk.now_s += 1.0
            desk.wake()
        assert [launch.lease_id for launch in launches(stream)] == [2]
        known = desk.state.jobs[0]
        assert (known.failures, known.ended, known.safe_steps) == (0, "", 0.0)

    with caplog.at_level(logging.WARNING):
        run(main())
    assert says == "refused" or "knows lease 1 of job 9, and not of job 0" in caplog.text


def test_a_mark_that_nobody_gave_out_says_nothing(tmp_path: Path) -> None:
    log, other = Log(str(tmp_path / "log")), Log(str(tmp_path / "other"))
    from tests.service.test_log import wakes

    other.append(wakes(1, 9))
    log.append(wakes(1, 3))
    sequence, check, signature = log.mark.split(".")
    forged = [other.mark, f"9.{check}.{signature}", f"{sequence}.00000000.{signature}", "9.1", "x", "9..", "é.1.2"]
    for mark in ["", log.mark, *forged]:
        log.check_mark(mark, "somebody")
    restored = log.mark
    log.close()
    again = Log(str(tmp_path / "log"), restored=True)
    again.check_mark(restored, "somebody")
    again.close()
    other.close()


def test_agents_come_in_while_the_log_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or is slow: what stands has to be renewed."""

    def away(*_: Any) -> None:
        raise LogUnavailableError("the log cannot be written now: the database is away")

    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user:
            agent = FakeAgent(service.address)
            async with agent:
                await user.submit(spec(LONG))
                await until(lambda: agent.going and agent.log_mark, "a lease runs, of this log")
                monkeypatch.setattr(service.log, "check_mark", away)
                server_id = agent.server_id
                for stream in [each.stream for each in service.scheduler.agents.here.values()]:
                    assert stream is not None
                    stream.close()
                agent.server_id = -1
                await until(lambda: agent.server_id == server_id, "the agent is itself again")
                assert agent.going

    run(main())
