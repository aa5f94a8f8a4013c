"""Programs of elastic jobs by prices, whose columns are types with numbers of devices, against plain programs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.allocation import Allocation
from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.snapshot import Snapshot
from gavelx.solvers.price_engine import dense_program
from gavelx.solvers.price_engine.levels import solve_levels
from gavelx.solvers.price_engine.ratios import solve_ratios
from gavelx.throughputs import Setting, Size, Throughputs
from tests.solvers.price_engine.test_price_engine import BOXED

POLICIES = ("elastic(max_min_fairness)", "elastic(finish_time_fairness)", "elastic(makespan)")
NAMES = ("v100", "p100", "k80")


def elastic_snapshot(seed: int, jobs: int, devices: int) -> Snapshot:
    """Jobs that all differ: some rigid, some with other batches, curves of all shapes, some types of no use."""
    rng = np.random.default_rng(seed)
    isolated, sizes, found = {}, {}, list[Job]()
    for j in range(jobs):
        bend, own = rng.uniform(0.2, 1.1), int(rng.choice([1, 2, 4]))
        elastic = [None, Elastic("workers", 1, 8), Elastic.of(f"batch:1-4/{32 * own}-1024")][rng.integers(3)]
        if elastic is not None and own > elastic.most:
            elastic = None
        for name in NAMES:
            speed = float(rng.choice([0.0, 1.0, rng.uniform(0.5, 20.0)], p=[0.1, 0.2, 0.7]))
            for n in (1, 2, 3, 4, 8):
                isolated[Setting(f"k{j}", name, n)] = speed * n**bend * float(rng.uniform(0.8, 1.2))
                if elastic is not None and elastic.what == "batch" and rng.random() < 0.3:
                    sizes[Size(f"k{j}", name, n, 512)] = speed / own * 0.2 * n**bend
        found.append(
            Job(j, f"k{j}", float(rng.uniform(1e3, 1e5)), own, elastic=elastic, weight=float(rng.choice([1, 3])))
        )
    cluster = Cluster.of({name: max(1, devices // (a + 1)) for a, name in enumerate(NAMES)})
    return Snapshot.of(found, cluster, Throughputs(isolated, sizes=sizes), sizes=True)


def by_programs(text: str, snapshot: Snapshot) -> Allocation:
    """The same without the price engine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_program, "as_job_size_matrix", lambda *_: None)
        answer = load_policy(text).allocate(snapshot)
    assert "prices" not in answer.certificate.path
    return answer


def assert_equal(answer: Allocation, other: Allocation) -> None:
    """The objective is unique, and in a lexicographic optimum so is what every job gets."""
    if other.certificate.objective is None:  # no job can run
        assert answer.certificate.objective is None
        return
    assert answer.certificate.objective == pytest.approx(other.certificate.objective, rel=1e-7)
    assert answer.throughput_J == pytest.approx(other.throughput_J, rel=1e-5, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), jobs=st.integers(1, 14), devices=st.integers(1, 24), boxed=st.booleans())
@pytest.mark.parametrize("text", POLICIES)
def test_sizes_by_price_equal_those_by_programs(
    text: str, seed: int, jobs: int, devices: int, boxed: bool
) -> None:
    snapshot = elastic_snapshot(seed, jobs, devices)
    with pytest.MonkeyPatch.context() as patch:
        if boxed:
            for solver in (solve_levels, solve_ratios):
                patch.setitem(solver.__kwdefaults__, "limits", BOXED)
        answer = load_policy(text).allocate(snapshot)
    assert_equal(answer, by_programs(text, snapshot))


@pytest.mark.parametrize("text", POLICIES[:2])
def test_six_hundred_elastic_jobs_are_solved_by_price(text: str) -> None:
    snapshot = elastic_snapshot(7, 600, 300)
    answer = load_policy(text).allocate(snapshot)
    assert answer.certificate.path.startswith("prices")
    bound = answer.certificate.bound
    assert bound is not None
    assert answer.certificate.objective == pytest.approx(bound, rel=1e-8)
    assert_equal(answer, by_programs(text, snapshot))
