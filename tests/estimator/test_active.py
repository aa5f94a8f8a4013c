"""What to measure next is what could change the allocation, and choosing so needs fewer measurements."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.estimator.active import Trial, first_leases, known_to_be, most_telling, trials
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Pairing, Setting, Throughputs

FASTEST = load_policy("max_sum_throughput")
TYPES = ("v100", "p100", "k80")


def test_only_what_could_change_the_decision_is_worth_measuring() -> None:
    speeds = {Setting(job, "v100"): speed for job, speed in (("a", 10.0), ("b", 8.0), ("c", 1.0))}
    ranges = {
        Setting("a", "v100"): (9.0, 11.0),  # the fastest in any case
        Setting("b", "v100"): (4.0, 16.0),  # may turn out to be so
        Setting("c", "v100"): (0.1, 7.0),  # the slowest in any case, however wide its range
        Setting("d", "v100"): (0.1, 99.0),  # no such job is there
        Setting("a", "a100"): (0.1, 99.0),  # nor such a device
    }
    believed = Throughputs({**speeds, Setting("d", "v100"): 5.0, Setting("a", "a100"): 5.0}, ranges=ranges)
    jobs = [Job(j, name, 1e6) for j, name in enumerate("abc")]
    snapshot = Snapshot.of(jobs, Cluster.of({"v100": 1}), believed)
    ranked = most_telling(FASTEST, snapshot, believed)
    worth_of = {trial[0].job_type: worth for worth, trial in ranked}
    assert ranked[0][1] == (Setting("b", "v100"),)
    assert worth_of == pytest.approx({"a": 0.0, "b": (16 - 10) / 10 / 2, "c": 0.0}, abs=1e-9)


def test_a_policy_without_an_objective_is_judged_by_what_would_change_hands() -> None:
    a, b = Setting("a", "v100"), Setting("a", "k80")
    believed = Throughputs({a: 10.0, b: 8.0}, ranges={a: (9.0, 11.0), b: (4.0, 16.0)})
    snapshot = Snapshot.of([Job(0, "a", 1e6)], Cluster.of({"v100": 1, "k80": 1}), believed)
    ranked = most_telling(load_policy("fifo"), snapshot, believed)
    assert [trial for _, trial in ranked] == [(b,), (a,)]
    assert [worth for worth, _ in ranked] == pytest.approx([(16 - 10) / 16 / 2, 0.0])


def test_one_run_of_a_pair_measures_both_jobs() -> None:
    ab, ba, aa = (Pairing(*pair, "v100") for pair in ("ab", "ba", "aa"))
    alone = {Setting("a", "v100"): 2.0, Setting("b", "v100"): 2.0}
    believed = Throughputs(
        alone, {ab: 1.0, ba: 1.0, aa: 1.0}, ranges={ab: (0.5, 1.9), ba: (0.5, 1.9), aa: (0.5, 1.9)}
    )
    assert trials(believed) == [(ab, ba), (aa,)]
    jobs = [Job(0, "a", 1e6), Job(1, "b", 1e6)]
    snapshot = Snapshot.of(jobs, Cluster.of({"v100": 1}), believed, pairs=True)
    ranked = most_telling(load_policy("packed(max_min_fairness)"), snapshot, believed)
    assert [trial for _, trial in ranked] == [(ab, ba)]  # there is just one a
    assert ranked[0][0] > 0.1
    plain = Snapshot.of(jobs, Cluster.of({"v100": 1}), believed)
    assert most_telling(FASTEST, plain, believed) == []


def test_what_was_measured_is_in_doubt_no_more() -> None:
    a = Setting("a", "v100")
    known = known_to_be(Throughputs({a: 1.0}, ranges={a: (0.5, 2.0)}), {a: 1.5})
    assert known == Throughputs({a: 1.5})


@dataclass
class Case:
    """A cluster whose speeds are known to within a factor, and the truth."""

    snapshot: Snapshot
    true: Throughputs
    believed: Throughputs


def case(seed: int) -> Case:
    """Few devices, more jobs; each speed is off by about 1.6."""
    rng = np.random.default_rng(seed)
    kinds, sd = 6, 0.5
    true, told, ranges = {}, {}, {}
    for k in range(kinds):
        for a, name in enumerate(TYPES):
            way = Setting(f"kind {k}", name)
            true[way] = float(np.exp(rng.normal(-0.7 * a, 0.5)))
            told[way] = float(true[way] * np.exp(rng.normal(0.0, sd)))
            ranges[way] = (told[way] * np.exp(-1.64 * sd), told[way] * np.exp(1.64 * sd))
    jobs = [Job(j, f"kind {j % kinds}", 1e6) for j in range(kinds + 2)]
    cluster = Cluster.of({name: int(rng.integers(1, 4)) for name in TYPES})
    believed = Throughputs(told, ranges=ranges)
    return Case(Snapshot.of(jobs, cluster, believed), Throughputs(true), believed)


def loss(seed: int, policy: str, choose: Callable[[Case, Throughputs], Trial], measured: int) -> float:
    """How much of the policy's objective is missed, at the true speeds, for want of knowing them."""
    one, program = case(seed), load_policy(policy)
    believed = one.believed
    for _ in range(measured):
        trial = choose(one, believed)
        believed = known_to_be(believed, {way: one.true.isolated[way] for way in trial})  # type: ignore[index]
    told, truly = (Snapshot.of(one.snapshot.jobs, one.snapshot.cluster, table) for table in (believed, one.true))
    reached, best = (program.gain(truly, program.allocate(seen).share_C) for seen in (told, truly))
    assert reached is not None
    assert best is not None
    return 1.0 - reached / best


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["max_sum_throughput", "max_min_fairness"])
def test_chosen_measurements_save_more_than_random_ones(policy: str) -> None:
    def telling(one: Case, believed: Throughputs) -> Trial:
        return most_telling(load_policy(policy), one.snapshot, believed, looked_at=18)[0][1]

    rng = np.random.default_rng(0)

    def by_chance(_: Case, believed: Throughputs) -> Trial:
        return trials(believed)[rng.integers(len(trials(believed)))]

    chosen = np.mean([loss(seed, policy, telling, 4) for seed in range(8)])
    random = np.mean([loss(seed, policy, by_chance, 4) for seed in range(8) for _ in range(5)])
    assert chosen < 0.85 * random


def unsure(jobs: Sequence[Job], **ranges: tuple[float, float]) -> Snapshot:
    """Two types of devices, one of each; the ranges are of speeds on the second one."""
    isolated = {Setting(job.job_type, a): 1.0 for job in jobs for a in ("v100", "k80")}
    believed = Throughputs(isolated, ranges={Setting(name, "k80"): ends for name, ends in ranges.items()})
    return Snapshot.of(jobs, Cluster.parse("v100=1,k80=1"), believed)


def test_first_leases_are_where_it_is_least_sure_one_for_a_type_of_device() -> None:
    policy, jobs = load_policy("max_min_fairness"), [Job(n, name, 10.0) for n, name in enumerate("aabbc")]
    snapshot = unsure(jobs, a=(0.5, 2.0), b=(0.1, 10.0))
    assert first_leases(policy, snapshot, 0) == ((2, "k80"),), "the first job of the less sure kind"
    assert first_leases(policy, snapshot) in (((0, "k80"),), ((2, "k80"),))
    assert first_leases(policy, unsure(jobs)) == ()


def test_jobs_that_ran_begin_nowhere() -> None:
    policy, jobs = load_policy("max_min_fairness"), [Job(0, "a", 10.0), Job(1, "a", 10.0)]
    snapshot = unsure(jobs, a=(0.1, 10.0))
    assert first_leases(policy, snapshot.replace(held_s_J=np.array([1.0, 0.0])), 0) == ((1, "k80"),)
    assert first_leases(policy, snapshot.replace(held_s_J=np.array([1.0, 1.0])), 0) == ()
    assert first_leases(policy, snapshot.replace(running_J=np.array([0, 1])), 0) == ()
