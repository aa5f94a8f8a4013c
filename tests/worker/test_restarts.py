"""What survives: kill -9 of agents, shims and schedulers, doubled messages, machines that boot again."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gavelx.rpc import wire_pb2 as wire
from gavelx.worker.shim import start_ticks
from gavelx.worker.state import LeaseFolder
from tests.waiting import until
from tests.worker.machines import Machine, machine, pids_of
from tests.worker.programs import Program, program
from tests.worker.scheduler import Scheduler
from tests.worker.test_processes import DAEMON, FOREVER, SAVE_ON_TERM, STUBBORN, play, printed

pytestmark = pytest.mark.slow


def play_program(
    tmp_path: Path, scene: Callable[[Scheduler, Program], Awaitable[None]], **scheduler: float
) -> None:
    async def run() -> None:
        async with Scheduler(**scheduler) as one, program(tmp_path, one) as agent:
            await scene(one, agent)

    asyncio.run(run())


def lease_folder(agent: Program, lease_id: int) -> Path:
    return agent.folder / "leases" / str(lease_id)


async def running(agent: Program, lease_id: int, text: str = "ready") -> int:
    """Wait until the job has printed this; its first process."""
    out = lease_folder(agent, lease_id) / "out.0.log"
    await until(lambda: out.exists() and text in out.read_text(), f"the job prints {text!r}")
    return pids_of(lease_folder(agent, lease_id))[0]


def test_an_agent_that_was_killed_finds_its_jobs_again_and_reports_once(tmp_path: Path) -> None:
    async def scene(scheduler: Scheduler, agent: Program) -> None:
        for lease_id in (1, 2, 3):
            scheduler.launch_python(lease_id, SAVE_ON_TERM + FOREVER, slots=[lease_id])
        pids = {lease_id: await running(agent, lease_id) for lease_id in (1, 2, 3)}
        starts = {pid: start_ticks(pid) for pid in pids.values()}
        boot_id = scheduler.hellos[0].boot_id
        await agent.kill()
        os.kill(pids[2], signal.SIGKILL)
        await until(
            lambda: not LeaseFolder(lease_folder(agent, 2)).shim_lives(),
            "the keeper of lease 2 has ended, without an agent",
        )
        await agent.start()
        hello = scheduler.hellos[-1]
        assert hello.boot_id == boot_id
        assert {report.lease_id for report in hello.leases} == {1, 3}
        assert {pid: start_ticks(pid) for pid in (pids[1], pids[3])} == {
            pid: starts[pid] for pid in (pids[1], pids[3])
        }
        assert (await scheduler.end_of(2)).failed  # nobody had asked it to stop
        scheduler.stop_lease(1)
        assert (await scheduler.end_of(1)).steps_done == 30.0
        for lease_id in (1, 2):
            acknowledged = lease_folder(agent, lease_id) / "acknowledged.json"
            await until(acknowledged.exists, "it knows that both reports were heard")
        await agent.kill()
        await agent.start()
        assert [report.lease_id for report in scheduler.hellos[-1].leases] == [3]
        beats = len(scheduler.beats)
        await until(lambda: len(scheduler.beats) > beats + 3, "it has had the time to report again")
        assert [ended.lease_id for ended in scheduler.ended] == [2, 1]

    play_program(tmp_path, scene)


def test_nothing_runs_beyond_its_lease_when_the_agent_never_comes_back(tmp_path: Path) -> None:
    async def scene(scheduler: Scheduler, agent: Program) -> None:
        scheduler.launch_python(1, STUBBORN + DAEMON + FOREVER)
        await running(agent, 1, "daemon")
        await agent.kill()
        lease = LeaseFolder(lease_folder(agent, 1))
        until_s = time.monotonic() + 0.5
        lease.write_lease((lease.lease() or {}) | {"until_monotonic_s": until_s})  # the scheduler's last word
        await until(lambda: not pids_of(lease.path), "all of it is dead", lambda: pids_of(lease.path))
        assert time.monotonic() >= until_s
        await until(lambda: not lease.shim_lives(), "its keeper has written down how it ended")
        await agent.start()
        ended = await scheduler.end_of(1)
        assert (ended.failed, ended.steps_done) == (False, 0.0)
        assert "lapsed" in ended.reason

    play_program(tmp_path, scene)


def test_sigterm_stops_jobs_softly_and_reports(tmp_path: Path) -> None:
    async def scene(scheduler: Scheduler, agent: Program) -> None:
        scheduler.launch_python(1, SAVE_ON_TERM + FOREVER)
        await running(agent, 1)
        agent.signal(signal.SIGTERM)
        ended = await scheduler.end_of(1)
        assert (ended.failed, ended.steps_done) == (False, 30.0)
        assert "leaving" in ended.reason
        assert await agent.gone() == 0

    play_program(tmp_path, scene)


def test_a_second_sigterm_leaves_the_jobs_to_the_agent_that_comes_back(tmp_path: Path) -> None:
    async def scene(scheduler: Scheduler, agent: Program) -> None:
        scheduler.launch_python(1, STUBBORN + FOREVER)
        pid = await running(agent, 1)
        agent.signal(signal.SIGTERM)
        asked = lambda: json.loads((lease_folder(agent, 1) / "lease.json").read_text())["stop"]  # noqa: E731
        await until(asked, "it is leaving")
        agent.signal(signal.SIGTERM)
        assert await agent.gone() == 0
        assert start_ticks(pid) is not None
        await agent.start()
        assert [report.lease_id for report in scheduler.hellos[-1].leases] == [1]

    play_program(tmp_path, scene)


def test_a_job_does_not_outlive_its_shim(tmp_path: Path) -> None:
    async def scene(m: Machine) -> None:
        m.runner._cgroups = None  # the hard case
        m.scheduler.launch_python(1, SAVE_ON_TERM + DAEMON + FOREVER)
        await printed(m, 1, "daemon")
        await until(lambda: len(m.pids(1)) == 2, "a job and a child that called setsid")
        os.kill(json.loads((m.lease(1) / "shim.json").read_text())["pid"], signal.SIGKILL)
        ended = await m.scheduler.end_of(1)
        assert (ended.failed, ended.steps_done) == (True, 20.0)
        assert "keeper" in ended.reason
        assert not m.pids(1)

    play(tmp_path, scene)


def test_a_shim_and_its_agent_are_killed_together(tmp_path: Path) -> None:
    async def scene(scheduler: Scheduler, agent: Program) -> None:
        scheduler.launch_python(1, SAVE_ON_TERM + DAEMON + FOREVER)
        await running(agent, 1, "daemon")
        await until(lambda: len(pids_of(lease_folder(agent, 1))) == 2, "a job and a child that called setsid")
        await agent.kill()
        os.kill(json.loads((lease_folder(agent, 1) / "shim.json").read_text())["pid"], signal.SIGKILL)
        await until(lambda: len(pids_of(lease_folder(agent, 1))) == 1, "the job itself dies with its shim")
        await agent.start()
        assert (await scheduler.end_of(1)).failed
        assert not pids_of(lease_folder(agent, 1))

    play_program(tmp_path, scene)


def test_reports_are_kept_until_they_are_acknowledged(tmp_path: Path) -> None:
    async def scene(scheduler: Scheduler, agent: Program) -> None:
        scheduler.acknowledging = False
        scheduler.launch_python(1, "print('ready')", until_step=5.0)
        first = await scheduler.end_of(1)
        await agent.kill()
        await agent.start()
        await until(lambda: len(scheduler.ends(1)) >= 2, "it reports again")
        assert scheduler.ends(1)[1] == first
        scheduler.acknowledging = True
        await agent.kill()
        await agent.start()
        acknowledged = lease_folder(agent, 1) / "acknowledged.json"
        await until(acknowledged.exists, "it is acknowledged at last")
        reports = len(scheduler.ends(1))
        await agent.kill()
        await agent.start()
        beats = len(scheduler.beats)
        await until(lambda: len(scheduler.beats) > beats + 3, "it has had the time to report again")
        assert len(scheduler.ends(1)) == reports

    play_program(tmp_path, scene)


def test_the_scheduler_goes_and_comes_back(tmp_path: Path) -> None:
    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, SAVE_ON_TERM + FOREVER)
        waits = "import os, time\nwhile not os.path.exists('gone'): time.sleep(0.01)"
        m.scheduler.launch_python(2, waits, slots=[1])
        await printed(m, 1)
        await until(lambda: m.pids(2), "the other one runs")
        await m.scheduler.stop()
        (tmp_path / "shared" / "jobs" / "102" / "gone").touch()
        await until(lambda: not m.pids(2), "one ends meanwhile")
        await m.scheduler.start()
        await m.scheduler.connected(2)
        assert 1 in {report.lease_id for report in m.scheduler.hellos[1].leases}
        assert (await m.scheduler.end_of(2)).complete
        m.scheduler.stop_lease(1)
        assert (await m.scheduler.end_of(1)).steps_done == 30.0

    play(tmp_path, scene)


def test_doubled_launches_and_stops_do_no_harm(tmp_path: Path) -> None:
    async def scene(m: Machine) -> None:
        launch = m.scheduler.launch_python(1, SAVE_ON_TERM + FOREVER)
        m.scheduler.send(launch=launch)
        await printed(m, 1)
        m.scheduler.send(launch=launch)
        assert len(m.pids(1)) == 1
        m.scheduler.stop_lease(1)
        m.scheduler.stop_lease(1)
        await m.scheduler.end_of(1)
        m.scheduler.send(launch=launch)  # late: it is over, and said once more
        await until(lambda: len(m.scheduler.ends(1)) == 2, "it is told again")
        m.scheduler.stop_lease(1)
        await until(lambda: len(m.scheduler.ends(1)) == 3, "it is told again")
        assert m.scheduler.ends(1)[0] == m.scheduler.ends(1)[1] == m.scheduler.ends(1)[2]
        assert m.output(1) == "ready\n"
        m.scheduler.stop_lease(9)  # never heard of
        await until(lambda: m.scheduler.refused, "it says so")
        assert [refused.lease_id for refused in m.scheduler.refused] == [9]

    play(tmp_path, scene)


def test_a_number_that_is_another_jobs_here_is_refused_whether_that_runs_or_has_ended(tmp_path: Path) -> None:
    """Two jobs differ by their folders, even if their numbers are the same: the log may be an older copy."""

    async def scene(m: Machine) -> None:
        launch = m.scheduler.launch_python(1, SAVE_ON_TERM + FOREVER, folder="101-aaaa")
        await printed(m, 1)
        other_job, other_folder = wire.Launch(), wire.Launch()
        other_job.CopyFrom(launch)
        other_folder.CopyFrom(launch)
        other_job.job_id, other_folder.folder = 7, "101-bbbb"
        for count in (2, 4):
            for other in (other_job, other_folder):
                m.scheduler.send(launch=other)
            await until(lambda: len(m.scheduler.refused) == count, "both are refused")  # noqa: B023
            m.scheduler.stop_lease(1)
            await m.scheduler.end_of(1)
        assert all(refused.of_another_job for refused in m.scheduler.refused)
        assert [refused.job_id for refused in m.scheduler.refused] == [7, 101, 7, 101]
        assert "lease 1 is of job 101 here" in m.scheduler.refused[0].reason
        assert m.output(1) == "ready\n"

    play(tmp_path, scene)


def test_an_agent_says_what_it_was_told_last_of_the_log_also_after_kill_9(tmp_path: Path) -> None:
    async def scene(scheduler: Scheduler, agent: Program) -> None:
        scheduler.launch_python(1, SAVE_ON_TERM + FOREVER, log_mark="of the launch")
        await running(agent, 1)
        await agent.kill()
        await agent.start()
        assert scheduler.hellos[-1].log_mark == "of the launch"
        scheduler.log_mark = "of a heartbeat"
        beats = len(scheduler.beats)
        await until(lambda: len(scheduler.beats) > beats, "it is told")
        await scheduler.fall_silent()  # it has heard what was said before
        await scheduler.stop()
        hellos = len(scheduler.hellos)
        await scheduler.start()
        await until(lambda: len(scheduler.hellos) > hellos, "it comes again")
        assert scheduler.hellos[-1].log_mark == "of a heartbeat"

    play_program(tmp_path, scene)


def test_a_lease_that_does_not_stand_is_stopped(tmp_path: Path) -> None:
    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, SAVE_ON_TERM + FOREVER)
        await printed(m, 1)
        m.scheduler.standing.clear()
        ended = await m.scheduler.end_of(1)
        assert (ended.failed, ended.steps_done) == (False, 30.0)

    play(tmp_path, scene)


def test_a_machine_that_boots_again_is_another_one(tmp_path: Path) -> None:
    """What ran then is gone, and its processes' numbers may be anybody's by now."""

    async def before(m: Machine) -> None:
        m.scheduler.launch_python(1, SAVE_ON_TERM + FOREVER)
        await printed(m, 1)
        m.attending.cancel()
        await asyncio.wait([m.attending])  # its agent sees nothing of what comes now
        os.kill(json.loads((m.lease(1) / "shim.json").read_text())["pid"], signal.SIGKILL)

    play(tmp_path, before)
    launch = tmp_path / "leases" / "1" / "launch.json"
    launch.write_text(json.dumps(json.loads(launch.read_text()) | {"boot_id": "another"}))

    async def after(m: Machine) -> None:
        ended = await m.scheduler.end_of(1)
        assert (ended.failed, ended.steps_done) == (True, 20.0)
        assert ended.held_s == 0.0  # of a time on another clock nobody can say how long ago it is
        assert "restarted" in ended.reason

    play(tmp_path, after)


def test_leases_of_another_scheduler_are_ended_and_forgotten(tmp_path: Path) -> None:
    """Lease ids of a new log begin anew: number 1 there is another lease than number 1 here."""

    async def run() -> None:
        async with Scheduler(log_id="a") as a, machine(tmp_path, a) as m:
            await a.connected()
            a.launch_python(1, SAVE_ON_TERM + FOREVER, log_mark="of a")
            await printed(m, 1)
        # The agent goes and leaves its job; what comes back is served by another scheduler.
        async with Scheduler(log_id="b") as b, machine(tmp_path, b) as m:
            await b.connected()
            assert b.hellos[0].log_mark == "of a"
            await until(lambda: m.runner.folder.log_id == "b", "it belongs to the new one")
            assert m.runner.log_mark == ""
            b.launch_python(1, "print('new')")
            assert (await b.end_of(1)).complete
            assert m.output(1) == "new\n"
            assert len(b.ended) == 1

    asyncio.run(run())
