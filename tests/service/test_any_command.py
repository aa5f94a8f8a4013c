"""``gavelx submit -- ./anything`` just runs: twenty kinds of commands, of which nothing is said but the words.

Real processes on real and emulated agents; the jobs take seconds where those of users take minutes.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.deployed import any_command
from experiments.deployed.any_command import PARTS, TIMING, Found, carry_out, configuration, found_in
from experiments.deployed.commands import liars, submissions, true_speed, twenty
from experiments.deployed.local import LocalCluster
from gavelx.policies import load_policy
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.state.replay import read_recorded
from gavelx.simulator import simulate
from tests.service.running import run
from tests.waiting import PATIENCE_S


async def explained(cluster: LocalCluster, job_id: int) -> dict[str, Any]:
    reply = await cluster.call("Explain", wire.ExplainRequest(version=1, job_id=job_id))
    return dict(json.loads(reply.explanation_json))


def test_the_true_speed_is_by_a_scripts_own_clock(tmp_path: Path) -> None:
    """Two runs, the second one stopped after a line that is not whole; another pace is another file."""
    script = tmp_path / "steps.py"
    assert true_speed(script, 10.0) is None
    Path(f"{script}.10").write_text("1 100.0\n2 100.2\n3 100.4\n1 200.0\n2 200.2\n3")
    Path(f"{script}.30").write_text("1 100.0\n")
    assert true_speed(script, 10.0) == pytest.approx(5.0)
    assert true_speed(script, 30.0) is None


STEPS, LONGER = 60, (1, 4)
"""What a busy machine has no time for is tried with more of it."""


@pytest.mark.slow
def test_twenty_kinds_of_commands(tmp_path: Path) -> None:
    for times in LONGER:
        found = twenty_ran(tmp_path / f"{times}", times * STEPS)
        assert found.wrong == found.wrong_by_the_clock
        if not found.wrong:
            break
    assert found.wrong == []
    check_that_what_is_wrong_is_found(found)


def twenty_ran(folder: Path, steps: int) -> Found:
    """Those that count take so many steps."""
    folder.mkdir()
    specs = submissions(folder, twenty(steps=steps))
    assert len(specs) == 20

    async def main() -> None:
        async with LocalCluster(folder / "cluster", configuration(4.0), timing=TIMING) as cluster:
            await cluster.join(*PARTS["twenty"])
            ids = await cluster.submit(*specs.values())
            name_of = dict(zip(ids, specs, strict=True))
            for job in await cluster.jobs(ids):
                assert job.job_type == name_of[job.job_id], "its type is its name"
                assert job.total_steps == 0.0
                assert job.reason or job.state != "waiting", "it says why it waits"
            told = [await explained(cluster, job_id) for job_id in ids]
            assert all("name of its command" in one["type_is"] for one in told)
            await cluster.until_ended(PATIENCE_S, at_least=20)

    run(main())
    log = str(folder / "cluster" / "log")
    found = found_in("twenty", list(specs), log)
    check_replay(log, sum(one.state == "complete" for one in found.commands))
    return found


def check_replay(log: str, complete: int) -> None:
    """The recorded commands, as long as they were, simulated by a scheduler that does not know that either."""
    recorded = read_recorded(log)
    assert recorded.untold
    assert len(recorded.jobs) == len(recorded.completion_s) == complete
    rules, table = recorded.configuration.rules, recorded.throughputs
    policy = load_policy("max_min_fairness")
    result = simulate(policy, recorded.jobs, recorded.cluster, table, rules=rules, lengths="believed")
    assert not result.unfinished
    T_JA = table.matrix(result.jobs, recorded.cluster.accelerators)
    steps_J = np.array([job.total_steps for job in result.jobs])
    longest_s = float((steps_J / np.nanmax(T_JA, axis=1)).max())
    one_by_one_s = float((steps_J / np.nanmin(T_JA, axis=1) + 2.0 * rules.round_s).sum())
    assert longest_s <= result.end_s <= one_by_one_s + max(job.arrival_s for job in result.jobs)


def check_that_what_is_wrong_is_found(found: Found) -> None:
    first, *others = found.commands
    for bad in (
        replace(first, state="failed"),
        replace(first, launches=0),
        replace(first, spent_usd=first.spent_usd + 0.01),
    ):
        assert any(first.name in problem for problem in replace(found, commands=(bad, *others)).wrong)
    assert replace(found, speed_ratios=dict.fromkeys(found.speed_ratios, 1.2)).wrong
    assert replace(found, speed_ratios={}).wrong
    assert replace(found, ranges_held=(5, 10)).wrong
    assert replace(found, lengths_held=(12, 18)).wrong
    assert replace(found, part="crowded", commands=(first,)).wrong


@pytest.mark.slow
def test_commands_that_lie_end_and_pay_for_what_they_held(tmp_path: Path) -> None:
    found = run_part("liars", tmp_path)
    assert len(found.commands) == len(liars()) == 20
    assert found.wrong == []
    steps = {one.name: one.steps for one in found.commands}
    honest = {"totals.py", "contradicts.py", "escapes.py", "percent.py"}
    assert all(0 < steps[name] <= 15 for name in honest), steps
    silent = {"beyond.py", "negative.py", "nan.py", "infinite.py", "epochs.py", "giant.py", "zero.py"}
    assert all(steps[name] == 0 for name in silent), steps


@pytest.mark.slow
def test_commands_that_are_preempted_in_every_round_still_end(tmp_path: Path) -> None:
    """Three scripts that save nothing, and one device: none ends within its turn."""
    for times in LONGER:
        (folder := tmp_path / f"{times}").mkdir()
        found = run_part("crowded", folder, times)
        assert [one.state for one in found.commands] == ["complete"] * 3
        preempted = sum(one.launches - 1 for one in found.commands)
        if preempted >= 2:
            break
    assert preempted >= 2, "they were preempted"


def run_part(part: str, folder: Path, times: int = 1) -> Found:
    found, round_s = list[Found](), 1.0 if part == "crowded" else 4.0

    async def main() -> None:
        found.append(await carry_out(part, folder, round_s, long_s=12.0, times=times))

    run(main())
    return found[0]


@pytest.mark.parametrize("words", [["--only", "nothing"], ["--round", "0"], ["--long-s", "nan"]])
def test_wrong_options_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        any_command.main(words)
    assert words[0] in capsys.readouterr().err
