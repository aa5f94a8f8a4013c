"""Every lease is a measurement: what leases say beats the table, and a restart knows it as well."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gavelx.rpc import wire_pb2 as wire
from gavelx.service.recorded import read_history
from gavelx.service.server import Service
from gavelx.throughputs import Setting
from tests.service.agents import QUICK, FakeAgent, configuration, serving, spec, user_of

OFTEN = replace(QUICK, measured_s=0.4, measured_again_s=0.8)
NET = Setting("net", "v100")


class SlowAgent(FakeAgent):
    """Its devices are slower than the table says."""

    pace = 0.5

    def _launch(self, launch: wire.Launch) -> None:
        mine = wire.Launch()
        mine.CopyFrom(launch)
        mine.steps_per_s = 100.0 * self.pace
        super()._launch(mine)


Scene = Callable[[Service], Awaitable[None]]


def play(folder: Path, scene: Scene, pace: float = 0.5, **options: Any) -> None:
    async def run() -> None:
        async with serving(folder, timing=OFTEN, **options) as service:
            agent = SlowAgent(service.address)
            agent.pace = pace
            async with agent:
                await scene(service)

    asyncio.run(run())


async def until_measured(service: Service, count: int) -> None:
    online = service.scheduler.state.online
    for _ in range(400):
        if (learned := online.learned(NET)) is not None and learned.count >= count:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{count} measurements never came; {service.scheduler.attendance.measuring.rejected}")


def test_what_was_measured_beats_the_table_and_is_known_after_a_restart(tmp_path: Path) -> None:
    async def scene(service: Service) -> None:
        async with user_of(service) as user:
            await user.submit(spec(steps=1e6))
            await until_measured(service, 4)
            state = service.scheduler.state
            assert state.speeds[NET] == pytest.approx(50.0, rel=0.1)
            assert state.mechanism.live["throughput"][0].max() == state.speeds[NET]
            assert state.said[NET] == 100.0 and state.online.wrong() == [NET]

    play(tmp_path, scene)
    state, _ = read_history(str(tmp_path))
    assert state.speeds[NET] == pytest.approx(50.0, rel=0.1) and state.online.wrong() == [NET]


def test_a_table_that_is_right_stays(tmp_path: Path) -> None:
    async def scene(service: Service) -> None:
        async with user_of(service) as user:
            await user.submit(spec(steps=1e6))
            await until_measured(service, 4)
            assert service.scheduler.state.speeds[NET] == 100.0
            assert service.scheduler.state.online.wrong() == []

    play(tmp_path, scene, pace=1.0)


def test_short_leases_are_measurements_too(tmp_path: Path) -> None:
    async def scene(service: Service) -> None:
        async with user_of(service) as user:
            ids = await user.submit(*(spec(steps=60.0) for _ in range(3)))
            await user.until("complete", *ids)
            await until_measured(service, 3)

    play(tmp_path, scene)


def test_an_operator_may_keep_to_the_table(tmp_path: Path) -> None:
    async def scene(service: Service) -> None:
        async with user_of(service) as user:
            await user.submit(spec(steps=1e6))
            await until_measured(service, 4)
            assert service.scheduler.state.speeds[NET] == 100.0
            assert service.scheduler.state.online.wrong() == [NET]

    play(tmp_path, scene, configuration=replace(configuration(), refine=False))


def test_jobs_that_bring_their_own_speeds_are_put_right_for_good(tmp_path: Path) -> None:
    async def scene(service: Service) -> None:
        async with user_of(service) as user:
            own = wire.JobSpec(job_type="own", total_steps=1e6, command=["true"], steps_per_s={"v100": 200.0})
            await user.submit(own)
            state = service.scheduler.state
            (job,) = state.book.values()
            setting = Setting(job.job.job_type, "v100")
            for _ in range(400):
                if state.speeds[setting] != 200.0:
                    break
                await asyncio.sleep(0.05)
            assert state.speeds[setting] == pytest.approx(50.0, rel=0.1)
            await user.submit(own)
            assert state.speeds[setting] == pytest.approx(50.0, rel=0.1)
            assert len({known.job.job_type for known in state.book.values()}) == 1

    play(tmp_path, scene)
