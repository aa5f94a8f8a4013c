"""Runs in which everything goes wrong: a bounded number of seeds here, thousands with ``make simulate``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gavelx.mechanism import Mechanism
from gavelx.mechanism.commands import Command
from gavelx.mechanism.events import Event
from tests.swarm.__main__ import main
from tests.swarm.cases import Case, case_of
from tests.swarm.run import outcome, run

SEEDS = range(60)
TWICE = (2, 5, 11)
FOUND = (268, 829, 873, 1583, 1787, 20676, 910080)
"""A simulation that ended while a server had said that it would lend fewer devices; published answers on a
cluster on which some jobs, or all, can run nowhere; a server whose offer was heard before the news that it
had come back; a resize that is taken back while its job still writes a checkpoint."""


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [SEEDS[first::6] for first in range(6)], ids=lambda seeds: f"from {seeds[0]}")
def test_when_the_faults_stop_every_job_is_done_and_the_books_add_up(seeds: range) -> None:
    problems = [outcome(seed) for seed in seeds]
    assert not [problem for problem in problems if problem[1]]


@pytest.mark.parametrize("seed", FOUND)
def test_what_a_larger_swarm_found_stays_mended(seed: int) -> None:
    assert not outcome(seed)[1]


def test_the_seeds_cover_what_there_is() -> None:
    cases = [case_of(seed) for seed in SEEDS]
    assert {case.rules.name for case in cases} == {"default", "published"}
    assert len({case.policy for case in cases}) > 8
    assert any(job.scale_factor > 1 for case in cases for job in case.jobs)
    for fault in ("lost", "late", "doubled", "slow_solves", "server_failures_per_day", "job_failures_per_hour"):
        assert 10 < sum(getattr(case.faults, fault) > 0 for case in cases) < 50
    assert any(case.price_changes for case in cases)
    assert 3 < sum(bool(case.lending) for case in cases) < 30
    assert 10 < sum(not all(job.checkpoints for job in case.jobs) for case in cases) < 50
    assert {job.preemptible for case in cases for job in case.jobs} == {"auto", "yes", "no"}


def log_of(seed: int) -> str:
    lines: list[str] = []
    run(case_of(seed), lines.append)
    return "".join(lines)


@pytest.mark.parametrize("seed", TWICE)
def test_the_same_seed_writes_the_same_log(seed: int) -> None:
    first = log_of(seed)
    assert first == log_of(seed)
    assert first.count("\n") > 15


@pytest.mark.slow
def test_the_same_seed_writes_the_same_log_in_another_process(tmp_path: Path) -> None:
    """Whatever order Python gives to sets there."""
    for hash_seed in ("1", "2"):
        log = tmp_path / hash_seed
        words = [sys.executable, "-m", "tests.swarm", "--seed", "5", "--log", str(log)]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run(words, check=True, env=environment, capture_output=True)
        assert log.read_text(encoding="utf-8") == log_of(5)


def test_the_command_says_how_many_passed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "0:3"]) == 0
    assert capsys.readouterr() == ("3 of 3 seeds passed\n", "")


def test_one_seed_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "2"]) == 0
    assert capsys.readouterr().out.startswith(f"{case_of(2)}\n  jobs_completed: ")


def test_a_seed_that_fails_says_how_to_repeat_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Mechanism, "handle", deaf)
    assert main(["--seeds", "3:5"]) == 1
    out = capsys.readouterr().out
    assert "the mechanism is wrong and was told\n  again: make simulate SEED=3\n" in out
    assert out.endswith("0 of 2 seeds passed\n")
    assert main(["--seed", "3"]) == 1
    assert "make simulate SEED=3" in capsys.readouterr().out


def deaf(mechanism: Mechanism, event: Event) -> list[Command]:
    return []


def test_cases_differ() -> None:
    assert len({repr(case_of(seed)) for seed in SEEDS}) == len(SEEDS)
    assert isinstance(case_of(1), Case)
