"""Whatever a policy does, one message says what was wrong with it."""

from pathlib import Path

import pytest

from gavelx.asking import ask
from gavelx.cluster import Cluster
from gavelx.errors import PolicyError
from gavelx.files.snapshots import write_snapshot
from gavelx.files.throughput_tables import load_throughputs
from gavelx.policies import agnostic, load_policy
from gavelx.simulator import simulate
from gavelx.simulator.random_jobs import random_jobs
from gavelx.snapshot import Snapshot
from tests.cli.conftest import shell as shell  # noqa: PLC0414  (a fixture)
from tests.cli.running import Shell

CLASS = """
import numpy as np
from gavelx.allocation import Allocation, Certificate
from gavelx.policies import Policy

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
    ("return answer(s, -np.ones(C))", "a share is -1"),
    ("return answer(s, np.ones(C))", "gets 2 of its time"),
    ("return answer(s, np.ones(C) * (s.configurations.accelerator_C == 1))", "5 devices of k80"),
    ("return answer(s, np.zeros(C), objective=float('nan'))", "objective nan"),
    ("return answer(s, np.zeros(C), violation=5.0)", "AssertionError"),
    ("return answer(s.replace(cluster=type(s.cluster).parse('v100=9,k80=9')), np.zeros(C))", "another cluster"),
]
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


@pytest.mark.parametrize(("body", "words"), [WRONG[0], WRONG[2], WRONG[12]])
def test_the_command_line_says_it_and_ends_with_2(shell: Shell, tmp_path: Path, body: str, words: str) -> None:
    text, file = policy_file(tmp_path, body), tmp_path / "snapshot.json"
    write_snapshot(file, SNAPSHOT)
    for run in (("allocate", "--snapshot", file), ("simulate", "--cluster", CLUSTER, "--jobs", 5)):
        ran = shell(run[0], "--policy", text, *run[1:], "--json", tmp_path / "out.json")
        assert ran.code == 2
        assert words in ran.err
        assert not (tmp_path / "out.json").exists()


def test_numbers_of_numpy_in_a_certificate_are_plain_numbers_in_json(tmp_path: Path) -> None:
    policy = load_policy(policy_file(tmp_path, "return answer(s, np.zeros(C), objective=np.float64(2))"))
    certificate = ask(policy, SNAPSHOT).to_json()["certificate"]
    assert (type(certificate["objective"]), type(certificate["classes"])) == (float, int)


def test_a_failure_of_our_own_policies_stays_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = load_policy("fifo")
    monkeypatch.setattr(type(policy), "allocate", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ask(policy, SNAPSHOT)
