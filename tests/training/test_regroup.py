"""Jobs that change their size while they run: nothing is lost or doubled, and all have the same state."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training.elastic_job import Agent, Script, check_history


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    found = Agent(tmp_path)
    yield found
    found.kill()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["batch", "workers"])
def test_a_job_grows_and_shrinks_while_it_runs(agent: Agent, what: str) -> None:
    agent.what, agent.parts, agent.batch = what, 4, 16 if what == "batch" else 32
    script = Script(step_s=0.01)
    agent.launch(script, 1)
    agent.until_steps(3)
    for count in (2, 4, 2, 1):
        agent.resize(script, count, batch=16 * count if what == "batch" else 0)
        report = agent.settle()
        assert (report["world_size"], report["lease_id"]) == (count, 100 + agent.size["generation"])
        agent.until_steps(20)
    agent.stop()
    check_history(agent.history())
    worlds = [one["world"] for one in agent.history()]
    assert [now for now, before in zip(worlds, [0, *worlds], strict=False) if now != before] == [1, 2, 4, 2, 1]
