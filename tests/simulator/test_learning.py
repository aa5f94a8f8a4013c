"""Schedulers that do not know the true speeds: they decide by what they believe, and may learn from leases."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.errors import WorkloadError
from gavelx.estimator.estimated_table import Believed, throughputs_of, ways_of
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.measurements import Measurement, Way
from gavelx.mechanism.rules import DEFAULT
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.simulator.backend import MEASURED_AGAIN_S
from gavelx.simulator.faults import Faults
from gavelx.simulator.learning import RELEARN_S, Learns, where_it_runs
from gavelx.simulator.random_jobs import random_jobs
from gavelx.throughputs import Pairing, Setting, Throughputs
from tests.estimator.guessing import Guessing

ON_V, ON_K, BESIDE = Setting("a", "v100"), Setting("a", "k80"), Pairing("a", "a", "v100")
TRUE = Throughputs({ON_V: 10.0, ON_K: 1.0}, {BESIDE: 0.0})
UPSIDE_DOWN = {ON_V: 1.0, ON_K: 10.0}
CLUSTER = Cluster.of({"v100": 1, "k80": 1})
LONE_JOB = [Job(0, "a", 36000.0)]


def run(believed: Throughputs | Learns | None, jobs: list[Job] | None = None) -> Result:
    return simulate(load_policy("max_min_fairness"), jobs or LONE_JOB, CLUSTER, TRUE, believed=believed)


def test_the_policy_acts_on_what_is_believed_and_jobs_run_as_fast_as_they_do() -> None:
    assert run(None).jct_s_J == pytest.approx([3600.0])
    misled = run(Throughputs(UPSIDE_DOWN))
    assert misled.jct_s_J == pytest.approx([36000.0])
    assert misled.throughput_JA.tolist() == [[10.0, 1.0]]  # fairness is judged by the truth


def test_believing_the_truth_changes_nothing() -> None:
    table = load_throughputs("simulation")
    jobs, cluster = random_jobs(25, table, seed=3, arrival_rate_per_hour=6.0), Cluster.of({"v100": 2, "k80": 2})
    policy = load_policy("packed(max_min_fairness)")
    plain, told = (simulate(policy, jobs, cluster, table, believed=b) for b in (None, replace(table)))
    assert np.array_equal(plain.completion_s_J, told.completion_s_J)


def test_what_leases_measured_sets_it_right() -> None:
    learner = Believed(Guessing(UPSIDE_DOWN), [ON_V, ON_K])
    jobs = [Job(j, "a", 7200.0, arrival_s=1800.0 * j) for j in range(12)]
    taught, misled = run(learner, jobs), run(Throughputs(UPSIDE_DOWN), jobs)
    assert taught.jct_s_J.mean() < 0.8 * misled.jct_s_J.mean()
    assert learner.throughputs().isolated == pytest.approx(TRUE.isolated)


def test_leases_in_other_sizes_measure_gangs_of_so_many_devices() -> None:
    """Two devices are believed to be six times as fast as one, and are 1.65 times; of three parts one waits."""
    two = ON_V._replace(scale_factor=2)
    true = Throughputs({ON_V: 10.0, two: 16.5})
    learner = Believed(Guessing({ON_V: 10.0, two: 60.0}), [ON_V, two])
    elastic = Elastic.of("workers:1-2/3")
    jobs = [Job(j, "a", 36000.0, arrival_s=1800.0 * j, elastic=elastic) for j in range(6)]
    policy = load_policy("elastic(max_min_fairness)")
    result = simulate(policy, jobs, Cluster.of({"v100": 2}), true, believed=learner)
    assert (result.leases.devices_L == 2).any()
    assert learner.throughputs().isolated == pytest.approx(true.isolated)


def test_a_job_alone_in_a_size_that_is_slower_than_was_thought_leaves_it() -> None:
    """Eight devices are thought to be faster than seven, and are slower: the lease measures that while it runs."""
    ways = {n: Setting("a", "v100", n) for n in range(1, 9)}
    true = Throughputs({way: float(n if n < 8 else 3) for n, way in ways.items()})
    hopeful = {way: float(n) for n, way in ways.items()}
    jobs = [Job(0, "a", 40_000.0, elastic=Elastic.of("workers:1-8/840"))]
    resized = Overheads(Overhead(restart_s=30.0, resize_s=2.0))
    rules = replace(DEFAULT.with_round(60.0), overheads=resized)
    policy, cluster = load_policy("elastic(easyscale)"), Cluster.of({"v100": 16}, 8)

    def run(believed: Throughputs | Learns) -> Result:
        return simulate(policy, jobs, cluster, true, rules=rules, believed=believed)

    result = run(Believed(Guessing(hopeful), list(ways.values())))
    leases = result.leases
    assert leases.devices_L.tolist() == [8, 7], "and it does not try again"
    assert leases.end_s_L[0] == pytest.approx(RELEARN_S, abs=121.0), "as soon as the table is made anew"
    assert (result.resizes_J.tolist(), result.restarts_J.tolist()) == ([1], [0])
    assert result.jct_s_J[0] < 0.65 * run(Throughputs(hopeful)).jct_s_J[0]


@pytest.mark.parametrize("round_s", [20.0, 360.0, 3600.0])
def test_a_lease_that_goes_on_measures_each_second_once(round_s: float) -> None:
    """Also where rounds are short or the scheduler sleeps through them; and each time with a noise of its own."""
    told: list[Measurement] = []

    class Listens(Believed):
        def observe(self, measurements: Iterable[Measurement]) -> None:
            told.extend(heard := list(measurements))
            super().observe(heard)

    policy, jobs = load_policy("isolated"), [Job(0, "a", 10.0 * 20_000.0)]
    learner, faults = Listens(Guessing({ON_V: 10.0}), [ON_V]), Faults(measured_noise=0.1)
    rules, cluster = DEFAULT.with_round(round_s), Cluster.of({"v100": 1})
    result = simulate(policy, jobs, cluster, TRUE, rules=rules, believed=learner, faults=faults)
    assert len(result.leases) == 1
    assert len(told) >= 20_000.0 / max(RELEARN_S, round_s) - 2
    assert all(each.seconds >= MEASURED_AGAIN_S for each in told)
    assert 20_000.0 - 2 * max(RELEARN_S, round_s) <= sum(each.seconds for each in told) <= 20_000.0
    assert len({each.steps_per_second for each in told}) == len(told)


def test_measured_noise_is_seeded_and_only_what_is_measured_is_noisy() -> None:
    def learnt(seed: int) -> tuple[Result, Throughputs]:
        learner = Believed(Guessing(UPSIDE_DOWN), [ON_V, ON_K])
        faults = Faults(seed=seed, measured_noise=0.1)
        policy = load_policy("isolated")
        jobs = [Job(j, "a", 7200.0) for j in range(3)]
        return simulate(policy, jobs, CLUSTER, TRUE, faults=faults, believed=learner), learner.throughputs()

    (first, speeds), (again, same), (_, others) = learnt(1), learnt(1), learnt(2)
    assert speeds == same
    assert speeds.isolated != others.isolated
    assert speeds.isolated[ON_V] == pytest.approx(10.0, rel=0.3)
    assert speeds.isolated[ON_V] != pytest.approx(10.0, rel=1e-6)
    assert np.array_equal(first.completion_s_J, again.completion_s_J)


def test_a_job_is_never_sent_where_it_cannot_run_and_never_run_without_being_known() -> None:
    believed = Throughputs({ON_V: 5.0}, {BESIDE: 3.0, Pairing("a", "b", "v100"): 1.0}, ranges={BESIDE: (1.0, 4.0)})
    seen = where_it_runs(believed, TRUE)
    assert seen.isolated == {ON_V: 5.0}
    assert seen.colocated == {BESIDE: 0.0}
    assert seen.ranges == {}
    with pytest.raises(WorkloadError):
        run(Throughputs({Setting("b", "v100"): 1.0}))


def test_a_table_with_ranges_of_what_an_estimator_believes() -> None:
    estimator = Guessing({ON_V: 8.0, BESIDE: 5.0})
    estimator.observe([Measurement(ON_K, 1.0)])
    wanted: list[Way] = ways_of(["a"], ["v100", "k80"], pairs=True)
    assert len(wanted) == 4
    table = throughputs_of(estimator, wanted)
    assert table.isolated == {ON_V: 8.0, ON_K: 1.0}
    assert table.colocated == {BESIDE: 5.0}  # nothing is known of pairs on the K80
    assert table.ranges == {ON_V: (4.0, 16.0), BESIDE: (2.5, 10.0)}
    assert table.at("upper").isolated == {ON_V: 16.0, ON_K: 1.0}


def test_every_way_to_run_once() -> None:
    ways = ways_of(["a", "b"], ["v100"], (1, 4), pairs=True, placements=True)
    alone = {Setting(t, "v100", n, c) for t in "ab" for n, c in ((1, True), (4, True), (4, False))}
    assert set(ways) == alone | {Pairing(a, b, "v100") for a in "ab" for b in "ab"}
    assert len(ways) == len(set(ways))
