"""Some of the runs on virtual time; ``make chaos VIRTUAL=1 SEEDS=0:1000`` does more."""

import math
from typing import Any

import pytest

from gavelx.service.agents.registry import AgentRegistry
from tests.faults.virtual import play


@pytest.mark.parametrize("seed", range(8))
def test_nothing_runs_twice_and_every_job_ends(seed: int) -> None:
    assert play(seed) == []


@pytest.mark.parametrize("seed", [pytest.param(8283, id="rank 0 completes as others go over to another size")])
def test_what_runs_once_found(seed: int) -> None:
    assert play(seed) == []


def test_a_service_that_gives_up_too_early_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AgentRegistry, "_is_exposed", lambda self, session: False)
    assert any("run twice at once" in problem for seed in range(4, 8) for problem in play(seed))


def test_a_service_that_takes_a_launch_on_its_way_for_lost_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = AgentRegistry._left_out

    def impatient(self: Any, session: Any, run: Any, sent_s: float) -> None:
        left_out(self, session, run, math.inf)

    monkeypatch.setattr(AgentRegistry, "_left_out", impatient)
    assert any("two jobs on one device" in problem for seed in range(69, 140) for problem in play(seed))
