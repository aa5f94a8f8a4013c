"""Looking ahead keeps constraints and counts restarts; a guard gives its own answers once they have earned it."""

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.configuration import ConfigurationSet
from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.policies import Maximize, Throughput, Worst, elastic, guarded, load_policy, lookahead
from gavelx.policies.lookahead import WINDOW
from gavelx.promises import Promises
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
    told = seen.replace(restart_s_J=np.array([restart_s, np.nan]))
    assert lookahead(load_policy("fifo")).allocate(told).throughput_J.argmax() == runs


def test_a_policys_own_answer_restarts_the_jobs_that_it_resizes() -> None:
    table = Throughputs({Setting("m", "a", 1): 1.0, Setting("m", "a", 2): 1.1}, name="t")
    job = Job(0, "m", total_steps=9000.0, elastic=Elastic.of("workers:1-2"))
    seen = Snapshot.of([job], Cluster.of({"a": 2}, 2), table, sizes=True).open("sizes")
    small = ConfigurationSet.alone(np.array([0]), np.array([0]), np.array([1]))
    seen = seen.replace(promised=Promises(("a",), small, np.ones(1)), running_J=np.array([0]))
    for restart_s, devices in ((0.0, 1.1), (1e6, 1.0)):
        policy = lookahead(elastic(load_policy("max_sum_throughput")))
        answer = policy.allocate(seen.replace(restart_s_J=np.array([restart_s])))
        assert answer.throughput_J == pytest.approx([devices])


def test_what_runs_may_go_on_beside_jobs_that_have_just_come() -> None:
    """No candidate does that by itself: each hands out all devices anew, and those to grow go to another job."""
    table = Throughputs({Setting("m", "a", 1): 1.0, Setting("m", "a", 2): 1.1}, name="t")
    elastic_ = Elastic.of("workers:1-2")
    jobs = [Job(n, "m", total_steps=one, elastic=elastic_) for n, one in enumerate((9500.0, 8500.0, 9000.0))]
    seen = Snapshot.of(jobs, Cluster.of({"a": 4}, 4), table, sizes=True).open("sizes")
    wide = ConfigurationSet.alone(np.array([2]), np.array([0]), np.array([2]))
    seen = seen.replace(promised=Promises(("a",), wide, np.ones(1)), running_J=np.array([-1, -1, 0]))
    policy = lookahead(elastic(load_policy("max_min_fairness")))
    answer = policy.allocate(seen.replace(restart_s_J=np.full(3, 1e5)))
    assert answer.throughput_J == pytest.approx([1.0, 1.0, 1.1])


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
