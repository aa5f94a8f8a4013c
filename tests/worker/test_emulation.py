"""Jobs that only sleep."""

import asyncio
import math

import pytest

from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.channels import Access, aio_channel
from gavelx.worker.connection import attend
from gavelx.worker.devices import Devices
from gavelx.worker.emulation import Failures, SleepRunner, sleeping_agent
from gavelx.worker.running import CannotRunError
from tests.waiting import until
from tests.worker.scheduler import Scheduler, make_launch


def runner_at(time_s: list[float], **more: object) -> SleepRunner:
    return SleepRunner(grace_s=5.0, clock=lambda: time_s[0], **more)  # type: ignore[arg-type]


def test_progress_is_speed_times_time_and_ends_at_the_last_step() -> None:
    now = [0.0]
    runner = runner_at(now, speed=2.0)
    launch = wire.Launch(**make_launch(1, saved_steps=100.0, until_step=400.0, steps_per_s=5.0))
    runner.start(launch, until_s=1000.0)
    now[0] = 12.0
    (report,) = runner.reports()
    assert (report.steps_done, report.held_s, report.steps_per_s) == (220.0, 12.0, 10.0)
    assert runner.poll_at_s() == 30.0
    now[0] = 31.0
    runner.poll()
    (ended,) = runner.ended()
    assert (ended.steps_done, ended.held_s, ended.complete) == (400.0, 30.0, True)


def test_who_is_stopped_keeps_all_of_his_steps() -> None:
    now = [0.0]
    runner = runner_at(now)
    runner.start(wire.Launch(**make_launch(1)), until_s=1000.0)
    now[0] = 7.0
    runner.stop(1, "room")
    (ended,) = runner.ended()
    assert (ended.steps_done, ended.held_s, ended.complete, ended.failed) == (70.0, 7.0, False, False)


def test_a_job_without_checkpoints_saves_nothing_before_its_end() -> None:
    now = [0.0]
    runner = runner_at(now)
    plain = make_launch(1) | {"environment": {"CHECKPOINTS": "no"}}
    runner.start(wire.Launch(**plain), until_s=1000.0)
    now[0] = 70.0
    (report,) = runner.reports()
    assert (report.steps_done, report.saved_steps) == (700.0, 0.0)
    runner.stop(1, "room")
    runner.start(wire.Launch(**plain | {"lease_id": 2}), until_s=1000.0)
    now[0] = 170.0
    runner.poll()
    assert [(ended.steps_done, ended.complete) for ended in runner.ended()] == [(0.0, False), (1000.0, True)]


def test_failures_repeat_with_their_seed_and_cost_the_steps_since_the_checkpoint() -> None:
    ends = []
    for _ in range(2):
        now = [0.0]
        runner = runner_at(now, failures=Failures(mean_s=50.0, checkpoint_s=10.0, seed=3))
        for lease_id in range(1, 21):
            runner.start(wire.Launch(**make_launch(lease_id)), until_s=1e6)
        now[0] = 1e5
        runner.poll()
        ends.append([(ended.failed, ended.steps_done, ended.held_s) for ended in runner.ended()])
    assert ends[0] == ends[1]
    assert {failed for failed, _, _ in ends[0]} == {True, False}
    for failed, steps, held_s in ends[0]:
        assert steps == (held_s // 10.0 * 100.0 if failed else 1000.0)


def test_a_launch_without_speed_is_refused() -> None:
    with pytest.raises(CannotRunError, match="speed"):
        runner_at([0.0]).start(wire.Launch(**make_launch(1, steps_per_s=0.0)), 100.0)


def test_leases_of_another_log_are_over_and_their_numbers_mean_nothing() -> None:
    runner = runner_at([0.0])
    runner.belong_to("a")
    for lease_id in (1, 2):
        runner.start(wire.Launch(**make_launch(lease_id, log_mark="of a")), until_s=1000.0)
    runner.stop(2, "room")
    runner.belong_to("a")
    assert (list(runner.standing()), len(runner.ended()), runner.log_mark) == ([1], 1, "of a")
    assert runner.job_of(1) == (101, "101") and runner.job_of(2) == (102, "102")
    runner.belong_to("b")
    assert (list(runner.standing()), len(runner.ended()), runner.log_mark) == ([], 0, "")
    assert runner.job_of(1) is runner.job_of(2) is None


def test_many_agents_share_one_event_loop() -> None:
    """And one scheduler; each has a stream of its own."""

    async def run() -> None:
        async with Scheduler(heartbeat_s=0.5) as scheduler:
            agents = [sleeping_agent(f"server-{n}", Devices("v100", ("0",))) for n in range(200)]
            tasks = [
                asyncio.create_task(attend(one, lambda: aio_channel(Access(scheduler.address)))) for one in agents
            ]
            answered = lambda: sum(agent._renewed_s > -math.inf for agent in agents)  # noqa: E731
            await until(lambda: answered() == 200, "heartbeats of all are answered", answered)
            assert len({hello.name for hello in scheduler.hellos}) == 200
            assert {agent.server_id for agent in agents} == {1}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())
