"""Policies of the user's own: asked in a process that is stopped when the time budget is spent."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from gavelx.cli.stoppable import Stoppable
from gavelx.cli.stopping import is_ours, stoppable
from gavelx.errors import PolicyError, SolverError
from gavelx.fallback import FallbackPolicy
from gavelx.policies import load_policy
from gavelx.service.loop import policy_process as elsewhere
from gavelx.solvers import using
from tests.policies.small import snapshot
from tests.waiting import wait_until

MINE = """
import os, time
from gavelx.errors import SolverError
from gavelx.policies import Policy, load_policy

class Mine(Policy):
    name = "mine"
    asked = 0

    def allocate(self, snapshot):
        self.asked += 1
        {does}
        return load_policy("max_min_fairness").allocate(snapshot)

mine = Mine()
"""
SNAPSHOT = snapshot("a", "b")


@pytest.fixture(autouse=True)
def in_short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(elsewhere, "SLACK_S", 0.2)
    with using(budget_s=0.1):
        yield


def policy_that(does: str, folder: Path) -> str:
    (folder / "own.py").write_text(MINE.format(does=does))
    return f"{folder}/own.py:mine"


@pytest.mark.slow
@pytest.mark.parametrize("does", ["time.sleep(1000)", "while True: pass"])
def test_it_is_stopped_when_its_time_is_spent_and_asked_again_later(tmp_path: Path, does: str) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    text = policy_that(f"\n        if os.path.exists({str(flag)!r}):\n            {does}", tmp_path)
    with stoppable(text) as policy:
        with pytest.raises(SolverError, match=r"own.py:mine took longer than 0.31 s and was stopped"):
            policy.allocate(SNAPSHOT)
        steady = FallbackPolicy(policy)
        assert "carried over" in steady.allocate(SNAPSHOT).certificate.path
        flag.unlink()
        with using(budget_s=60.0):
            assert "carried over" not in steady.allocate(SNAPSHOT).certificate.path
        assert len(steady.failures) == 1


@pytest.mark.slow
def test_it_answers_as_it_would_here_and_keeps_what_it_knows(tmp_path: Path) -> None:
    with (
        stoppable(policy_that("pass", tmp_path)) as policy,
        using(budget_s=60.0),
    ):
        assert isinstance(policy, Stoppable) and str(policy) == "mine"
        here = load_policy("max_min_fairness").allocate(SNAPSHOT)
        for _ in range(2):
            there = policy.allocate(SNAPSHOT)
            np.testing.assert_allclose(there.share_C, here.share_C, atol=1e-9)
            assert there.certificate.objective == here.certificate.objective
    text = policy_that("\n        if self.asked == 2: raise SolverError('for the second time')", tmp_path)
    with stoppable(text) as policy, using(budget_s=60.0):
        policy.allocate(SNAPSHOT)
        with pytest.raises(SolverError, match="for the second time"):
            policy.allocate(SNAPSHOT)


@pytest.mark.parametrize(
    ("does", "words"),
    [("os._exit(3)", "ended the process"), ("[][1]", r"failed with IndexError.*own.py, line 12")],
)
def test_what_goes_wrong_there_is_said_here(tmp_path: Path, does: str, words: str) -> None:
    there = stoppable(policy_that(does, tmp_path))
    with there as policy, using(budget_s=60.0), pytest.raises(PolicyError, match=words):
        policy.allocate(SNAPSHOT)


def test_which_policies_are_ours(tmp_path: Path) -> None:
    own = policy_that("pass", tmp_path)
    for text in ("fifo", "max_min_fairness", "packed(max_min_fairness)", "Maximize(SumThroughput())"):
        assert is_ours(load_policy(text)), text
    for text in (own, f"agnostic({own})", f"agnostic(agnostic({own}))"):
        assert not is_ours(load_policy(text)), text


def test_waiting_for_a_processor_is_not_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"now": 100.0, "waited": 7.0}
    monkeypatch.setattr(time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(elsewhere, "_waited_s", lambda pid: clock["waited"])
    taken_s = elsewhere.own_time(1)
    clock.update(now=160.0, waited=57.0)
    assert taken_s() == pytest.approx(10.0)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="no word of waiting")
def test_what_the_system_says_of_waiting() -> None:
    assert 0.0 <= elsewhere._waited_s(os.getpid()) < time.monotonic()
    assert elsewhere._waited_s(2**30) == 0.0


@pytest.mark.slow
def test_an_endless_policy_ends_with_the_one_who_asked(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    does = f"\n        open({str(pid_file)!r}, 'w').write(str(os.getpid()) + ' ')\n        while True: pass"
    asks = "from gavelx.cli.stopping import stoppable; from tests.policies.small import snapshot\n"
    asks += f"with stoppable({policy_that(does, tmp_path)!r}) as policy: policy.allocate(snapshot('a'))"
    with subprocess.Popen([sys.executable, "-c", asks]) as asking:
        wait_until(lambda: pid_file.exists() and pid_file.read_text().endswith(" "), "the policy is asked")
        asking.send_signal(signal.SIGKILL)
    wait_until(lambda: not running(int(pid_file.read_text())), "the policy ends")


def running(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
