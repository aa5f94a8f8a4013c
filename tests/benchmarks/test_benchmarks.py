"""The benchmarks compare like with like: each published formulation is right, and a wrong answer is found out.

Legend: J jobs, A accelerator types.
"""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

pytest.importorskip("cvxpy")
pytest.importorskip("ecos")

from benchmarks import instances, published, report
from benchmarks.__main__ import main
from benchmarks.families import BENCHMARKS, Benchmark, cost_ratio, level, per_dollar, ratio
from benchmarks.harness import run
from benchmarks.instances import Instance, snapshot_of
from benchmarks.sides import Side, by_policy
from gavelx.errors import PolicyError
from gavelx.files.throughput_tables import load_throughputs
from gavelx.policies import load_policy
from gavelx.throughputs import Pairing

pytestmark = pytest.mark.slow

SEEDS = (1, 2, 3)


def shares(policy: str, instance: Instance) -> np.ndarray:
    return load_policy(policy).allocate(snapshot_of(instance)).share_JA


def benchmark(name: str) -> Benchmark:
    return next(bench for bench in BENCHMARKS if bench.name == name)


def exists(side: Side) -> bool:
    """Whether the policy of a side is there (a published formulation always is)."""
    try:
        side.ready(instances.real_table(4, 0))
    except PolicyError:
        return False
    return True


@pytest.mark.parametrize("seed", SEEDS)
def test_published_max_min_is_ours(seed: int) -> None:
    instance = instances.real_table(48, seed)
    there = level(instance, published.least_attained_service(instance))
    assert level(instance, shares("max_min_fairness", instance)) == pytest.approx(there, rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_full_linear_program_is_ours(seed: int) -> None:
    instance = instances.all_distinct(48, seed)
    there = level(instance, published.full_linear_program(instance))
    assert level(instance, shares("max_min_fairness", instance)) == pytest.approx(there, rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_published_finish_time_fairness_is_ours(seed: int) -> None:
    instance = instances.with_history(48, seed)
    there = ratio(instance, published.finish_time_fairness(instance))
    assert ratio(instance, shares("finish_time_fairness", instance)) == pytest.approx(there, rel=1e-5)


@pytest.mark.parametrize("seed", SEEDS)
def test_published_cost_fairness_is_the_least_level_that_can_be_reached(seed: int) -> None:
    instance = instances.with_waiting(32, seed)
    there = cost_ratio(instance, published.shared_cloud_cost_fairness(instance))
    assert is_reachable(instance, there * (1 + 1e-5))
    assert not is_reachable(instance, there * (1 - 1e-5))


def is_reachable(instance: Instance, mu: float) -> bool:
    """Whether some shares give each job the rate at which its ratio is mu: r_j / (mu alone_j - a_j)."""
    rate_JA = per_dollar(instance)
    J, A = rate_JA.shape
    alone_J = instance.steps_left_J / instance.equal_share_of(rate_JA)
    need_J = instance.steps_left_J / (mu * alone_J - instance.elapsed_s_J)
    rows = [np.kron(np.eye(J), np.ones(A)), np.kron(np.ones(J), np.eye(A))]
    speed = -np.kron(np.eye(J), np.ones(A)) * (rate_JA / need_J[:, None]).ravel()
    bounds = np.concatenate([np.ones(J), instance.devices_A, -np.ones(J)])
    answer = linprog(np.zeros(J * A), A_ub=np.concatenate([*rows, speed]), b_ub=bounds, bounds=(0, 1))
    assert answer.status in (0, 2), answer.message
    return answer.status == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_published_allox_finds_the_best_of_all_plans(seed: int) -> None:
    instance = instances.real_table(5, seed, devices=3)
    seconds_JA = instance.steps_left_J[:, None] / instance.throughput_JA
    best = np.inf
    for machine_J in itertools.product(range(3), repeat=5):
        queues = [sorted(seconds_JA[np.array(machine_J) == a, a]) for a in range(3)]  # shortest first
        best = min(best, sum(float(np.cumsum(queue).sum()) for queue in queues))
    assert published.allox(instance) == pytest.approx(best, rel=1e-9)


def test_one_job_joins_or_leaves() -> None:
    for seed, more in ((1, 1), (2, -1)):
        instance = instances.one_job_more_or_less(20, seed)
        assert instance.before is not None
        assert len(instance.weight_J) - len(instance.before.weight_J) == more
        smaller, larger = sorted((instance, instance.before), key=lambda one: len(one.weight_J))
        assert set(smaller.steps_left_J) < set(larger.steps_left_J)


def test_every_seed_is_another_instance() -> None:
    first, second = (instances.real_table(64, seed) for seed in (1, 2))
    assert not np.array_equal(first.kind_J, second.kind_J)
    assert not np.array_equal(first.steps_left_J, second.steps_left_J)


def test_pairs_run_at_the_speeds_of_the_table() -> None:
    instance = instances.all_pairs(6, seed=1)
    table, known = snapshot_of(instance).known, load_throughputs("simulation").colocated
    pairs = np.flatnonzero(table.members_C == 2)
    assert len(pairs) == 15 * 3
    for c in pairs.tolist():
        (m,), (n,) = np.split(np.flatnonzero(table.configuration_M == c), 2)
        kinds = [instance.kinds[instance.kind_J[table.job_M[row]]] for row in (m, n)]
        name = instance.accelerators[table.accelerator_C[c]]
        assert table.throughput_M[m] == known[Pairing(kinds[0], kinds[1], name)]
        assert table.throughput_M[n] == known[Pairing(kinds[1], kinds[0], name)]


@pytest.mark.parametrize("bench", BENCHMARKS, ids=lambda bench: bench.name)
def test_every_benchmark_runs_on_a_small_size(bench: Benchmark) -> None:
    row = run(bench, bench.warm, pairs=2, budget_s=3600.0)
    if not (exists(bench.published) and exists(bench.ours)):
        assert row.failed.startswith("skipped: ")
        return
    assert not row.failed
    assert not row.wrong
    assert len(row.pairs) == 2
    assert [pair.seed for pair in row.pairs] == [1, 2]
    assert row.pairs[0].published_objective != row.pairs[1].published_objective
    if bench.peak_mb_max is not None:
        assert row.pairs[0].peak_mb is not None
        assert 20 < row.pairs[0].peak_mb < bench.peak_mb_max


def test_a_budget_is_kept_but_one_pair_is_run() -> None:
    row = run(benchmark("least_attained_service"), (32,), pairs=3, budget_s=0.0)
    assert len(row.pairs) == 1


def with_published(solve: object) -> Benchmark:
    bench = benchmark("least_attained_service")
    return replace(bench, published=Side("other", solve))  # type: ignore[arg-type]


def test_a_worse_answer_is_wrong() -> None:
    row = run(with_published(lambda one: 0.99 * published.least_attained_service(one)), (32,), 1, 60.0)
    assert any("objectives differ" in text for text in row.wrong)


def test_an_answer_beyond_capacity_is_wrong() -> None:
    row = run(with_published(lambda one: 1.01 * published.least_attained_service(one)), (32,), 1, 60.0)
    assert any("violated" in text for text in row.wrong)


def test_capacity_that_does_not_bind_is_wrong() -> None:
    bench = benchmark("least_attained_service")
    plenty = replace(bench, make=lambda size, seed: instances.real_table(size[0], seed, devices=300))
    row = run(plenty, (32,), 1, 60.0)
    assert row.wrong == ["capacity does not bind"]


def test_a_missing_policy_is_skipped_and_a_failing_one_reported() -> None:
    bench = benchmark("least_attained_service")
    row = run(replace(bench, ours=by_policy("no_such_policy")), (32,), 1, 60.0)
    assert row.failed.startswith("skipped: unknown policy 'no_such_policy'")
    row = run(with_published(lambda one: 1 / 0), (32,), 1, 60.0)
    assert row.failed == "failed: ZeroDivisionError: division by zero"


def test_the_command_prints_a_table_and_writes_every_pair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "results" / "run.json"
    assert main(["least_attained_service", "--pairs", "2", "--sizes", "32", "64", "--json", str(out)]) == 0
    printed = capsys.readouterr()
    assert "pair 2" in printed.err
    lines = printed.out.splitlines()
    assert lines[0].split()[:2] == ["benchmark", "size"]
    assert [line.split()[1] for line in lines[1:]] == ["32", "64"]
    written = json.loads(out.read_text())
    assert written["machine"]["libraries"]["cvxpy"]
    first = written["rows"][0]
    assert len(first["pairs"]) == 2
    assert first["ratio_min"] <= first["ratio_median"] <= first["ratio_max"]
    page = report.markdown([out])
    assert "## run" in page
    assert "| least_attained_service | 64 |" in page
