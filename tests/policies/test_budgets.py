"""Budgets: never passed by an allocation, nor over time; what they leave goes to the others."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.asking import ask
from gavelx.cluster import Cluster
from gavelx.errors import PolicyError
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import OwnerCost, View, budgeted, catalog, load_policy, partitioned
from gavelx.prices import Prices
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.snapshot import Snapshot
from gavelx.testing import snapshot_of
from gavelx.testing.changes import permuted
from tests.policies.small import PRICES, SPEEDS
from tests.policies.strategies import snapshots

OWNERS = ("ml/ann", "ml/bob", "ops", "")
KINDS = ("max_min_fairness", "finish_time_fairness", "isolated", "strategy_proof", "fifo", "srtf", "gandiva")
"""A program, a ratio, two that hand out shares otherwise, and three that hand out whole devices."""


def owned(snapshot: Snapshot) -> Snapshot:
    """The same jobs, each with an owner, at prices that differ by type."""
    jobs = tuple(replace(job, owner=OWNERS[j % len(OWNERS)]) for j, job in enumerate(snapshot.jobs))
    return snapshot.replace(jobs=jobs, usd_per_hour_A=1.0 + np.arange(len(snapshot.accelerators)))


def fresh(owners: list[str], cluster: str = "fast=2,slow=2", job_type: str = "a") -> Snapshot:
    jobs = [Job(i, job_type, 1000.0, owner=owner) for i, owner in enumerate(owners)]
    return Snapshot.of(jobs, Cluster.parse(cluster), SPEEDS, PRICES)


def spent(snapshot: Snapshot, share_C: np.ndarray, path: str) -> float:
    usd_J = View(snapshot).usd_per_hour_of_job(share_C)
    return float(sum(u for u, job in zip(usd_J, snapshot.jobs, strict=True) if is_of(job, path)))


def is_of(job: Job, path: str) -> bool:
    return path == "total" or f"{job.owner}/".startswith(f"{path}/")


BUDGETS = st.dictionaries(
    st.sampled_from(["ml", "ml/ann", "ops", "total"]), st.one_of(st.just(0.0), st.floats(0.05, 12.0)), min_size=1
)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=25)
@given(given_=snapshots(), budgets=BUDGETS)
def test_no_allocation_passes_a_budget(name: str, given_: Snapshot, budgets: dict[str, float]) -> None:
    allocation = ask(budgeted(load_policy(name), budgets), owned(given_))
    for path, usd in budgets.items():
        assert spent(allocation.snapshot, allocation.share_C, path) <= usd * (1 + 1e-7) + 1e-7, path
    assert not allocation.execution.backfill
    assert allocation.execution.quota != allocation.execution.whole_devices


@pytest.mark.parametrize("name", sorted(set(catalog()) - {"random"}))
def test_a_budget_that_nobody_needs_changes_nothing(name: str) -> None:
    snapshot = fresh(["ml/ann", "ops", "", "ml/bob", "ops"])
    plain, wide = (
        load_policy(name).allocate(snapshot),
        budgeted(load_policy(name), {"total": 99}).allocate(snapshot),
    )
    if plain.certificate.objective is None:
        assert wide.throughput_J.sum() == pytest.approx(plain.throughput_J.sum(), rel=1e-6)
    else:
        assert wide.certificate.objective == pytest.approx(plain.certificate.objective, rel=1e-6)


def test_of_a_program_the_others_get_what_is_left() -> None:
    snapshot = fresh(["ml/ann", "ml/bob", "ops", "ops"], cluster="fast=2")
    plain = load_policy("max_min_fairness").allocate(snapshot)
    within = load_policy("budgeted(max_min_fairness, ml=1.5)").allocate(snapshot)
    assert plain.throughput_J == pytest.approx([2.0] * 4)
    # $1.50 buy half of a fast device: a quarter of one, 1 step/s, for each of the two
    assert within.throughput_J == pytest.approx([1.0, 1.0, 3.0, 3.0])


def test_the_budget_of_a_user_counts_in_that_of_his_team() -> None:
    snapshot = fresh(["ml/ann", "ml/bob"], cluster="fast=2")
    within = load_policy("budgeted(max_min_fairness, ml=4, ml/ann=0.75)").allocate(snapshot)
    assert within.throughput_J == pytest.approx([1.0, 4.0])  # bob's device is $3, and ann has $0.75 of it
    within = load_policy("budgeted(max_min_fairness, ml=3, ml/ann=0.75)").allocate(snapshot)
    assert within.throughput_J == pytest.approx([1.0, 3.0])


def test_mls_is_another_team_than_ml() -> None:
    snapshot = fresh(["mls", "ml"], cluster="fast=2")
    assert load_policy("budgeted(max_min_fairness, ml=0)").allocate(snapshot).throughput_J.tolist() == [4.0, 0.0]


def test_who_hands_out_devices_gives_a_cheaper_type_within_the_budget() -> None:
    snapshot = fresh(["ml", "ops", "ml"])
    assert load_policy("srtf").allocate(snapshot).share_JA.tolist() == [[1, 0], [1, 0], [0, 1]]
    within = load_policy("budgeted(srtf, ml=2)").allocate(snapshot)
    assert within.share_JA.tolist() == [[0, 1], [1, 0], [0, 1]]


def test_who_runs_keeps_his_device_before_the_oldest() -> None:
    snapshot = fresh(["ml", "ml"], cluster="fast=2").replace(running_J=np.array([-1, 0]))
    assert load_policy("budgeted(fifo, ml=3)").allocate(snapshot).share_JA.tolist() == [[0], [1]]


def test_a_budget_below_is_kept_before_that_above() -> None:
    """The total is passed only because of ml: when that is within its own, nobody else has to make way."""
    snapshot = fresh(["ml", "ml", "ops", "ops"])
    within = load_policy("budgeted(fifo, ml=3, total=5)").allocate(snapshot)
    assert within.share_JA.tolist() == [[1, 0], [0, 0], [0, 1], [0, 1]]


def test_shares_of_any_other_policy_are_cut_and_the_allocation_says_so() -> None:
    within = load_policy("budgeted(isolated, ml=1)").allocate(fresh(["ml", "ops"]))
    assert within.throughput_J[0] < within.throughput_J[1]
    assert within.notes == ("ml would spend $2.00 an hour; its shares are cut to 50.0%",)


def test_parts_of_a_cluster_have_one_budget_together() -> None:
    snapshot = fresh(["ml", "ml", "ops", "ops"])
    policy = budgeted(partitioned(load_policy("max_min_fairness"), 2), {"ml": 1.0})
    allocation = policy.allocate(snapshot)
    assert spent(snapshot, allocation.share_C, "ml") == pytest.approx(1.0)


def test_parts_of_a_cluster_do_not_have_the_whole_budget_each() -> None:
    for inner in ("budgeted(max_min_fairness, ml=1)", "agnostic(budgeted(fifo, ml=1))"):
        with pytest.raises(PolicyError, match="each part would have the whole budget"):
            load_policy(f"partitioned({inner}, 2)")


@pytest.mark.parametrize("text", ["lookahead({})", "guarded({}, fifo)"])
@pytest.mark.parametrize("inner", ["max_min_fairness", "srtf", "elastic(srtf_program)"])
def test_whichever_answer_is_given_is_within_the_budget(text: str, inner: str) -> None:
    with pytest.raises(
        PolicyError, match=r"other answers would not keep it\. Try: budgeted\((lookahead|guarded)\("
    ):
        load_policy(text.format(f"budgeted({inner}, ml=1)"))
    allocation = load_policy(f"budgeted({text.format(inner)}, ml=1)").allocate(fresh(["ml", "ml", "ops"]))
    assert spent(allocation.snapshot, allocation.share_C, "ml") <= 1.0 + 1e-9
    assert not allocation.execution.backfill


def test_modifiers_around_it_keep_it() -> None:
    for text in ("agnostic(budgeted(max_min_fairness, ml=1))", "budgeted(agnostic(max_min_fairness), ml=1)"):
        allocation = load_policy(text).allocate(fresh(["ml", "ops", "ml"]))
        assert allocation.execution.quota
        assert spent(allocation.snapshot, allocation.share_C, "ml") <= 1.0 + 1e-9
    hierarchy = load_policy("hierarchical(budgeted(max_min_fairness, ml=1), ops=2)")
    assert str(hierarchy) == "budgeted(hierarchical(max_min_fairness, ops=2), ml=1)"


def test_it_prints_as_what_made_it() -> None:
    policy = load_policy("budgeted(packed(max_min_fairness), total=40, ml/ann=2.5)")
    assert str(policy) == "budgeted(packed(max_min_fairness), ml/ann=2.5, total=40)"
    assert str(load_policy(str(policy))) == str(policy)
    for usd in ("1234567.89", "1.2e-05"):
        assert str(load_policy(f"budgeted(fifo, ml={usd})")) == f"budgeted(fifo, ml={usd})"
    formula = "Maximize(SumThroughput(), [OwnerCost('ml') <= 5])"
    assert repr(load_policy(formula)) == formula
    assert load_policy(formula).allocate(fresh(["ml", "ml"])).throughput_J.sum() == pytest.approx(4 * 5 / 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("budgeted(fifo)", "no budget"),
        ("budgeted(fifo, ml)", "cannot read 'ml'"),
        ("budgeted(fifo, ml=)", "cannot read 'ml='"),
        ("budgeted(fifo, ml=-1)", "cannot read 'ml=-1'"),
        ("budgeted(fifo, ml=nan)", "cannot read 'ml=nan'"),
        ("budgeted(fifo, ml=1e999)", "cannot read"),
        ("budgeted(fifo, ml=$5)", "cannot read"),
        ("budgeted(fifo, ml=5, ml=6)", "ml is named twice"),
        ("budgeted(fifo, ml=5, ml/=6)", "named twice"),
        ("budgeted(fifo, =5)", "=5"),
        ("budgeted(fifo, /=5)", "=5"),
        ("budgeted(fifa, ml=5)", "did you mean 'fifo'"),
        ("Maximize(SumThroughput(), [OwnerCost() <= 5])", "OwnerCost"),
        ("Maximize(SumThroughput(), [OwnerCost(5) <= 5])", "5 is no owner"),
        ("Maximize(SumThroughput(), [OwnerCost('') <= 5])", "'' is no owner"),
        ("Maximize('ml')", "is not understood"),
    ],
)
def test_what_is_no_budget_is_named(text: str, said: str) -> None:
    with pytest.raises(PolicyError) as error:
        load_policy(text)
    assert said in str(error.value)


@pytest.mark.parametrize("usd", [-1.0, float("nan"), float("inf")])
def test_a_budget_is_a_number(usd: float) -> None:
    with pytest.raises(PolicyError, match="expected dollars per hour"):
        budgeted(load_policy("fifo"), {"ml": usd})


def test_an_owner_is_a_name() -> None:
    with pytest.raises(PolicyError, match="'' is no owner"):
        OwnerCost("")


@pytest.mark.parametrize("name", ["max_min_fairness", "fifo", "isolated"])
def test_without_prices_there_are_no_budgets(name: str) -> None:
    snapshot = Snapshot.of([Job(0, "a", 1000.0, owner="ml")], Cluster.parse("fast=1"), SPEEDS)
    with pytest.raises(PolicyError, match="no price is known for fast"):
        load_policy(f"budgeted({name}, ml=1)").allocate(snapshot)


# -- over time ------------------------------------------------------------------------------------------------


def over_budget_usd(result: Result, path: str, usd_per_hour: float) -> float:
    """By how many dollars an owner ever was ahead of his budget since the start, at the end of any lease."""
    mine_L = np.array([is_of(result.jobs[j], path) for j in result.leases.job_L], dtype=bool)
    start_L, end_L = result.leases.start_s_L[mine_L], result.leases.end_s_L[mine_L]
    cost_L = result.cost_usd_L[mine_L]
    ahead = 0.0
    for now_s in np.unique(end_L):
        part_L = np.clip((now_s - start_L) / np.maximum(end_L - start_L, 1e-9), 0.0, 1.0)
        ahead = max(ahead, float(cost_L @ part_L) - usd_per_hour * now_s / 3600.0)
    return ahead


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=6)
@given(
    steps=st.lists(st.floats(2_000.0, 60_000.0), min_size=3, max_size=7),
    gap_s=st.sampled_from([0.0, 900.0, 4000.0]),
    ml=st.floats(0.3, 5.0),
    total=st.floats(1.0, 8.0),
)
def test_over_time_nobody_spends_more(
    name: str, steps: list[float], gap_s: float, ml: float, total: float
) -> None:
    """At any time, less what one round of his devices costs: shares are carried out round by round."""
    jobs = [
        Job(i, "ab"[i % 2], n, arrival_s=i * gap_s, owner=OWNERS[i % 2 + (i % 3)]) for i, n in enumerate(steps)
    ]
    policy = budgeted(load_policy(name), {"ml": ml, "total": total})
    result = simulate(policy, jobs, Cluster.parse("fast=1,slow=2"), SPEEDS, PRICES)
    round_usd = 5.0 * 360.0 / 3600.0  # of all devices
    assert over_budget_usd(result, "ml", ml) <= round_usd
    assert over_budget_usd(result, "total", total) <= round_usd
    if name in ("max_min_fairness", "isolated"):  # shares of time let everybody through in the end
        assert np.isfinite(result.completion_s_J).all()


def test_a_thin_budget_takes_its_time_and_few_rounds() -> None:
    jobs = [Job(0, "a", 14_400.0, owner="ml")]  # an hour on fast, $3
    result = simulate(
        load_policy("budgeted(max_min_fairness, ml=0.03)"), jobs, Cluster.parse("fast=1"), SPEEDS, PRICES
    )
    assert result.completion_s_J[0] / 3600.0 == pytest.approx(100.0, rel=0.02)
    assert result.rounds < 50
    assert result.cost_usd_J.sum() == pytest.approx(3.0)


def test_a_change_of_prices_changes_what_a_budget_buys() -> None:
    jobs = [Job(0, "a", 10 * 14_400.0, owner="ml")]
    result = simulate(
        load_policy("budgeted(max_min_fairness, ml=3)"),
        jobs,
        Cluster.parse("fast=1"),
        SPEEDS,
        PRICES,
        price_changes=[(5 * 3600.0, Prices({"fast": 6.0}))],
    )
    assert result.completion_s_J[0] / 3600.0 == pytest.approx(5 + 10, rel=0.02)


def test_checkpoints_are_paid_out_of_the_budget() -> None:
    """A job that is stopped holds its devices until its checkpoint is written."""
    jobs = [Job(i, "b", 200_000.0, owner="ml") for i in range(3)]
    rules = replace(DEFAULT, overheads=Overheads(Overhead(60.0, 60.0)))
    policy = load_policy("budgeted(max_min_fairness, ml=0.5)")
    result = simulate(policy, jobs, Cluster.parse("fast=1,slow=1"), SPEEDS, PRICES, rules=rules)
    assert result.restarts_J.sum() > 10
    assert over_budget_usd(result, "ml", 0.5) <= 4.0 * 420.0 / 3600.0


def test_of_equal_jobs_those_with_the_lowest_ids_keep_their_devices_in_whatever_order_they_are_listed() -> None:
    jobs = [Job(j, "net", 1000.0) for j in range(6)]
    snapshot = snapshot_of(jobs, Cluster.of({"v100": 2, "k80": 3}), np.full((6, 2), 1.0))  # $3.0 and $0.5 an hour
    policy = load_policy("budgeted(fifo, total=5)")

    def served(one: Snapshot) -> set[int]:
        answer = policy.allocate(one)
        return {job.id for job, share_A in zip(one.jobs, answer.share_JA, strict=True) if share_A.any()}

    assert len(served(snapshot)) == 4
    for order in permutations(range(6)):
        assert served(permuted(snapshot, order)) == served(snapshot)
