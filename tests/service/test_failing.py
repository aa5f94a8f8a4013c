"""The log cannot be written, the solver hangs or dies: leases run on, nothing is lost, callers are told."""

import asyncio
import os
import signal
import threading
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import grpc
import pytest

from gavelx.mechanism.events import LeaseEnded
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.api.server import Options, Service, StoppedError
from gavelx.service.loop import policy_process as elsewhere
from gavelx.service.state.snapshots import restore
from gavelx.service.state.state import State
from gavelx.service.store.database import LogUnavailableError
from gavelx.service.store.log import Log
from gavelx.service.store.records import Answered, entry_of
from gavelx.solvers import Settings
from tests.clocks import Clock
from tests.service.agents import PATIENT, FakeAgent, User, configuration, serving, spec, user_of
from tests.service.databases import database
from tests.service.running import run
from tests.waiting import until

LONG = 1e6
HANG = "time.sleep(1000)"
NO_TURNS = configuration(round_s=3600.0)
"""The job that runs keeps its device."""
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


@pytest.mark.slow
@pytest.mark.parametrize("written", [False, True])
def test_while_the_log_cannot_be_written_nothing_is_acted_on_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, written: bool
) -> None:
    """``written``: the batch reached the disk, and only the answer was lost."""

    async def main() -> None:
        async with (
            serving(tmp_path, configuration=NO_TURNS) as service,
            user_of(service) as user,
            FakeAgent(service.address) as agent,
        ):
            await user.submit(spec(LONG), spec(60.0))
            await agent.until_going()
            log, write = service.log, service.log._store.write
            ends = []  # of the log when a write fails: only then is there none that was begun before

            def failing(statements: Any) -> None:
                ends.append(log.last_sequence)
                if written and len(ends) == 1:
                    write(statements)
                raise LogUnavailableError("the log cannot be written now: disk full")

            monkeypatch.setattr(log._store, "write", failing)
            for _ in range(2):  # the write fails; what became of it is not known
                with pytest.raises(grpc.aio.AioRpcError, match="disk full") as refused:
                    await user.submit(spec(70.0, request_id="mine"))
                assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
            lease = set(agent.going)
            await clock.turn(2 * PATIENT.valid_for_s, agent)
            assert set(agent.going) == lease
            assert log.last_sequence == ends[0] or written
            monkeypatch.setattr(log._store, "write", write)
            (third,) = await user.submit(spec(70.0, request_id="mine"))
            assert third == 2
            await user.call("Cancel", wire.CancelRequest(version=1, job_id=0))
            jobs = await user.until("complete", 1, third)
            assert [job.total_steps for job in jobs] == [60.0, 70.0]
            assert len(await user.jobs()) == 3
            assert not agent.seen.twice

    run(main())


@pytest.mark.slow
@pytest.mark.parametrize("does", [HANG, "os._exit(1)", "raise ValueError('my mistake')"])
def test_a_solver_that_hangs_dies_or_fails_stops_no_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    flag = tmp_path / "flag"
    (tmp_path / "sometimes.py").write_text(HANGS.format(flag=str(flag), does=does))

    async def main() -> None:
        policy = f"{tmp_path}/sometimes.py:policy"
        async with serving(tmp_path / "state", policy=policy) as service, user_of(service) as user:
            async with FakeAgent(service.address) as agent:
                await user.submit(spec(LONG))
                await agent.until_going()
                solver = service.scheduler.solver
                with monkeypatch.context() as patch:
                    if does == HANG:
                        patch.setattr(solver, "settings", Settings(budget_s=0.1))
                        patch.setattr(elsewhere, "SLACK_S", 0.1)
                    flag.touch()
                    (second,) = await user.submit(spec(30.0))
                    await until(lambda: solver.failures, "an answer fails")
                    flag.unlink()
                (third,) = await user.submit(spec(30.0))
                await user.until("complete", second, third)
                said = lambda: answers(service)  # noqa: E731
                await until(lambda: "answered" in said()[said().index("carried over") :], "it answers", said)
                assert said().index("carried over") < said().index("a lease ended")
                assert solver.restarts == (0 if does.startswith("raise") else solver.failures)

    run(main())


def answers(service: Service) -> list[str]:
    """What the log says of answers and of ends of leases, in order."""
    said, log = [], Log(service.options.state, read_only=True)
    events = [entry_of(record).event for record in log.read()]
    log.close()
    for event in events:
        match event:
            case Answered():
                said.append("carried over" if "carried over" in event.answer.certificate.path else "answered")
            case LeaseEnded():
                said.append("a lease ended")
    return said


@pytest.mark.slow
def test_a_solver_that_is_killed_is_started_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path, configuration=configuration()) as service, user_of(service) as user:
            async with FakeAgent(service.address):
                await user.until("complete", *await user.submit(spec()))
                process = service.scheduler.solver._elsewhere._process
                assert process is not None and process.pid is not None
                os.kill(process.pid, signal.SIGKILL)
                await user.until("complete", *await user.submit(spec()))

    run(main())


SLOW = """
import os, pathlib, time
pathlib.Path({begun!r}).touch()
while not os.path.exists({flag!r}):
    time.sleep(0.01)
from gavelx.policies import MaxMinFairness
policy = MaxMinFairness()
"""
"""A policy that takes long to load."""


@pytest.mark.slow
def test_who_asks_for_a_policy_and_goes_away_leaves_no_answer_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next question is asked when the policy is loaded, and has its own answer."""
    asked, asking = elsewhere.PolicyProcess.asked, threading.Lock()

    def alone(*question: Any) -> Any:
        assert asking.acquire(blocking=False), "another question waits for its answer"
        try:
            return asked(*question)
        finally:
            asking.release()

    monkeypatch.setattr(elsewhere.PolicyProcess, "asked", alone)
    begun, flag = tmp_path / "begun", tmp_path / "flag"
    (tmp_path / "slow.py").write_text(SLOW.format(begun=str(begun), flag=str(flag)))

    async def main() -> None:
        async with serving(tmp_path / "state") as service, user_of(service) as user:
            async with FakeAgent(service.address):
                solver, wanted = service.scheduler.solver, f"{tmp_path}/slow.py:policy"
                caller = asyncio.create_task(
                    user.call("SetPolicy", wire.SetPolicyRequest(version=1, policy=wanted))
                )
                await until(begun.exists, "the policy is being loaded")
                caller.cancel()
                first, second = [await user.submit(spec()) for _ in range(2)]
                flag.touch()
                await user.until("complete", *first, *second)
                await until(lambda: solver.answers, "the policy has answered")
                assert (solver.failures, solver.restarts) == (0, 0), solver.last_failure

    run(main())


@pytest.mark.slow
def test_a_database_that_is_killed_and_comes_back_has_all_that_was_answered(clock: Clock) -> None:
    async def main() -> None:
        with database() as server:
            place = f"{server.url}/postgres"
            async with (
                serving(place, configuration=NO_TURNS) as service,
                user_of(service) as user,
                FakeAgent(service.address) as agent,
            ):
                await user.submit(spec(LONG), spec(60.0, request_id="first"))
                await agent.until_going()
                lease = set(agent.going)
                await asyncio.to_thread(server.kill)
                with pytest.raises(grpc.aio.AioRpcError, match="cannot be written now"):
                    await user.submit(spec(70.0, request_id="second"))
                await clock.turn(2 * PATIENT.valid_for_s, agent)
                assert set(agent.going) == lease
                await asyncio.to_thread(server.start)
                (second,) = await insist(user, spec(70.0, request_id="second"))
                await user.call("Cancel", wire.CancelRequest(version=1, job_id=0))
                jobs = await user.until("complete", 1, second)
                assert [job.total_steps for job in jobs] == [60.0, 70.0]
                assert len(await user.jobs()) == 3
                assert not agent.seen.twice
                configured = service.wanted
            log = Log(place, read_only=True)
            state, *_ = restore(log, lambda: State(configured))
            log.close()
            assert sorted(state.jobs) == [0, 1, second]

    run(main())


async def insist(user: User, wanted: wire.JobSpec) -> list[int]:
    """Submit it as soon as the log can be written."""

    async def submitted() -> list[int]:
        try:
            return await user.submit(wanted)
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE, error
            return []

    found: list[int] = await until(submitted, "the job is accepted")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("waits_for", ["a policy", "the log"])
def test_a_service_that_waits_at_its_start_may_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits_for: str
) -> None:
    begun = tmp_path / "begun"
    (tmp_path / "slow.py").write_text(SLOW.format(begun=str(begun), flag=str(tmp_path / "never")))
    policy = f"{tmp_path}/slow.py:policy" if waits_for == "a policy" else "fifo"

    def full(*_: Any) -> None:
        begun.touch()
        raise LogUnavailableError("disk full")

    async def main() -> None:
        service = Service(Options(str(tmp_path / "state"), "127.0.0.1:0", policy, lambda _: configuration()))
        if waits_for == "the log":
            monkeypatch.setattr(Log, "append", full)
            monkeypatch.setattr(Log, "settle", full)
        starting = asyncio.create_task(service.__aenter__())
        await until(begun.exists, f"it waits for {waits_for}")
        service.stop()
        with pytest.raises(StoppedError):
            await starting

    run(main())


@pytest.mark.slow
def test_a_solver_that_is_frozen_and_hears_no_large_question_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere, "STILL_S", 1)
    solver, large = elsewhere.PolicyProcess(), "x" * 10_000_000
    try:
        assert solver.asked(("load", "fifo"), 60.0)
        assert solver._process is not None and solver._process.pid is not None
        os.kill(solver._process.pid, signal.SIGSTOP)
        with pytest.raises(OSError):
            solver.asked(("load", large), 60.0)
        assert solver.asked(("load", "fifo"), 60.0)
        assert solver.restarts == 1
    finally:
        solver.stop()


def test_a_solver_may_be_stopped_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another thread, as the service ends: its process ends, too."""
    solver, start, started = elsewhere.PolicyProcess(), SpawnProcess.start, list[SpawnProcess]()

    def stopped_meanwhile(process: SpawnProcess) -> None:
        solver.stop()
        start(process)
        started.append(process)

    monkeypatch.setattr(SpawnProcess, "start", stopped_meanwhile)
    with pytest.raises(AssertionError):
        solver.asked(("load", "fifo"), 60.0)
    solver.stop()
    assert not started[0].is_alive()
