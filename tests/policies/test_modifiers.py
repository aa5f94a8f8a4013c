"""Modifiers: what they open, what they divide, what they add, and what they refuse.

Legend: J jobs, A accelerator types.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.cluster import Cluster
from gavelx.errors import PolicyError, ProgramError
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.policies import (
    Cost,
    Devices,
    Fifo,
    Isolated,
    Maximize,
    MaxMinFairness,
    Sum,
    Throughput,
    agnostic,
    load_policy,
    packed,
    partitioned,
    with_constraints,
)
from gavelx.prices import Prices
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Pairing, Setting, Throughputs
from tests.policies.reference import Instance
from tests.policies.strategies import snapshots

BESIDE = Throughputs(
    {Setting("a", "v100"): 10.0, Setting("b", "v100"): 4.0},
    {Pairing("a", "b", "v100"): 7.0, Pairing("b", "a", "v100"): 3.0, Pairing("a", "a", "v100"): 4.0},
)
APART = Throughputs({Setting("a", "v100", 4): 10.0, Setting("a", "v100", 4, False): 6.0})


def one_each(pairs: bool = True) -> Snapshot:
    jobs = [Job(0, "a", 100.0), Job(1, "b", 100.0)]
    return Snapshot.of(jobs, Cluster.of({"v100": 1}), BESIDE, Prices({"v100": 2.0}), pairs=pairs)


def test_a_pair_that_runs_faster_than_halves_is_used_when_it_is_open() -> None:
    alone = load_policy("max_min_fairness").allocate(one_each())
    assert alone.throughput_J == pytest.approx([5.0, 2.0])
    together = load_policy("packed(max_min_fairness)").allocate(one_each())
    # the pair all the time: 7/10 and 3/4 of their speeds; with a alone for a part t: 0.7 + 0.3 t = 0.75 (1 - t)
    assert together.certificate.objective == pytest.approx(0.75 * (1 - 0.05 / 1.05))
    assert together.throughput_J[0] / 10.0 == pytest.approx(together.throughput_J[1] / 4.0)
    assert together.certificate.bound == pytest.approx(together.certificate.objective)


def test_a_pair_is_paid_for_once() -> None:
    whole = packed(Maximize(Sum(Throughput()), [Cost() <= 2.0])).allocate(one_each())
    assert whole.throughput_J.sum() == pytest.approx(10.0)
    half = packed(Maximize(Sum(Throughput()), [Cost() <= 1.0])).allocate(one_each())
    assert half.throughput_J.sum() == pytest.approx(5.0)


def test_an_unknown_or_one_sided_pair_is_no_pair() -> None:
    assert (one_each().known.members_C > 1).sum() == 1  # b beside b is unknown, and there is only one a
    assert not (one_each(pairs=False).known.members_C > 1).any()


@pytest.mark.parametrize("text", ["max_min_fairness", "makespan", "nash_welfare", "min_cost", "fifo"])
def test_pairs_that_are_known_but_not_open_change_nothing(text: str) -> None:
    policy = load_policy(text)
    with_pairs, without = policy.allocate(one_each()), policy.allocate(one_each(pairs=False))
    assert with_pairs.share_C.tobytes() == without.share_C.tobytes()


@pytest.mark.parametrize("text", ["fifo", "isolated", "proportional", "allox", "strategy_proof"])
@pytest.mark.parametrize("modifier", ["packed", "placed"])
def test_what_gives_shares_to_single_jobs_alone_cannot_pack_or_place(text: str, modifier: str) -> None:
    with pytest.raises(PolicyError, match="does not know what to do with"):
        load_policy(f"{modifier}({text})")


def gang(devices: int, per_server: int, **table: Throughputs) -> Snapshot:
    jobs = [Job(0, "a", 100.0, scale_factor=4)]
    cluster = Cluster.of({"v100": devices}, devices_per_server=per_server)
    return Snapshot.of(jobs, cluster, table.get("table", APART), placements=True)


@pytest.mark.parametrize("per_server", [1, 2, 3, 4])
def test_a_gang_in_as_few_servers_as_can_hold_it_is_together_for_a_policy_that_knows_of_placements(
    per_server: int,
) -> None:
    for text in ("max_sum_throughput", "placed(max_sum_throughput)"):
        assert load_policy(text).allocate(gang(4, per_server)).throughput_J == pytest.approx([10.0])


def test_a_spread_gang_that_is_faster_by_a_table_is_no_faster_for_a_policy() -> None:
    """Noise of measurements: where it goes is up to the placement, which puts it together."""
    odd = Throughputs({Setting("a", "v100", 4): 10.0, Setting("a", "v100", 4, False): 12.0})
    assert load_policy("placed(max_sum_throughput)").allocate(gang(8, 4, table=odd)).throughput_J == [10.0]


def test_a_gang_that_is_known_spread_alone_runs_nowhere_for_a_policy_as_for_the_simulator() -> None:
    spread = Throughputs({Setting("a", "v100", 4, False): 6.0})
    assert load_policy("placed(max_sum_throughput)").allocate(gang(8, 4, table=spread)).throughput_J == [0.0]


@pytest.mark.parametrize("text", ["max_min_fairness", "min_cost_slo", "shared_cloud_cost_fairness"])
@pytest.mark.parametrize("order", ["placed(agnostic({}))", "agnostic(placed({}))"])
def test_a_scheduler_that_counts_gpus_does_not_tell_placements_apart(text: str, order: str) -> None:
    """Spread, the gang is known on the fast type alone, so its mean over types is higher than consolidated."""
    known = {("v100", True): 10.0, ("v100", False): 9.0, ("k80", True): 1.0}
    table = Throughputs({Setting("a", name, 4, together): speed for (name, together), speed in known.items()})
    cluster, prices = Cluster.of({"v100": 4, "k80": 4}, 4), Prices({"v100": 1.0, "k80": 1.0})
    snapshot = Snapshot.of([Job(0, "a", 100.0, scale_factor=4)], cluster, table, prices, placements=True)
    plain, placed = (load_policy(one).allocate(snapshot) for one in (f"agnostic({text})", order.format(text)))
    assert plain.throughput_J == pytest.approx([5.5])
    assert placed.throughput_J == pytest.approx([5.5])


def test_pairs_and_placements_open_together() -> None:
    policy = load_policy("packed(placed(max_min_fairness))")
    assert policy.allocate(one_each()).certificate.objective == pytest.approx(0.75 * (1 - 0.05 / 1.05))
    assert policy.allocate(gang(4, 2)).throughput_J == pytest.approx([10.0])


def test_agnostic_spreads_pairs_as_it_spreads_jobs() -> None:
    table = load_throughputs("simulation")
    names = [name for name in table.job_types if table.get(name, "k80", 1)][:6]
    jobs = [Job(j, names[j % 6], 1000.0) for j in range(18)]
    snapshot = Snapshot.of(jobs, Cluster.of({"v100": 3, "p100": 2, "k80": 1}), table, pairs=True)
    for text in ("packed(agnostic(max_min_fairness))", "agnostic(packed(max_min_fairness))"):
        allocation = load_policy(text).allocate(snapshot)
        share_C, seen = allocation.share_C, allocation.snapshot
        assert share_C[seen.configurations.members_C > 1].sum() > 0
        for mode in np.unique(seen.configurations.mode_C[share_C > 1e-9]):
            mine_C = (seen.configurations.mode_C == mode) & seen.usable_C
            if mine_C.sum() == 3:
                parts = share_C[mine_C] / share_C[mine_C].sum()
                expected = seen.devices_A[seen.configurations.accelerator_C[mine_C]] / 6
                np.testing.assert_allclose(parts, expected, atol=1e-6)


INSIDE = ["{}", "packed({})", "placed({})", "elastic({})", "robust({})", "packed(placed({}))", "lookahead({})"]


@pytest.mark.parametrize("inside", INSIDE)
def test_spreading_breaks_no_constraint_whatever_is_in_between(inside: str) -> None:
    """Types differ by their price, also for a policy that tells them apart by nothing else."""
    names = ["ResNet-18 (batch size 16)", "LM (batch size 5)"]
    jobs = [Job(j, names[j % 2], 1000.0) for j in range(4)]
    cluster, table = Cluster.of({"v100": 2, "p100": 1, "k80": 4}), load_throughputs("simulation")
    prices = Prices({"v100": 2.48, "p100": 1.46, "k80": 0.45})
    snapshot = Snapshot.of(jobs, cluster, table, prices=prices, pairs=True)
    program = inside.format("Maximize(Worst(NormalizedThroughput()), [Cost() <= 2])")
    for text in (
        f"agnostic({program})",
        f"with_constraints(agnostic({inside.format('max_min_fairness')}), Cost() <= 2)",
    ):
        allocation = load_policy(text).allocate(snapshot)
        usd_C = allocation.snapshot.configurations.usd_C(snapshot.usd_per_hour_A)
        assert 0.0 < (usd_C * allocation.share_C).sum() <= 2.0 * (1.0 + 1e-9)


@given(snapshot=snapshots(), parts=st.integers(1, 4))
def test_parts_together_are_feasible_and_no_better_than_the_whole(snapshot: Snapshot, parts: int) -> None:
    whole = MaxMinFairness().allocate(snapshot)
    divided = partitioned(MaxMinFairness(), parts).allocate(snapshot)
    assert Instance.of(snapshot).violation(divided.share_JA) <= 1e-9
    if whole.certificate.objective is not None:
        assert divided.certificate.objective <= whole.certificate.objective * (1 + 1e-9) + 1e-12
        assert divided.certificate.bound is None


def test_one_part_is_the_whole() -> None:
    snapshot = one_each()
    whole, part = MaxMinFairness().allocate(snapshot), partitioned(MaxMinFairness(), 1).allocate(snapshot)
    np.testing.assert_allclose(part.throughput_J, whole.throughput_J)


def test_a_gang_that_fits_the_cluster_fits_its_part() -> None:
    jobs = [Job(j, "a", 100.0, scale_factor=4) for j in range(3)]
    snapshot = Snapshot.of(jobs, Cluster.of({"v100": 9}), APART)
    allocation = partitioned(MaxMinFairness(), 3).allocate(snapshot)
    assert (allocation.share_JA[:, 0] > 0).all()
    assert allocation.certificate.path.startswith("2 parts")


@pytest.mark.parametrize(
    "text", ["with_constraints(partitioned({}, 2), {})", "partitioned(with_constraints({}, {}), 2)"]
)
def test_parts_that_break_a_constraint_together_are_refused(text: str) -> None:
    jobs = [Job(j, "b", 100.0) for j in range(2)]
    snapshot = Snapshot.of(jobs, Cluster.of({"v100": 2}), BESIDE, Prices({"v100": 2.0}))
    policy = load_policy(text.format("max_min_fairness", "Cost() <= 3"))
    with pytest.raises(ProgramError, match=r"the parts together do not meet Cost\(\) <= 3"):
        policy.allocate(snapshot)
    within = load_policy(text.format("max_min_fairness", "TimeShare() <= 0.5")).allocate(snapshot)
    assert within.share_JA.tolist() == [[0.5], [0.5]]


@pytest.mark.parametrize("parts", ["0", "-1", "1.5", "x", ""])
def test_parts_are_a_whole_number(parts: str) -> None:
    with pytest.raises(PolicyError, match="parts"):
        load_policy(f"partitioned(max_min_fairness, {parts})")


def test_constraints_are_added_inside_modifiers() -> None:
    policy = with_constraints(packed(Maximize(Sum(Throughput()), [Cost() <= 5])), [Devices() <= 0.5])
    assert repr(policy) == "packed(Maximize(Sum(Throughput()), [Cost() <= 5, Devices() <= 0.5]))"
    assert policy.allocate(one_each()).throughput_J.sum() == pytest.approx(5.0)
    assert load_policy("with_constraints(max_min_fairness, Cost() <= 1)").allocate(one_each()).throughput_J == (
        pytest.approx([2.5, 1.0])
    )


def test_constraints_make_no_sense_for_what_is_no_program() -> None:
    for policy in (Fifo(), agnostic(Isolated())):
        with pytest.raises(PolicyError, match="is no program"):
            with_constraints(policy, [Cost() <= 5])


def test_a_constraint_that_cannot_be_met_is_named() -> None:
    with pytest.raises(ProgramError, match=r"NormalizedThroughput\(\) >= 3"):
        load_policy("with_constraints(max_min_fairness, NormalizedThroughput() >= 3)").allocate(one_each())
