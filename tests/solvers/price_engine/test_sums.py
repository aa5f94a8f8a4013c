"""Sums by prices against the plain program of all rows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from gavelx.policies import load_policy
from gavelx.policies.view import View
from gavelx.snapshot import Snapshot
from gavelx.solvers.price_engine import dense_program, sums
from gavelx.solvers.price_engine.replies import Sizes
from gavelx.solvers.price_engine.sums import solve_sums
from gavelx.solvers.program.errors import UnsolvedError

Floats = np.ndarray
AT_ONCE = 20


@pytest.fixture(autouse=True, scope="module")
def _searches() -> object:
    """Small programs are searched, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "AT_ONCE", AT_ONCE)
        patch.setattr(sums, "ROUNDS", 1000)
        yield


def plain(value_GV: Floats, load_G: Floats, count_G: Floats, capacity_A: Floats, sizes: Sizes) -> float:
    """The optimum by one program over all rows."""
    G, V = value_GV.shape
    time = np.repeat(np.eye(G), V, axis=1)
    devices = np.zeros((len(capacity_A), G * V))
    for g in range(G):
        for v in range(V):
            devices[sizes.type_V[v], g * V + v] = load_G[g] * sizes.devices_V[v]
    worth = (np.maximum(value_GV, 0.0) * count_G[:, None]).ravel()
    found = linprog(-worth, np.vstack([time, devices]), np.concatenate([np.ones(G), capacity_A]))
    assert found.success
    return -float(found.fun)


@given(st.integers(0, 10_000), st.integers(1, 60), st.booleans(), st.booleans())
def test_the_sum_is_that_of_the_plain_program(seed: int, rows: int, ties: bool, sized: bool) -> None:
    random = np.random.default_rng(seed)
    types = int(random.integers(1, 5))
    sizes = Sizes(np.arange(types), np.ones(types))
    if sized:
        sizes = Sizes(np.repeat(np.arange(types), 2), np.tile([1.0, 3.0], types))
    shape = rows, len(sizes.type_V)
    value_GV = random.integers(-1, 4, shape).astype(float) if ties else random.normal(1.0, 1.0, shape)
    scale_G, count_G = random.integers(1, 4, rows).astype(float), random.integers(1, 5, rows).astype(float)
    capacity_A = random.integers(0, 2 + rows // 2, types).astype(float)
    load_G = count_G if sized else scale_G * count_G
    found = solve_sums(
        value_GV,
        scale_G=np.ones(rows) if sized else scale_G,
        count_G=count_G,
        capacity_A=capacity_A,
        sizes=sizes if sized else None,
    )
    best = plain(value_GV, load_G, count_G, capacity_A, sizes)
    assert found.value == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert found.bound == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert (found.share_GV >= 0).all()
    assert found.share_GV.sum(axis=1).max() <= 1 + 1e-12
    used_V = (load_G @ found.share_GV) * sizes.devices_V
    assert (np.bincount(sizes.type_V, used_V, types) <= capacity_A + 1e-9).all()


@given(st.integers(0, 100_000), st.integers(1, 60), st.integers(1, 3), st.booleans(), st.booleans())
def test_rows_have_what_they_must(seed: int, rows: int, asked: int, ties: bool, sized: bool) -> None:
    """Floors and caps, some of which just hold; what ties, is zero or negative, or is of no value."""
    random = np.random.default_rng(seed)
    types = int(random.integers(1, 5))
    sizes = Sizes(np.repeat(np.arange(types), 2), np.tile([1.0, 3.0], types))
    sizes = sizes if sized else Sizes(np.arange(types), np.ones(types))
    shape = rows, len(sizes.type_V)
    value_GV = random.integers(-2, 2, shape).astype(float) if ties else random.normal(0.0, 1.0, shape)
    count_G = random.integers(1, 5, rows).astype(float)
    mix_GV = random.dirichlet(np.ones(shape[1] + 1), rows)[:, :-1]  # shares that exist
    mix_GV = np.where(random.random((rows, 1)) < 0.5, np.round(mix_GV), mix_GV)
    must = list[tuple[Floats, Floats]]()
    for _ in range(asked):
        gain_GV = random.integers(-1, 3, shape).astype(float) if ties else random.uniform(-0.5, 1.0, shape)
        must.append((gain_GV, np.einsum("gv,gv->g", mix_GV, gain_GV) - random.choice([0.0, 0.1, 1.0], rows)))
    for each in (value_GV, mix_GV, *must[0], *(part for pair in must[1:] for part in pair)):
        each[rows // 2 :] = each[: rows - rows // 2]  # half of the rows are like the others
    useful_GV = (value_GV > 0) | np.any([gain_GV > 0 for gain_GV, _ in must], axis=0)
    used_V = (count_G @ mix_GV) * sizes.devices_V
    capacity_A = np.asarray(np.bincount(sizes.type_V, used_V, types) + random.integers(0, 3), dtype=float)
    found = solve_sums(
        value_GV,
        scale_G=np.ones(rows),
        count_G=count_G,
        capacity_A=capacity_A,
        sizes=sizes if sized else None,
        asked=must,
    )
    time, each = np.repeat(np.eye(rows), shape[1], axis=1), np.tile(np.eye(shape[1]), rows)
    devices = (each * np.repeat(count_G, shape[1])) * sizes.devices_V[:, None]
    devices_AC = np.array([devices[sizes.type_V == a].sum(axis=0) for a in range(types)])
    best = linprog(
        -(value_GV * count_G[:, None]).ravel(),
        np.vstack([time, devices_AC, *(np.where(time > 0, -gain_GV.ravel(), 0.0) for gain_GV, _ in must)]),
        np.concatenate([np.ones(rows), capacity_A, *(-least_G for _, least_G in must)]),
    )
    assert best.success
    assert found.value == pytest.approx(-best.fun, rel=1e-7, abs=1e-7)
    assert found.bound == pytest.approx(-best.fun, rel=1e-7, abs=1e-7)
    assert (found.share_GV >= 0).all()
    assert not found.share_GV[~useful_GV].any()
    assert found.share_GV.sum(axis=1).max() <= 1 + 1e-12
    for gain_GV, least_G in must:
        assert (np.einsum("gv,gv->g", gain_GV, found.share_GV) >= least_G - 1e-9).all()
    used_V = (count_G @ found.share_GV) * sizes.devices_V
    assert (np.bincount(sizes.type_V, used_V, types) <= capacity_A + 1e-9).all()


def idle_or_tied(value: float, types: int, monkeypatch: pytest.MonkeyPatch) -> sums.Sums:
    """Far more equal rows than a program may have; those without a floor idle where they are worth nothing."""
    monkeypatch.setattr(sums, "LARGEST", 10)
    floor_G = np.where(np.arange(60) < 5, 0.5, 0.0)
    one, same_GV = np.ones(60), np.ones((60, types))
    return solve_sums(
        value * same_GV,
        scale_G=one,
        count_G=one,
        capacity_A=np.full(types, 4.0),
        asked=[(same_GV, floor_G)],
    )


def test_rows_that_idle_are_in_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    assert idle_or_tied(-1.0, 1, monkeypatch).value == pytest.approx(-2.5)


def test_rows_between_two_choices_need_no_room_in_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    assert idle_or_tied(1.0, 1, monkeypatch).value == pytest.approx(4.0)


def test_more_ties_than_a_program_takes_are_left_to_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsolvedError, match="tie"):
        idle_or_tied(1.0, 2, monkeypatch)


@pytest.mark.parametrize(
    ("floor", "devices", "status"),
    [(2.0, 60.0, "infeasible"), (1.0 + 1e-11, 60.0, "just"), (0.5, 25.0, "infeasible")],
)
def test_what_cannot_be_had_is_proven_or_left_to_another_way(floor: float, devices: float, status: str) -> None:
    one = np.ones(60)
    with pytest.raises(UnsolvedError, match=status):
        solve_sums(
            np.random.default_rng(0).normal(0.0, 1.0, (60, 1)),
            scale_G=one,
            count_G=one,
            capacity_A=devices * one[:1],
            asked=[(one[:, None], floor * one)],
        )


def with_deadlines(snapshot: Snapshot) -> Snapshot:
    """Every other job has one, for which it needs a tenth of its best speed."""
    needs_s_J = 10.0 * snapshot.steps_left_J / View(snapshot).fastest_throughput_J
    jobs = list(snapshot.jobs)
    for j in range(0, len(jobs), 2):
        due_s = snapshot.time_s + float(needs_s_J[j]) - jobs[j].arrival_s
        jobs[j] = replace(jobs[j], slo=1.0, duration_s=due_s)
    return snapshot.replace(jobs=tuple(jobs))


@pytest.mark.parametrize(
    "policy",
    [
        "max_sum_throughput",
        "min_cost",
        "min_cost_slo",
        "fifo_program",
        "elastic(max_sum_throughput)",
        "shared_cloud_cost_fairness",
        "capped(shared_cloud_cost_fairness, 0.5)",
    ],
)
def test_a_policy_gets_the_same_either_way(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.instances import all_distinct, snapshot_of

    snapshot = snapshot_of(all_distinct(40, seed=3, types=4))
    if policy == "min_cost_slo":
        snapshot = with_deadlines(snapshot)
    monkeypatch.setattr(dense_program, "FEW", 10)
    by_price = load_policy(policy).allocate(snapshot).certificate
    monkeypatch.setattr(dense_program, "FEW", 1_000_000)
    at_once = load_policy(policy).allocate(snapshot).certificate
    assert (by_price.objective, by_price.bound) == pytest.approx((at_once.objective, at_once.bound), rel=1e-9)
    assert (by_price.path[:6], at_once.path) == ("prices", "highs")


@pytest.mark.parametrize("dollars", [0.5, 1.5, 4.0])
def test_jobs_that_spent_too_much_get_the_same_either_way(dollars: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The more they have spent, the less can their cost ratio be 1: that is proven by prices, too."""
    from benchmarks.instances import all_distinct, snapshot_of

    snapshot = snapshot_of(all_distinct(40, seed=5, types=4))
    random, alone_s_J = np.random.default_rng(1), snapshot.steps_left_J / View(snapshot).equal_share_throughput_J
    past_s_J = random.uniform(0.0, 0.5, 40) * alone_s_J
    fair_usd_J = past_s_J / 3600.0 * View(snapshot).equal_share_usd_per_hour_J
    snapshot = snapshot.replace(
        elapsed_s_J=past_s_J * random.uniform(0.9, 1.5, 40),
        equal_share_s_J=past_s_J,
        equal_share_usd_J=fair_usd_J,
        spent_usd_J=dollars * fair_usd_J,
    )
    monkeypatch.setattr(dense_program, "FEW", 10)
    by_price = load_policy("shared_cloud_cost_fairness").allocate(snapshot).certificate
    monkeypatch.setattr(dense_program, "FEW", 1_000_000)
    at_once = load_policy("shared_cloud_cost_fairness").allocate(snapshot).certificate
    assert by_price.objective == pytest.approx(at_once.objective, rel=1e-7)
    assert (by_price.path[:6], at_once.path) == ("prices", "highs")
