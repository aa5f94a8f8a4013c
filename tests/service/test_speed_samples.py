"""Every lease is a measurement: what leases say beats the table, and a restart knows it as well."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.speed_samples import SAMPLES, SpeedSamples
from gavelx.service.agents.timing import Timing
from gavelx.service.api.server import Service
from gavelx.service.state.leases import LeaseRecord
from gavelx.service.state.replay import read_history
from gavelx.service.store.records import Entry
from gavelx.throughputs import Setting
from tests.service.agents import PATIENT, FakeAgent, configuration, serving, spec, user_of
from tests.service.desk import Desk
from tests.service.running import run
from tests.waiting import until

OFTEN = replace(PATIENT, measured_s=0.4, measured_again_s=0.8)
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
    rejected = service.scheduler.agents.measuring.rejected
    await until(lambda: measured(service) >= count, f"{count} measurements have come", lambda: rejected)


def measured(service: Service) -> int:
    learned = service.scheduler.state.online.learned(NET)
    return 0 if learned is None else learned.count


@pytest.mark.slow
def test_what_was_measured_beats_the_table_and_is_known_after_a_restart(tmp_path: Path) -> None:
    async def scene(service: Service) -> None:
        async with user_of(service) as user:
            await user.submit(spec(steps=1e6))
            await until_measured(service, 4)
            state = service.scheduler.state
            assert state.speeds[NET] == pytest.approx(50.0, rel=0.1)
            assert state.mechanism.live.throughput[0].max() == state.speeds[NET]
            assert state.said[NET] == 100.0 and state.online.wrong() == [NET]

    play(tmp_path, scene)
    state, _ = read_history(str(tmp_path))
    assert state.speeds[NET] == pytest.approx(50.0, rel=0.1) and state.online.wrong() == [NET]


@pytest.mark.slow
def test_a_table_that_is_right_stays(tmp_path: Path) -> None:
    async def scene(service: Service) -> None:
        async with user_of(service) as user:
            await user.submit(spec(steps=1e6))
            await until_measured(service, 4)
            assert service.scheduler.state.speeds[NET] == 100.0
            assert service.scheduler.state.online.wrong() == []

    play(tmp_path, scene, pace=1.0)


@pytest.mark.slow
def test_short_leases_are_measurements_too(tmp_path: Path) -> None:
    """If there were enough reports of them: a busy machine may send few, so there may be more jobs than that."""

    async def scene(service: Service) -> None:
        async with user_of(service) as user:

            async def one_more() -> bool:
                await user.until("complete", *await user.submit(spec(steps=60.0)))
                return measured(service) >= 3

            await until(one_more, "3 measurements", lambda: service.scheduler.agents.measuring.rejected)

    play(tmp_path, scene)


@pytest.mark.slow
def test_an_operator_may_keep_to_the_table(tmp_path: Path) -> None:
    async def scene(service: Service) -> None:
        async with user_of(service) as user:
            await user.submit(spec(steps=1e6))
            await until_measured(service, 4)
            assert service.scheduler.state.speeds[NET] == 100.0
            assert service.scheduler.state.online.wrong() == [NET]

    play(tmp_path, scene, configuration=replace(configuration(), refine=False))


@pytest.mark.slow
def test_jobs_that_bring_their_own_speeds_are_put_right_for_good(tmp_path: Path) -> None:
    async def scene(service: Service) -> None:
        async with user_of(service) as user:
            own = wire.JobSpec(job_type="own", total_steps=1e6, command=["true"], steps_per_s={"v100": 200.0})
            await user.submit(own)
            state = service.scheduler.state
            (job,) = state.jobs.values()
            setting = Setting(job.job.job_type, "v100")
            await until(lambda: state.speeds[setting] != 200.0, "the speed is put right")
            assert state.speeds[setting] == pytest.approx(50.0, rel=0.1)
            await user.submit(own)
            assert state.speeds[setting] == pytest.approx(50.0, rel=0.1)
            assert len({known.job.job_type for known in state.jobs.values()}) == 1

    play(tmp_path, scene)


class Bench:
    """One lease of one job on a desk, and reports of it by hand."""

    def __init__(self) -> None:
        self.logged: list[Entry] = []

    async def lease(self) -> LeaseRecord:
        self.desk = desk = Desk()
        await desk.agent("one", 1)
        desk.submit(1e9)
        desk.wake()
        (run,) = desk.state.runs.values()
        self.measuring = SpeedSamples(desk.state, Timing(), lambda make: self.logged.extend(make(0.0)))
        return run

    def hear(self, run: LeaseRecord, held_s: float, steps: float) -> None:
        report = wire.LeaseReport(lease_id=run.lease.id, job_id=run.lease.job_id, held_s=held_s, steps_done=steps)
        self.measuring.hear(run, report)

    @property
    def speeds(self) -> list[float]:
        return [entry.event.measurement.steps_per_second for entry in self.logged]


def at_bench(work: Callable[[Bench, LeaseRecord], None]) -> Bench:
    bench = Bench()

    async def main() -> None:
        work(bench, await bench.lease())

    asyncio.run(main())
    return bench


def test_a_long_lease_is_measured_again_and_again() -> None:
    def work(bench: Bench, run: LeaseRecord) -> None:
        for n in range(400):  # 5 s apart, half an hour
            bench.hear(run, 5.0 * n, 20.0 * max(0.0, 5.0 * n - 12.0))

    bench = at_bench(work)
    assert len(bench.speeds) == 6 and bench.speeds == pytest.approx([20.0] * 6, rel=0.02)
    assert len(bench.measuring._series[1].samples) < 70


def test_reports_that_come_thick_and_fast_take_no_room() -> None:
    def work(bench: Bench, run: LeaseRecord) -> None:
        for n in range(5000):
            bench.hear(run, 0.05 * n, 1.0 * n)
            assert len(bench.measuring._series[1].samples) <= SAMPLES
        (found,) = bench.measuring.end(1)
        assert found.steps_per_second == pytest.approx(20.0, rel=0.01)

    at_bench(work)


def test_what_a_lease_does_after_it_was_asked_to_stop_does_not_count() -> None:
    def work(bench: Bench, run: LeaseRecord) -> None:
        for n in range(30):
            bench.hear(run, 5.0 * n, 100.0 * n)
        run.stopping = True
        for n in range(30, 50):
            bench.hear(run, 5.0 * n, 2900.0)
        (found,) = bench.measuring.end(1)
        assert found.steps_per_second == pytest.approx(20.0)

    at_bench(work)


def test_a_lease_that_a_job_has_yet_to_go_over_to_measures_nothing() -> None:
    def work(bench: Bench, run: LeaseRecord) -> None:
        after = LeaseRecord(run.lease._replace(id=2, continues=run.lease.id), run.parts)
        for n in range(30):
            bench.hear(after, 0.0, 100.0 * n)
        assert bench.measuring.end(2) == []
        assert not bench.measuring.rejected
        bench.desk.state.runs.end(run.lease.id)
        bench.hear(after, 0.0, 100.0)
        assert len(bench.measuring._series[2].samples) == 1

    at_bench(work)


BAD = st.sampled_from([math.nan, math.inf, -math.inf, -1.0, -1e9])


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 29), BAD, st.booleans())
def test_a_report_that_cannot_be_spoils_its_lease_and_says_why(place: int, bad: float, clock: bool) -> None:
    def work(bench: Bench, run: LeaseRecord) -> None:
        for n in range(30):
            held_s, steps = 5.0 * n, 100.0 * n
            if n == place:
                held_s, steps = (bad, steps) if clock else (held_s, bad)
            bench.hear(run, held_s, steps)
        assert bench.measuring.end(1) == [] and not bench.logged
        ((way, (count, why)),) = bench.measuring.rejected.items()
        assert (
            way == NET and count >= 1 and ("not a number" in why or "negative" in why or "clock went back" in why)
        )

    at_bench(work)


def test_a_job_that_counts_in_almost_nothing_ends() -> None:
    async def main() -> None:
        desk = Desk()
        one, a = await desk.agent("one", 1)
        desk.submit(1e6)
        desk.wake()
        (lease_id,) = desk.state.runs
        for n in range(20):
            report = wire.LeaseReport(lease_id=lease_id, job_id=0, steps_done=5e-324 * n, held_s=5.0 * n)
            desk.here.receive(
                one, a, wire.FromAgent(heartbeat=wire.Heartbeat(sent_s=2.0 + 5.0 * n, leases=[report]))
            )
            desk.settle()
        ended = wire.Ended(report_id="r", lease_id=lease_id, job_id=0, held_s=100.0, complete=True)
        for _ in range(3):
            desk.here.receive(one, a, wire.FromAgent(ended=ended))
            desk.settle()
        assert desk.state.jobs[0].ended == "complete"

    run(main())
