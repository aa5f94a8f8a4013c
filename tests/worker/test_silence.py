"""A job that makes no step any more is noticed, and one that does something else is left alone."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gavelx.rpc import wire_pb2 as wire
from gavelx.worker import runner as running_jobs
from gavelx.worker.outcome import outcome
from gavelx.worker.silence import LEAST_S, SAVING_S, Silence
from tests.waiting import until
from tests.worker.machines import Machine
from tests.worker.test_processes import play

HANGS = """
import itertools, os, time
for step in itertools.count(1):
    print("step", step, flush=True)
    time.sleep(0.02)
    while os.path.exists("hang"):
        time.sleep(0.02)
"""


def after(seconds: int, silence: Silence, **more: Any) -> Silence:
    """Looked at every second, without a step."""
    for _ in range(seconds):
        silence.look(silence.at_s + 1.0, silence.steps, more.get("saved", silence.saved), **more.get("how", {}))
    return silence


def stepping(count: int = 100, every_s: float = 1.0) -> Silence:
    silence = Silence(0.0, 0.0, 0.0)
    for n in range(count):
        silence.look((n + 1) * every_s, n + 1.0, 0.0)
    return silence


def test_a_job_without_a_step_for_long_is_silent() -> None:
    silence = after(95, stepping())
    assert silence.is_long and silence.words() == "no step for 95 s (usually 1 s)"
    silence.look(silence.at_s + 1.0, silence.steps + 1.0, 0.0)
    assert not silence.is_long


def test_a_job_that_starts_or_never_says_a_step_is_not_silent() -> None:
    assert not after(10_000, Silence(0.0, 0.0, 0.0)).is_long
    first = Silence(0.0, 0.0, 0.0)
    first.look(1.0, 500.0, 0.0)
    assert not after(10_000, first).is_long, "one look at steps says nothing of how long they take"


def test_a_job_with_long_pauses_is_silent_only_after_longer_ones() -> None:
    silence = stepping(every_s=1.0)
    after(59, silence)
    silence.look(silence.at_s + 1.0, silence.steps + 1.0, 0.0)
    assert not after(299, silence).is_long
    assert after(2, silence).is_long


@pytest.mark.parametrize("how", [{"busy": True}, {"saving": True}])
def test_a_job_that_does_something_else_is_not_silent(how: dict[str, bool]) -> None:
    assert not after(int(SAVING_S), stepping(), how=how).is_long


def test_saving_is_an_excuse_for_a_while_only() -> None:
    assert after(int(SAVING_S + LEAST_S) + 1, stepping(), how={"saving": True}).is_long


def test_time_in_which_the_agent_was_stopped_does_not_count() -> None:
    silence = stepping()
    silence.look(silence.at_s + 10_000.0, silence.steps, 0.0)
    assert not silence.is_long


def test_an_agent_that_is_started_again_notices_too() -> None:
    assert after(95, Silence(700.0, 0.0, 0.0, usual_s=1.0)).is_long


def test_a_job_that_was_stopped_for_its_silence_has_failed() -> None:
    launch = {"saved_steps": 3.0, "until_step": None}
    exit_ = {"failed": None, "asked": "no step for 95 s", "killed": True, "exit_codes": {"0": -9}, "ended_s": 1.0}
    said = {"steps_done": 9.0, "saved_steps": 7.0}
    result = outcome(launch, exit_, said, leaving=True, hung="no step for 95 s")
    assert (result.failed, result.complete, result.steps_done) == (True, False, 7.0)
    assert result.reason == "no step for 95 s" and result.exit_code < 0, "never final: it did not exit by itself"
    assert outcome(launch, exit_, said | {"complete": True}, hung="no step for 95 s").complete


def test_a_job_that_hangs_is_stopped_as_its_user_wants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_jobs, "LOOK_S", 0.1)

    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, HANGS, restart_if_silent_s=1.0)
        silence = lambda: m.runner._running[1].silence  # noqa: E731
        await until(lambda: 1 in m.runner._running and silence() is not None, "the agent looks")
        await until(lambda: bool(silence() and silence().is_known), "steps are known")  # type: ignore[union-attr]
        (tmp_path / "shared" / "jobs" / "101" / "hang").touch()
        ended = await m.scheduler.end_of(1)
        assert ended.failed and ended.reason.startswith("no step for 1 s (usually 0.0")

    play(tmp_path, scene)


def test_a_silent_job_is_reported_and_runs_on_unless_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_jobs, "LOOK_S", 0.1)
    monkeypatch.setattr("gavelx.worker.silence.LEAST_S", 0.5)

    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, HANGS)
        silence = lambda: m.runner._running[1].silence  # noqa: E731
        await until(lambda: 1 in m.runner._running and silence() is not None, "the agent looks")
        await until(lambda: bool(silence() and silence().is_known), "steps are known")  # type: ignore[union-attr]
        (tmp_path / "shared" / "jobs" / "101" / "hang").touch()

        def report() -> wire.LeaseReport:
            return m.runner.reports()[0]

        await until(lambda: report().silent_s >= 0.5, "the agent says so")
        assert 0.0 < report().usual_step_s < report().silent_s
        (tmp_path / "shared" / "jobs" / "101" / "hang").unlink()
        await until(lambda: report().silent_s == 0.0, "it goes on")
        assert 1 in m.runner.standing()
        await asyncio.sleep(0)

    play(tmp_path, scene)
