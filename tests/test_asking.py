"""Whatever a policy does, one message says what was wrong with it."""

import re
from pathlib import Path
from typing import Any

import pytest

from gavelx.asking import ask, gain_of, policy_opens
from gavelx.cluster import Cluster
from gavelx.errors import PolicyError
from gavelx.files.snapshots import write_snapshot
from gavelx.files.throughput_tables import load_throughputs
from gavelx.policies import MaxMinFairness, agnostic, load_policy
from gavelx.simulator import simulate
from gavelx.simulator.random_jobs import random_jobs
from gavelx.snapshot import Snapshot
from tests.cli.conftest import shell as shell  # noqa: PLC0414  (a fixture)
from tests.cli.running import Shell

CLASS = """
import numpy as np
from gavelx.allocation import Allocation, Certificate
from gavelx.policies import Policy
from gavelx.solvers import certified

def answer(snapshot, share_C, objective=None, violation=0.0):
    return Allocation(snapshot, share_C, Certificate(objective, None, violation, "mine", np.int64(1), 0.0))

class Mine(Policy):
    def allocate(self, s):
        C = len(s.configurations)
        BODY
"""
WRONG = [
    ("return None", "returned a NoneType"),
    ("return Allocation(s, np.zeros(C), None)", "Mine"),
    ("return {}['speed']", "KeyError: 'speed'"),
    ("raise RuntimeError('two\\nlines')", "RuntimeError: two lines"),
    ("import sys; sys.exit(3)", "SystemExit: 3"),
    ("return self.allocate(s)", "RecursionError"),
    ("return answer(s, [0.0] * C)", "AttributeError"),
    ("return answer(s, np.zeros(C + 1))", "shape"),
    ("return answer(s, np.zeros(C, dtype=object))", "array of object"),
    ("return answer(s, np.full(C, np.nan))", "not a finite number"),
    ("return certified(s, np.full(C, np.nan), path='', seconds=0.0)", "not a finite number"),
    (
        "return certified(s, np.ones((C, 2)), path='', seconds=0.0)",
        "shape (10, 2); expected numbers with shape (10,)",
    ),
    ("return certified(s, ['1'] * C, path='', seconds=0.0)", "array of <U1"),
    ("return certified(s, np.full(C, 0.5 + 1e-6), path='', seconds=0.0)", "gets 1.000002 of its time"),
    ("return certified(s, np.full(C, 0.5 + 3e-9), path='', seconds=0.0)", "gets 1.00000001 of its time"),
    ("return certified(s, -1e-3 * np.ones(C), path='', seconds=0.0)", "a share is -0.001"),
    ("return answer(s, -np.ones(C))", "a share is -1"),
    ("return answer(s, np.ones(C))", "gets 2 of its time"),
    ("return answer(s, np.ones(C) * (s.configurations.accelerator_C == 1))", "5 devices of k80"),
    ("return answer(s, np.zeros(C), objective=float('nan'))", "objective nan"),
    ("return answer(s, np.zeros(C), violation=5.0)", "AssertionError"),
    ("return answer(s.replace(cluster=type(s.cluster).parse('v100=9,k80=9')), np.zeros(C))", "another cluster"),
]
OWN = """
import dataclasses
import numpy as np
from gavelx.configurations import joined
from gavelx.policies import MaxMinFairness, Policy

def fair(s):
    return MaxMinFairness().allocate(s)

class Mine(Policy):
    opens = frozenset(KINDS)

    def allocate(self, s):
        known = s.known
        BODY
"""
FOREIGN = [
    "return fair(s.replace(known=dataclasses.replace(known, devices_C=known.devices_C * 2)))",
    "return fair(s.replace(known=known.with_speeds(lambda speed_M: speed_M * 1.5)))",
    "wide = dataclasses.replace(known, devices_C=known.devices_C + 1, throughput_M=known.throughput_M * 1.9); "
    "return fair(s.replace(known=joined([known, wide])))",
    "return fair(s.replace(known=joined([known, known])))",
    "return fair(s.replace(known=dataclasses.replace(known, accelerator_C=1 - known.accelerator_C)))",
    "return fair(s.replace(known=dataclasses.replace(known, job_M=known.job_M[::-1])))",
    "spread_C = np.ones(len(known), dtype=bool); "
    "return fair(s.replace(known=dataclasses.replace(known, spread_C=spread_C)).open('placements'))",
]
"""Ways to run of a policy's own making: wider, faster, twice, elsewhere, of another job, spread."""
OFFERED = [
    "return fair(s)",
    "return fair(s.open('pairs').open('placements'))",
    "return fair(s.replace(known=known.where(known.accelerator_C == 0)))",
    "return fair(s.replace(known=dataclasses.replace(known, barred_C=known.accelerator_C == 1)))",
    "return fair(s.replace(known=dataclasses.replace(known, throughput_M=known.throughput_M.copy())))",
    "members = known.configuration_M.argsort(kind='stable')[::-1]; "
    "columns = {name: getattr(known, name)[members] for name in ('job_M', 'configuration_M', 'throughput_M')}; "
    "return fair(s.replace(known=dataclasses.replace(known, **columns)).open('pairs'))",
]
"""Answers over what the snapshot offers: all of it, more kinds, a part, some barred, copied, in another order."""
THROUGHPUTS, CLUSTER = load_throughputs("simulation"), Cluster.parse("v100=2,k80=2")
JOBS = random_jobs(5, THROUGHPUTS, seed=1)
SNAPSHOT = Snapshot.of(JOBS, CLUSTER, THROUGHPUTS)


def policy_file(folder: Path, body: str) -> str:
    (folder / "mine.py").write_text(CLASS.replace("BODY", body))
    return f"{folder / 'mine.py'}:Mine"


@pytest.mark.parametrize(("body", "words"), WRONG)
def test_a_policy_that_fails_or_answers_nonsense_is_one_message(tmp_path: Path, body: str, words: str) -> None:
    policy = load_policy(policy_file(tmp_path, body))
    for asked in (policy, agnostic(policy)):
        with pytest.raises(PolicyError) as caught:
            ask(asked, SNAPSHOT)
        assert words in str(caught.value)
        assert "policy Mine" in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(PolicyError):
        simulate(policy, JOBS, CLUSTER, THROUGHPUTS)


@pytest.mark.parametrize("opens", [None, 7, "sizes", {"sizes", 7}, ["pears"]])
def test_what_a_policy_opens_are_kinds_of_configurations(opens: object) -> None:
    class Mine(MaxMinFairness):
        pass

    Mine.opens = opens  # type: ignore[assignment]
    with pytest.raises(PolicyError, match=r"policy Mine: its opens is .* expected a set of 'pairs', 'placements'"):
        policy_opens(Mine())
    with pytest.raises(PolicyError, match="its opens is"):
        simulate(Mine(), JOBS, CLUSTER, THROUGHPUTS)


@pytest.mark.slow
@pytest.mark.parametrize(("body", "words"), [WRONG[0], WRONG[2], WRONG[12]])
def test_the_command_line_says_it_and_ends_with_2(shell: Shell, tmp_path: Path, body: str, words: str) -> None:
    text, file = policy_file(tmp_path, body), tmp_path / "snapshot.json"
    write_snapshot(file, SNAPSHOT)
    for run in (("allocate", "--snapshot", file), ("simulate", "--cluster", CLUSTER, "--jobs", 5)):
        ran = shell(run[0], "--policy", text, *run[1:], "--json", tmp_path / "out.json")
        assert ran.code == 2
        assert words in ran.err
        assert not (tmp_path / "out.json").exists()


def own_configurations(folder: Path, body: str, kinds: tuple[str, ...] = ()) -> str:
    (folder / "own.py").write_text(OWN.replace("BODY", body).replace("KINDS", repr(kinds)))
    return f"{folder / 'own.py'}:Mine"


@pytest.mark.parametrize("body", FOREIGN)
def test_configurations_of_a_policys_own_making_are_refused(tmp_path: Path, body: str) -> None:
    policy = load_policy(own_configurations(tmp_path, body))
    with pytest.raises(PolicyError, match=r"policy Mine: allocate\(\) answered with a configuration") as caught:
        ask(policy, SNAPSHOT)
    assert re.search(r"job \d \(\w.*\) on \d x (v100|k80)( spread)? at \d+\.\d+ steps/s", caught.value.problem)
    assert "open('pairs')" in caught.value.hint
    with pytest.raises(PolicyError, match="answered with a configuration"):
        simulate(policy, JOBS, CLUSTER, THROUGHPUTS)


def test_what_a_modifier_shows_its_policy_is_what_is_offered(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"policy Mine: .* does not offer"):
        ask(agnostic(load_policy(own_configurations(tmp_path, FOREIGN[0]))), SNAPSHOT)


def test_a_foreign_configuration_is_named_beside_what_is_offered(tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        ask(load_policy(own_configurations(tmp_path, FOREIGN[0])), SNAPSHOT)
    job, speed = JOBS[0], THROUGHPUTS.get(JOBS[0].job_type, "v100", 1)
    assert caught.value.problem.endswith(f"job {job.id} ({job.job_type}) on 2 x v100 at {speed:.6g} steps/s")
    assert caught.value.expected.endswith(f"job {job.id} ({job.job_type}) on 1 x v100 at {speed:.6g} steps/s")


@pytest.mark.parametrize("body", OFFERED)
def test_an_answer_over_what_is_offered_is_taken(tmp_path: Path, body: str) -> None:
    policy = load_policy(own_configurations(tmp_path, body, ("pairs", "placements")))
    gangs = random_jobs(5, THROUGHPUTS, seed=1, multi_gpu=True)
    for jobs in (JOBS, gangs, ()):
        ask(policy, Snapshot.of(jobs, CLUSTER, THROUGHPUTS, pairs=True, placements=True))
    assert simulate(policy, JOBS, CLUSTER, THROUGHPUTS).summary()["jobs_completed"] == len(JOBS)


def test_numbers_of_numpy_in_a_certificate_are_plain_numbers_in_json(tmp_path: Path) -> None:
    policy = load_policy(policy_file(tmp_path, "return answer(s, np.zeros(C), objective=np.float64(2))"))
    certificate = ask(policy, SNAPSHOT).to_json()["certificate"]
    assert (type(certificate["objective"]), type(certificate["classes"])) == (float, int)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("fifo", "no policy: 'fifo'; expected an object with allocate(snapshot). Try: load_policy('fifo')"),
        (MaxMinFairness, "a class is no policy: MaxMinFairness; expected an object with allocate(snapshot)"),
        (None, "no policy: None"),
    ],
)
def test_what_is_no_policy_is_not_said_to_have_failed(given: Any, words: str) -> None:
    speeds = load_throughputs("simulation")
    with pytest.raises(PolicyError) as caught:
        simulate(given, random_jobs(1, speeds), Cluster.parse("v100=1"), speeds)
    assert words in str(caught.value)


def test_a_failure_of_our_own_policies_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = load_policy("fifo")
    monkeypatch.setattr(type(policy), "allocate", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ask(policy, SNAPSHOT)


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (lambda self, snapshot, share_C: 1 / 0, "gain() failed with ZeroDivisionError"),
        (lambda self, snapshot: 1.0, "gain() failed with TypeError"),
        (lambda self, snapshot, share_C: share_C, "gain() returned a ndarray; expected a number, or None"),
        (lambda self, snapshot, share_C: "much", "gain() returned a str"),
    ],
)
def test_a_gain_that_fails_names_the_policy_and_the_line(gain: Any, words: str) -> None:
    own: Any = type("Own", (MaxMinFairness,), {"gain": gain, "__module__": __name__})()
    for policy in (own, agnostic(own)):
        with pytest.raises(PolicyError) as caught:
            gain_of(policy, SNAPSHOT, SNAPSHOT.known.throughput_M)
        assert f"policy Own: {words}" in str(caught.value)
        assert "test_asking.py, line" in str(caught.value)
