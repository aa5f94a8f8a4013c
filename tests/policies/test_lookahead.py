"""Looking ahead keeps constraints and counts restarts; a guard gives its own answers once they have earned it."""

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.jobs import Job
from gavelx.policies import Maximize, Throughput, Worst, guarded, load_policy, lookahead
from gavelx.policies.lookahead import WINDOW
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Throughputs

TABLE = Throughputs({Setting("m", "a", 1): 1.0}, name="t")
CLUSTER = Cluster.of({"a": 1}, 1)


def snapshot(*steps: float) -> Snapshot:
    """Jobs for the one device."""
    return Snapshot.of([Job(n, "m", total_steps=one) for n, one in enumerate(steps)], CLUSTER, TABLE, sizes=True)


def test_the_shortest_job_comes_first_unless_a_constraint_says_otherwise() -> None:
    seen = snapshot(9000.0, 300.0)
    free = lookahead(Maximize(Worst(Throughput()))).allocate(seen)
    np.testing.assert_allclose(free.throughput_J, [0.0, 1.0], atol=1e-6)
    kept = lookahead(Maximize(Worst(Throughput()), [Throughput() >= 0.4])).allocate(seen)
    np.testing.assert_allclose(kept.throughput_J, [0.5, 0.5], atol=1e-6)


@pytest.mark.parametrize(("restart_s", "runs"), [(0.0, 1), (1e6, 0)])
def test_a_running_job_makes_way_where_that_is_worth_its_restart(restart_s: float, runs: int) -> None:
    seen = snapshot(9000.0, 400.0).replace(running_J=np.array([0, -1]))
    answer = lookahead(load_policy("fifo"), restart_s=restart_s).allocate(seen)
    assert answer.throughput_J.argmax() == runs


def test_a_guard_gives_its_own_answers_once_they_have_earned_it_and_no_worse_one() -> None:
    short_first, long_first = load_policy("srtf"), load_policy("fifo")
    seen, given = snapshot(9000.0, 400.0), []
    policy = guarded(short_first, long_first, restart_s=0.0)
    for _ in range(WINDOW):
        answer = policy.allocate(seen)
        given.append(int(answer.throughput_J.argmax()))
        seen = seen.replace(memory=answer.memory)
    earned = WINDOW - WINDOW // 4 - 1
    assert given == [0] * earned + [1] * (WINDOW - earned)
    worse = guarded(long_first, short_first, restart_s=0.0).allocate(seen)
    assert worse.throughput_J.argmax() == 1
