"""Jobs that change their size while they run: nothing is lost or doubled, and all have the same state."""

import signal
from collections.abc import Iterator
from dataclasses import replace
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "stage"),
    [("joiner", "ready"), ("joiner", "waiting"), ("joiner", "joining"), ("kept", "meeting"), ("kept", "leaving")],
)
def test_a_resize_in_which_a_process_dies_is_a_restart(agent: Agent, who: str, stage: str) -> None:
    """From the last checkpoint, on as many processes as there were to be: no sample is lost or comes twice."""
    well = Script(step_s=0.01, every_s=0.2)
    dies = replace(well, die=stage)
    agent.batch = 32
    agent.launch(dies if who == "kept" else well, 2, batch=32)
    agent.until(lambda: agent.report(0).get("saved_steps", 0) > 0, "the first checkpoint")
    agent.resize(dies if who == "joiner" else well, 3, batch=48)
    codes = agent.ended(restart=True)
    assert -signal.SIGKILL in codes.values(), codes
    agent.launch(well, 3, batch=48)
    agent.until_steps(20)
    agent.stop()
    entries = agent.history()
    assert entries[0]["at"] < entries[-1]["at"]
    assert {one["world"] for one in entries} == {2, 3}
    check_history(entries)
