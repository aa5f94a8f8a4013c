"""The explanation as data: what it says agrees with the allocation, and it is plain JSON."""

import json

import numpy as np
import pytest
from hypothesis import given, settings

from gavelx.allocation import Allocation
from gavelx.explain import explanation
from gavelx.explain.explanation import Explanation
from gavelx.policies import load_policy
from gavelx.snapshot import Snapshot
from gavelx.solvers.program.errors import UnsolvedError
from tests.explain.allocations import UNKNOWN, given_shares, instant
from tests.policies.strategies import snapshots

# Job 0 has the v100, job 1 the k80, job 2 nothing; job 3 can run nowhere. With a quarter of each, job 0 has
# (4 + 1) / 4 steps/s, job 1 (2 + 1) / 4, job 2 3 / 4.
FOUR = instant({"v100": 1, "k80": 1}, [[4.0, 1.0], [2.0, 1.0], [2.0, 1.0], [0.0, UNKNOWN]])
EXPLAINED = Explanation(given_shares(FOUR, [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]))


def test_who_is_worst_off() -> None:
    np.testing.assert_allclose(EXPLAINED.gain_J, [4 / 1.25 - 1, 1 / 0.75 - 1, -1.0, np.nan])
    assert EXPLAINED.worst_first_J.tolist() == [2, 1, 0, 3]
    assert EXPLAINED.worse_off_J.tolist() == [2]
    assert not len(Explanation(load_policy("isolated").allocate(FOUR)).worse_off_J)


def test_who_envies_whom() -> None:
    assert EXPLAINED.envious_J.tolist() == [2, 1]
    assert EXPLAINED.envied_J[[1, 2]].tolist() == [0, 0]


def test_json() -> None:
    document = json.loads(json.dumps(EXPLAINED.to_json(), allow_nan=False))
    assert document["accelerators"]["k80"]["in_use"] == 1.0
    assert document["accelerators"]["v100"]["one_more_device"] is None
    assert [job["equal_share_gain"] is None for job in document["jobs"]] == [False, False, False, True]
    assert [(job["envy"], job["envies"]) for job in document["jobs"]] == [(0, None), (1, 0), (None, 0), (0, None)]
    assert document["sharing_incentive"] == {"holds": False, "jobs_worse_off": 1}
    assert document["envy_freeness"] == {"holds": False, "jobs_envious": 2}
    assert document["pareto_efficiency"] == {"holds": True, "slack": pytest.approx(0.0, abs=1e-9)}


def test_a_solver_that_gives_up_is_no_reason_to_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(allocation: Allocation) -> float:
        raise UnsolvedError("time limit reached")

    monkeypatch.setattr(explanation, "pareto_slack", give_up)
    document = Explanation(EXPLAINED.allocation).to_json()
    assert document["pareto_efficiency"] == {"holds": None, "slack": None}
    assert len(document["jobs"]) == 4


def test_dollars_for_one_per_cent_of_the_objective() -> None:
    # The largest sum is 4 + 1 = 5. A second v100 at 3 dollars an hour brings 1 (job 1 moves up) and 1 (job 2 takes
    # its k80), 40 %: 7.5 cents for each per cent; one less would cost 4, 80 %: 3.75 cents. The dual price is one
    # of these or between. A second k80 at 50 cents brings 1, 20 %: 2.5 cents.
    explained = Explanation(load_policy("max_sum_throughput").allocate(FOUR))
    assert 0.0375 * (1 - 1e-9) <= explained.usd_per_percent["v100"] <= 0.075 * (1 + 1e-9)
    assert explained.usd_per_percent["k80"] == pytest.approx(0.025)
    unpriced = FOUR.replace(usd_per_hour_A=np.array([3.0, np.nan]))
    assert list(Explanation(load_policy("max_sum_throughput").allocate(unpriced)).usd_per_percent) == ["v100"]


@pytest.mark.parametrize("name", ["max_min_fairness", "max_sum_throughput", "isolated", "fifo", "agnostic(fifo)"])
@settings(max_examples=30)
@given(snapshot=snapshots())
def test_every_explanation_is_plain_json(name: str, snapshot: Snapshot) -> None:
    document = Explanation(load_policy(name).allocate(snapshot)).to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert len(document["jobs"]) == len(snapshot.jobs)
