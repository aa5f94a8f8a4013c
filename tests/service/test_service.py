"""The whole service in this process, with agents that speak the wire."""

from pathlib import Path

import pytest

from tests.service.agents import FakeAgent, Seen, configuration, serving, spec, user_of
from tests.service.running import run
from tests.waiting import until


def test_a_job_is_submitted_runs_and_is_complete(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user, FakeAgent(service.address) as agent:
            ids = await user.submit(spec(name="first"), spec())
            assert ids == [0, 1]
            jobs = await user.until("complete", *ids)
            assert [(job.steps_done, job.name, job.owner) for job in jobs] == [
                (50.0, "first", "local"),
                (50.0, "", "local"),
            ]
            assert jobs[0].spent_usd == pytest.approx(agent.held_s[0])  # a dollar a second
            assert agent.held_s[0] >= 0.5
            await agent.until_acknowledged()
            assert not service.scheduler.state.runs

    run(main())


@pytest.mark.slow
def test_jobs_take_turns_and_none_runs_twice(tmp_path: Path) -> None:
    async def main() -> None:
        seen = Seen()
        quick = configuration(round_s=0.2)
        async with (
            serving(tmp_path, configuration=quick) as service,
            user_of(service) as user,
            FakeAgent(service.address, seen=seen) as one,
            FakeAgent(service.address, "two", seen=seen) as two,
        ):
            ids = await user.submit(*(spec(steps=1e6) for _ in range(4)))
            launches = lambda: [service.scheduler.state.jobs[i].launches for i in ids]  # noqa: E731
            await until(lambda: min(launches()) >= 2, "each of them has had two turns", launches)
            one.finish_jobs = two.finish_jobs = set(ids)
            jobs = await user.until("complete", *ids)
        assert not seen.twice
        assert all(job.restarts >= 1 and job.steps_done > 0.0 for job in jobs)

    run(main())
