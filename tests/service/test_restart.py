"""A service that is killed at any moment starts again where it was: everything answered is there."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from gavelx.prices import Prices
from gavelx.rpc.ports import free_port
from gavelx.service.api.server import Service
from gavelx.service.state.plain import FORMAT, from_plain, to_plain
from gavelx.service.state.snapshots import SnapshotMaker, restore
from gavelx.service.state.state import State
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.database import LogUnavailableError
from gavelx.service.store.log import Log
from tests.clocks import Clock
from tests.service.agents import PATIENT, FakeAgent, Seen, User, configuration, serving, spec, user_of
from tests.service.running import run
from tests.waiting import PATIENCE_S, until


def plain(state: State) -> dict[str, Any]:
    """What is to be equal, to the bit."""
    mechanism, live = state.mechanism, state.mechanism.live
    columns = {name: getattr(live, name).tobytes() for name in live.kinds}
    ways = {
        name: getattr(mechanism.accounts.ways, name).tobytes()
        for name in ("job", "partner", "type", "share", "credit_s")
    }
    return {
        **columns,
        **ways,
        "jobs": live.jobs,
        "leases": mechanism.leasing.leases,
        "servers": mechanism.hardware.servers,
        "rounds": (
            mechanism.rounds,
            mechanism._round_end_s,
            mechanism._trigger.pending_since_s,
            mechanism._trigger.last_s,
        ),
        "book": repr(state.jobs),  # in which a NaN is equal to itself
        "machines": state.machines,
        "runs": state.runs,
        "wakes": state.wakes,
        "policy": (state.policy, mechanism.opens),
        "requests": state.of_request,
        "ended": (state.ended, state.live),
        "share": None if state.allocation is None else state.allocation.share_C.tobytes(),
        "asked": None if state.asked is None else state.asked.time_s,
    }


async def a_snapshot(service: Service) -> None:
    """As one is made while the loop runs: elsewhere, from the log."""
    service.scheduler._begin_snapshot()
    assert service.scheduler._snapshotting is not None
    await service.scheduler._snapshotting


@pytest.mark.slow
def test_replay_gives_the_same_state_from_the_beginning_and_from_a_snapshot(place: str, clock: Clock) -> None:
    async def main() -> None:
        async with serving(place, configuration=configuration(round_s=0.3)) as service, user_of(service) as user:
            one, two = FakeAgent(service.address), FakeAgent(service.address, "two", devices=2)
            async with one, two, FakeAgent(service.address, "slow", accelerator="k80") as slow:
                done = await user.submit(*(spec(steps=30.0 + n) for n in range(6)))
                await user.submit(*(spec(steps=1e6, workers=2, request_id=f"r{n}") for n in range(2)))
                await a_snapshot(service)
                await user.until("complete", *done)
                await two.cut(jobs_too=True)
                await user.submit(spec(steps=1e6))
                await clock.turn(PATIENT.valid_for_s + PATIENT.surely_over_s, one, slow)
                await user.until_server("lost", "two")
            scheduler = service.scheduler
            scheduler.close()
            await service._running
            expected = plain(scheduler.state)
            sequence = scheduler.log.last_sequence
            assert {"WorkerLost", "Answered", "Progress"} <= {r.kind for r in scheduler.log.read()}
        log = Log(place)
        last = f"delete from snapshots where sequence = {sequence}"
        log._store.write(lambda connection: connection.exec_driver_sql(last))
        from_snapshot, _, few = restore(log, lambda: State(configuration(round_s=0.3)))
        log._store.write(lambda connection: connection.exec_driver_sql("delete from snapshots"))
        from_nothing, _, many = restore(log, lambda: State(configuration(round_s=0.3)))
        assert 0 < few < many == sequence
        for state in (from_snapshot, from_nothing):
            found = plain(state)
            assert {name for name in expected if found[name] != expected[name]} == set()
        log.close()

    run(main())


@pytest.mark.slow
def test_a_snapshot_is_made_elsewhere_while_the_service_goes_on(place: str) -> None:
    async def main() -> None:
        async with serving(place) as service, user_of(service) as user:
            await user.submit(*(spec() for _ in range(20)))
            scheduler = service.scheduler

            async def up_to_date() -> tuple[int, bytes] | None:
                made = await SnapshotMaker(place).make()
                assert made is not None
                await scheduler.ask(lambda now_s: [])  # what was written before is applied by now
                return made if made[0] == scheduler.log.last_sequence else None

            made = await until(up_to_date, "a snapshot while nothing happens")
            assert plain(from_plain(made[1], like=State(configuration()))) == plain(scheduler.state)
            await a_snapshot(service)
            await user.submit(spec())
            beside = Log(place, read_only=True)
            found = beside.snapshot(FORMAT)
            assert found is not None and found[0] >= made[0]
            beside.close()

    run(main())


@pytest.mark.slow
def test_a_snapshot_that_cannot_be_made_is_done_without(tmp_path: Path) -> None:
    async def main() -> None:
        assert await SnapshotMaker(str(tmp_path / "nowhere")).make() is None

    run(main())


def test_a_job_that_did_not_reach_the_log_is_in_no_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service stops while the log cannot be written; afterwards the same request is a new job."""

    def full(*_: object) -> None:
        raise LogUnavailableError("the disk is full")

    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user:
            await user.submit(spec())
            with monkeypatch.context() as patch:
                patch.setattr(service.log, "append", full)
                patch.setattr(service.log, "settle", full)
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await user.submit(spec(request_id="r"))
                assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
                service.scheduler.close()
                await service._running
        async with serving(tmp_path) as service, user_of(service) as user:
            (job_id,) = await user.submit(spec(request_id="r"))
            assert [job.job_id for job in await user.jobs(job_id)] == [job_id]

    run(main())


def test_a_snapshot_that_cannot_be_read_is_ignored(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user:
            await user.submit(spec())
        log = Log(str(tmp_path))
        sequence = log.last_sequence
        assert log.snapshot(FORMAT) is not None
        log._store.write(lambda connection: connection.exec_driver_sql("update snapshots set code = 'older'"))
        log.save_snapshot(sequence, "older", b"not even data")
        state, _, replayed = restore(log, lambda: State(configuration()))
        assert (replayed, len(state.jobs)) == (sequence, 1)
        log.save_snapshot(sequence, FORMAT, b"not even data")
        state, _, replayed = restore(log, lambda: State(configuration()))
        assert (replayed, len(state.jobs)) == (sequence, 1)
        log.close()

    run(main())


def test_a_state_that_was_read_goes_on_as_the_same(tmp_path: Path) -> None:
    state = State(configuration())
    again = from_plain(to_plain(state), like=State(configuration()))
    live = again.mechanism.live
    columns = [*live._typed.values(), *live._blocks.values()]
    for name in live.kinds:
        shown = getattr(live, name)
        assert shown.size == 0 or any(np.shares_memory(shown, column) for column in columns)
    assert again.mechanism.leasing.live is live
    assert again.mechanism.throughputs.isolated is again.speeds


class Daemon:
    """``gavelx serve`` as a process of its own, which can be killed; ``as_made``: by the rules of its log."""

    def __init__(self, folder: Path, listen: str = "127.0.0.1:0", *, as_made: bool = False) -> None:
        times = ["--heartbeat", "0.1", "--valid-for", "1", "--grace", "0.3"]
        made_with = [] if as_made else ["--round", "1", "--table", str(folder / "table.csv")]
        where = ["--state", str(folder / "state"), "--listen", listen, "--json"]
        command = [sys.executable, "-m", "gavelx", "serve", *where, *times, *made_with]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        self.errors = (folder / "errors.txt").open("a")
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.errors, env=environment, text=True
        )
        text = ""
        assert self.process.stdout is not None
        while not text.endswith("}\n"):
            line = self.process.stdout.readline()
            assert line, (folder / "errors.txt").read_text()
            text += line
        self.said = json.loads(text)
        self.address = self.said["listening"]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.errors.close()


@pytest.mark.slow
def test_kill_9_at_any_time_loses_nothing_that_was_answered(tmp_path: Path) -> None:
    """Submissions go on while the service is killed three times; each job answered for is run, once at a time."""
    rows = ["net,1,v100,1000"]
    (tmp_path / "table.csv").write_text(
        "\n".join(["job_type,scale_factor,accelerator,steps_per_second", *rows]) + "\n"
    )
    chance = np.random.default_rng(0)

    async def main() -> None:
        seen, accepted = Seen(), dict[str, int]()
        address = f"127.0.0.1:{free_port()}"
        daemon = Daemon(tmp_path, address)
        agents = [FakeAgent(address, name, devices=2, seen=seen) for name in ("one", "two")]
        for agent in agents:
            agent.connect()

        async def submitting() -> None:
            user, n = User(address), 0
            while n < 40:
                try:
                    (job_id,) = await user.submit(spec(steps=float(chance.integers(50, 500)), request_id=f"r{n}"))
                except grpc.aio.AioRpcError as error:
                    assert error.code() is grpc.StatusCode.UNAVAILABLE, error
                    await asyncio.sleep(0.1)
                    continue  # the same request again: it may have been accepted
                assert accepted.setdefault(f"r{n}", job_id) == job_id
                n += 1
                await asyncio.sleep(0.05)
            await user.close()

        task = asyncio.create_task(submitting())
        try:
            for _ in range(3):
                await asyncio.sleep(float(chance.uniform(0.2, 1.2)))
                await asyncio.to_thread(daemon.kill)
                daemon = await asyncio.to_thread(Daemon, tmp_path, address)
            await task
            async with user_of(address) as user:
                jobs = await user.until("complete", *accepted.values())
                everything = await user.jobs()
            assert len(set(accepted.values())) == len(accepted) == len(everything) == 40
            assert all(job.steps_done == job.total_steps for job in jobs)
            assert not seen.twice
        finally:
            task.cancel()
            for agent in agents:
                await agent.cut()
            daemon.close()

    run(main())


@pytest.mark.slow
def test_a_restored_log_is_another_one_to_the_agents_and_goes_on(place: str) -> None:
    async def main() -> None:
        async with serving(place) as service, user_of(service) as user:
            jobs = await user.submit(spec(), spec(1e6))
            before = service.log.id
        async with serving(place, restored=True) as service, user_of(service) as user:
            after = service.log.id
            async with FakeAgent(service.address, devices=2):
                await user.until("complete", jobs[0])
                await user.until("running", jobs[1])
        async with serving(place) as service:
            assert service.log.id == after != before

    run(main())


def test_prices_change_with_a_restart_and_back(tmp_path: Path) -> None:
    async def main() -> None:
        for usd in (3600.0, 1800.0, None, 3600.0):

            def configure(found: Configuration | None, usd: float | None = usd) -> Configuration:
                if usd is None:
                    assert found is not None
                    return found  # nothing was said
                return replace(configuration(), prices=Prices({"v100": usd}))

            async with serving(tmp_path, configure=configure) as service:
                await service.scheduler.ask(lambda now_s: [])
                prices.append(service.scheduler.state.mechanism.accounts.prices.usd_per_hour["v100"])

    prices: list[float] = []
    run(main())
    assert prices == [3600.0, 1800.0, 1800.0, 3600.0]


@pytest.mark.slow
def test_no_job_ever_has_the_folder_of_another(tmp_path: Path) -> None:
    """Also in another log, whose numbers begin at 0 again, with the same shared folder."""

    async def main() -> None:
        folders = []
        for state in ("first", "second"):
            async with serving(tmp_path / state) as service, user_of(service) as user:
                (job_id,) = await user.submit(spec(1e6))
                async with FakeAgent(service.address) as agent:
                    await user.until("running", job_id)
                    await agent.until_going()
                    folders += [going.launch.folder for going in agent.going.values()]
        assert len(set(folders)) == 2 and all(folder.startswith("0-") for folder in folders)

    run(main())
