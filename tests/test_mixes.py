"""Mixes: as fast as their plans, none that another one beats, divided by policies, carried out, and paid for.

Legend: J jobs, A accelerator types, C configurations.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from gavelx.cluster import Cluster
from gavelx.configuration import Configuration
from gavelx.elastic import Elastic
from gavelx.errors import UserError, WorkloadError
from gavelx.explain.properties import devices_held_JA
from gavelx.explain.reasons import Reasons
from gavelx.explain.sizes import size_shares, why_no_larger
from gavelx.files.snapshots import snapshot_from_json, snapshot_to_json
from gavelx.jobs import Job
from gavelx.measurements import Measurement
from gavelx.mechanism import DEFAULT
from gavelx.mechanism.commands import Device, Lease
from gavelx.mixes import MOST, Mix, is_mix, mixes, parts_of_devices, plan_of, setting_of, speed_on
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import Cost, Maximize, Policy, SumThroughput, Throughput, Worst, elastic, load_policy
from gavelx.prices import Prices
from gavelx.simulator import asked, simulate
from gavelx.simulator.ledger import Ledger, LedgerError
from gavelx.sizes import speed
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified
from gavelx.testing.plain import use
from gavelx.throughputs import Setting, Throughputs

TYPES = ("v100", "p100", "k80")
PARTS = 8


def table_of(faster: Mapping[str, float], most: int = PARTS, drag: float = 0.0) -> Throughputs:
    """One part takes a second on a device of speed 1, and each further device slows all down by ``drag``."""
    return Throughputs(
        {
            Setting("m", name, n): each * n / PARTS / (1.0 + drag * (n - 1))
            for name, each in faster.items()
            for n in range(1, most + 1)
        }
    )


def job_of(number: int = 0, **changed: Any) -> Job:
    return Job(number, "m", **{"total_steps": 1000.0, "elastic": Elastic.of("workers:1-8/8/mixed"), **changed})


FASTER = st.fixed_dictionaries({name: st.sampled_from((0.5, 1.0, 1.3, 2.0, 4.0)) for name in TYPES})
COUNTS = st.lists(st.integers(0, 8), min_size=3, max_size=3)


def test_a_mix_is_as_fast_as_its_plan() -> None:
    """Four parts on the v100 and two on each k80 take a second; on either type alone it would be two."""
    job, table = job_of(), table_of({"v100": 4.0, "k80": 2.0})
    mix = (("v100", 1), ("k80", 2))
    assert speed_on(job, mix, 0, table) == pytest.approx(1.0)
    plan = plan_of(job, mix, table)
    assert plan is not None
    assert (plan.devices, plan.parts_each, plan.waste) == ((1, 2), (4, 2), pytest.approx(0.0))
    assert speed_on(job, mix[:1], 0, table) == speed_on(job, mix[1:], 0, table) == pytest.approx(0.5)
    assert speed_on(job, (("v100", 1), ("none", 2)), 0, table) is None
    dead = replace(table, isolated={**table.isolated, Setting("m", "k80", 3): 0.0})
    assert speed_on(job, mix, 0, dead) == 0.0


@given(FASTER, st.integers(1, 8), st.sampled_from((0.0, 0.2)))
def test_on_one_type_it_is_the_speed_of_a_size(faster: dict[str, float], devices: int, drag: float) -> None:
    job, table = job_of(), table_of(faster, drag=drag)
    plan = plan_of(job, (("v100", devices),), table)
    assert plan is not None
    assert 1.0 / plan.step_s == pytest.approx(speed(job, "v100", devices, 0, table), rel=1e-9)


@given(FASTER, COUNTS, st.sampled_from((0.0, 0.1, 0.4)))
@settings(max_examples=40, deadline=None)
def test_no_mix_is_beaten_by_fewer_devices(faster: dict[str, float], counts: list[int], drag: float) -> None:
    job, table = job_of(), table_of(faster, drag=drag)
    found = mixes(job, TYPES, table, counts)
    there = dict(zip(TYPES, counts, strict=True))
    assert len(found) <= MOST
    for mix in found:
        assert len(mix) > 1
        assert all(0 < devices <= there[name] for name, devices in mix), (mix, there)
        assert sum(devices for _, devices in mix) <= 8
        mine = speed_on(job, mix, 0, table)
        assert mine
        for fewer in product(*(range(devices + 1) for _, devices in mix)):
            other = tuple((name, n) for (name, _), n in zip(mix, fewer, strict=True) if n)
            if other and other != mix and _was_looked_at(other, there):
                assert (speed_on(job, other, 0, table) or 0.0) < mine, (mix, other)


def _was_looked_at(mix: Mix, there: Mapping[str, int]) -> bool:
    return all(n & (n - 1) == 0 or n == min(there[name], 8) for name, n in mix)


@given(FASTER, COUNTS, st.randoms())
@settings(max_examples=40, deadline=None)
def test_every_part_is_on_a_device_and_none_has_more_than_its_plan(
    faster: dict[str, float], counts: list[int], random: Any
) -> None:
    job, table = job_of(), table_of(faster)
    for mix in mixes(job, TYPES, table, counts):
        devices = [name for name, n in mix for _ in range(n)]
        random.shuffle(devices)
        spread, plan = parts_of_devices(job, mix, devices, table), plan_of(job, mix, table)
        assert plan is not None
        most = {name: each for (name, _), each in zip(mix, plan.parts_each, strict=True)}
        assert sum(spread) == PARTS
        assert all(1 <= has <= most[name] for name, has in zip(devices, spread, strict=True))
    assert sum(parts_of_devices(job, (("a", 1), ("b", 2)), ["b", "a", "b"], table)) == PARTS  # nothing is known


def test_who_may_not_mix_and_what_is_not_known() -> None:
    table = table_of({"v100": 4.0, "k80": 2.0})
    assert mixes(job_of(), ("v100", "k80"), table, (1, 2))
    assert mixes(job_of(elastic=Elastic.of("workers:1-8/8")), ("v100", "k80"), table, (1, 2)) == ()
    assert mixes(job_of(elastic=None), ("v100", "k80"), table, (1, 2)) == ()
    assert mixes(job_of(), ("v100", "k80"), table, (1, 0)) == ()
    unknown = Throughputs({way: speed for way, speed in table.isolated.items() if way[1:] != ("k80", 1, True)})
    assert mixes(job_of(), ("v100", "k80"), unknown, (1, 2)) == ()  # not in its own size
    assert str(Elastic.of("workers:1-8/16/mixed")) == "workers:1-8/16/mixed"
    for text in ("batch:1-8/64-512/mixed", "workers:1-8/16/linear"):
        with pytest.raises(UserError):
            Elastic.of(text)


# -- policies -------------------------------------------------------------------------------------------------

PROGRAMS = ("max_min_fairness", "finish_time_fairness", "max_sum_throughput", "makespan", "nash_welfare")


def snapshot_of(jobs: int, devices: Mapping[str, int], faster: Mapping[str, float], drag: float = 0.0) -> Snapshot:
    every = [job_of(i, scale_factor=1 + i % 2) for i in range(jobs)]
    prices = Prices({"v100": 3.0, "p100": 1.5, "k80": 0.5})
    table = table_of(faster, drag=drag)
    return Snapshot.of(every, Cluster.of(devices), table, prices, sizes=True, mixes=True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_mixes_never_make_an_answer_worse(name: str) -> None:
    """And they make that of a lone job better: it has all devices at once."""
    policy, wider = load_policy(name), load_policy(f"elastic({name})")
    for jobs, devices in ((1, {"v100": 1, "k80": 2}), (3, {"v100": 2, "p100": 1, "k80": 4})):
        snapshot = snapshot_of(jobs, devices, {"v100": 4.0, "p100": 3.0, "k80": 2.0}, drag=0.02)
        narrow, wide = wider.allocate(snapshot.without_mixes()), wider.allocate(snapshot)
        gains = [policy.gain(answer.snapshot, answer.share_C) for answer in (narrow, wide)]
        assert None not in gains
        assert gains[1] >= gains[0] - 1e-6 * abs(gains[0])  # type: ignore[operator,arg-type]
        if jobs == 1:
            mixed_C = wide.snapshot.configurations.mixed_C
            assert wide.share_C[mixed_C].sum() == pytest.approx(1.0)


def brute_force(snapshot: Snapshot) -> float:
    """The least speed of jobs in the best of all shares, by a plain linear program over rows."""
    table = snapshot.configurations
    J, A, C = *table.shape, len(table)
    time_JC, speed_JC, devices_AC = np.zeros((J, C)), np.zeros((J, C)), np.zeros((A, C))
    for c, j in zip(table.configuration_M.tolist(), table.job_M.tolist(), strict=True):
        time_JC[j, c], speed_JC[j, c] = 1.0, table.throughput_M[c] * snapshot.usable_C[c]
        devices_AC[table.accelerator_C[c], c] = table.devices_C[c]
        for a, n in enumerate(table.others_CA[c].tolist() if table.has_mixes else []):
            devices_AC[a, c] += n
    level = np.ones((J, 1))
    found = linprog(
        [*np.zeros(C), -1.0],
        A_ub=np.block([[time_JC, np.zeros((J, 1))], [devices_AC, np.zeros((A, 1))], [-speed_JC, level]]),
        b_ub=np.concatenate([np.ones(J), snapshot.devices_A, np.zeros(J)]),
    )
    return -float(found.fun)


@given(st.integers(1, 4), FASTER, COUNTS.filter(any), st.booleans())
@example(2, {"v100": 2.0, "p100": 1.0, "k80": 1.0}, [3, 1, 3], False)
@settings(max_examples=25, deadline=None)
def test_max_min_over_mixes_is_exact(jobs: int, faster: dict[str, float], counts: list[int], told: bool) -> None:
    """Against a linear program that was made row by row; jobs are alike but for the size they ask for.

    ``told``: the table says which are; else it is found, also where a p100 and a k80 are equally fast.
    """
    devices = {name: count for name, count in zip(TYPES, counts, strict=True) if count}
    snapshot = snapshot_of(jobs, devices, faster, drag=0.05).open("sizes").open("mixes")
    if not told:
        snapshot = snapshot.replace(known=replace(snapshot.known, kind_J=None))
    answer = elastic(Maximize(Worst(Throughput()))).allocate(snapshot)
    assert answer.certificate.objective == pytest.approx(brute_force(snapshot), rel=1e-7)
    used = use(answer.snapshot.configurations, answer.share_C)
    assert (used.devices_A <= snapshot.devices_A + 1e-9).all()


def test_a_mix_is_of_no_use_where_one_of_its_types_has_too_few_devices() -> None:
    snapshot = snapshot_of(1, {"v100": 1, "k80": 2}, {"v100": 4.0, "p100": 3.0, "k80": 2.0})
    less = snapshot.replace(cluster=Cluster.of({"v100": 1, "k80": 1})).open("sizes").open("mixes")
    mixed_C = less.configurations.mixed_C
    assert less.configurations.others_CA[mixed_C, 1].tolist() == [1, 2]
    assert less.usable_C[mixed_C].tolist() == [True, False]
    answer = load_policy("elastic(max_min_fairness)").allocate(less)
    assert use(answer.snapshot.configurations, answer.share_C).devices_A.tolist() == pytest.approx([1.0, 1.0])


def test_prices_count_the_devices_of_each_type() -> None:
    """A v100 and two k80s cost 4 dollars an hour. With 2 the job has them a third of its time, else the k80s."""
    snapshot = snapshot_of(1, {"v100": 1, "k80": 2}, {"v100": 4.0, "p100": 3.0, "k80": 2.0})
    for most, objective in ((5.0, 1.0), (4.0, 1.0), (2.0, 2 / 3)):
        policy: Policy = elastic(Maximize(SumThroughput(), [Cost() <= most]))
        answer = policy.allocate(snapshot)
        table = answer.snapshot.configurations
        assert answer.certificate.objective == pytest.approx(objective)
        assert float(table.usd_C(snapshot.usd_per_hour_A) @ answer.share_C) == pytest.approx(min(most, 4.0))


def test_a_type_without_devices_has_no_part_in_the_prices_of_mixes() -> None:
    snapshot = snapshot_of(1, {"v100": 1, "p100": 0, "k80": 2}, {"v100": 4.0, "p100": 3.0, "k80": 2.0})
    answer = load_policy("elastic(min_cost)").allocate(snapshot)
    assert use(answer.snapshot.configurations, answer.share_C).devices_A[1] == 0.0


def test_a_saved_snapshot_keeps_its_mixes() -> None:
    snapshot = snapshot_of(2, {"v100": 1, "k80": 2}, {"v100": 4.0, "p100": 3.0, "k80": 2.0})
    answer = load_policy("elastic(max_min_fairness)").allocate(snapshot)
    later = snapshot.replace(promised=answer.promises(rounded=True))
    again = snapshot_from_json(snapshot_to_json(later))
    assert again.known.others_CA.tolist() == snapshot.known.others_CA.tolist()
    assert again.known.foreign(snapshot.known) is None
    accelerators = later.promised.accelerators
    assert again.promised.configurations.named(again.promised.accelerators) == (
        later.promised.configurations.named(accelerators)
    )
    written = snapshot_to_json(snapshot)
    mixed = next(row for row in written["throughputs"] if "others" in row)
    mixed["others"] = {"v101": 1}
    with pytest.raises(UserError, match="v101"):
        snapshot_from_json(written)


WHOLE = ("easyscale", "fifo", "goodput", "optimus", "pollux", "srtf", "srtf_program")


@pytest.mark.parametrize("name", [*WHOLE, "max_min_fairness"])
def test_a_lone_job_has_the_devices_of_all_types(name: str) -> None:
    """Where it is faster on both, also under policies that hand out whole devices; modifiers hand mixes on."""
    snapshot = snapshot_of(1, {"v100": 1, "k80": 2}, {"v100": 4.0, "p100": 3.0, "k80": 2.0})
    snapshot = snapshot.replace(elapsed_s_J=np.array([1e6]))  # a restart is little to lose
    for text in (f"elastic({name})", f"partitioned(elastic({name}), 3)", f"lookahead(elastic({name}))"):
        answer = load_policy(text).allocate(snapshot)
        mixed_C = answer.snapshot.configurations.mixed_C
        assert answer.share_C[mixed_C].sum() == pytest.approx(1.0), text
        assert answer.throughput_J.tolist() == pytest.approx([1.0]), text


@pytest.mark.parametrize("name", WHOLE)
@given(st.integers(1, 4), FASTER, COUNTS.filter(any))
@settings(max_examples=20, deadline=None)
def test_whole_devices_of_each_type_are_handed_out(
    name: str, jobs: int, faster: dict[str, float], counts: list[int]
) -> None:
    """No device is promised twice, and a job has one way to run or none."""
    devices = {name: count for name, count in zip(TYPES, counts, strict=True) if count}
    answer = load_policy(f"elastic({name})").allocate(snapshot_of(jobs, devices, faster, drag=0.05))
    assert set(answer.share_C.tolist()) <= {0.0, 1.0}
    used = use(answer.snapshot.configurations, answer.share_C)
    assert (used.devices_A <= answer.snapshot.devices_A).all()
    assert set(used.time_J.tolist()) <= {0.0, 1.0}
    assert used.time_J.any()


def test_a_job_grows_into_a_mix_of_what_others_left() -> None:
    """One begins on the v100, and the other on two k80s; the two that are left go to where they save most."""
    snapshot = snapshot_of(2, {"v100": 1, "k80": 4}, {"v100": 4.0, "p100": 3.0, "k80": 2.0})
    answer = load_policy("elastic(fifo)").allocate(snapshot)
    used = use(answer.snapshot.configurations, answer.share_C)
    assert used.devices_A.tolist() == snapshot.devices_A.tolist()


@pytest.mark.parametrize(
    "text", ["agnostic(elastic(max_min_fairness))", "elastic(agnostic(fifo))", "elastic(ones)"]
)
def test_policies_that_do_not_know_mixes_are_shown_none(text: str) -> None:
    snapshot = snapshot_of(3, {"v100": 2, "k80": 2}, {"v100": 4.0, "p100": 3.0, "k80": 2.0})
    policy = load_policy(text)
    assert "mixes" not in policy.opens
    assert not policy.allocate(snapshot).snapshot.configurations.has_mixes


# -- carried out ----------------------------------------------------------------------------------------------

CLUSTER = Cluster.of({"v100": 1, "k80": 2})
TABLE = table_of({"v100": 4.0, "k80": 2.0})
PRICES = Prices({"v100": 3600.0, "k80": 900.0})
ON_BOTH = load_policy("elastic(max_min_fairness)")


def test_a_job_on_two_types_runs_at_the_speed_of_its_plan_and_pays_for_both() -> None:
    """1000 steps at one a second; a v100 at a dollar a second and two k80s at a quarter."""
    result = simulate(ON_BOTH, [job_of()], CLUSTER, TABLE, PRICES)
    assert result.jct_s_J.tolist() == pytest.approx([1000.0])
    assert result.cost_usd_L.sum() == pytest.approx(1000.0 * (1.0 + 2 * 0.25))
    rows = zip(result.leases.accelerator_L.tolist(), result.leases.devices_L.tolist(), strict=True)
    assert sorted(rows) == [(0, 1), (1, 2)]
    assert int(result.restarts_J.sum()) == 0
    alone = simulate(ON_BOTH, [job_of(elastic=Elastic.of("workers:1-8/8"))], CLUSTER, TABLE, PRICES)
    assert alone.jct_s_J.tolist() == pytest.approx([2000.0])


def test_it_leaves_devices_to_others_and_takes_them_again() -> None:
    """A second job, half as long, comes and goes; a change is a restart, which costs ten seconds."""
    rules = replace(DEFAULT.with_round(60.0), overheads=Overheads(Overhead(checkpoint_s=2.0, restart_s=8.0)))
    jobs = [job_of(), job_of(1, total_steps=200.0, arrival_s=100.0, elastic=Elastic.of("workers:1-8/8"))]
    result = simulate(ON_BOTH, jobs, CLUSTER, TABLE, PRICES, rules=rules)
    assert not result.unfinished
    held = result.leases.job_L == 0
    assert set(result.leases.accelerator_L[held].tolist()) == {0, 1}
    assert int(result.restarts_J[0]) >= 1
    busy_KA = result.busy_devices()[1]
    assert (busy_KA <= np.array([1, 2]) + 1e-9).all()


def test_the_ledger_finds_a_mix_that_is_none() -> None:
    """Devices of one type under a lease that names two; and a job that may not be on two."""
    how = Configuration((0,), "v100", 1, others=(("k80", 2),))
    whole = Lease(1, 0, how, (Device(0, 0), Device(1, 0), Device(1, 1)), 60.0, 1000.0, 0.0)
    for lease, job in (
        (whole._replace(devices=(Device(1, 0), Device(1, 1), Device(1, 2))), job_of()),
        (whole._replace(devices=whole.devices[:2]), job_of()),
        (whole, job_of(elastic=Elastic.of("workers:1-8/8"))),
        (whole, None),
    ):
        ledger = Ledger()
        for server in Cluster.of({"v100": 1, "k80": 3}).servers:
            ledger.joined(server)
        if job is None:
            ledger.started(0.0, whole, job_of())
            continue
        with pytest.raises(LedgerError):
            ledger.started(0.0, lease, job)


def test_a_job_too_wide_for_any_type_runs_on_a_mix() -> None:
    """It was submitted on four devices, and there are two of each type; a policy has to know of mixes."""
    jobs = [job_of(scale_factor=4, elastic=Elastic.of("workers:3-8/8/mixed")), job_of(1, total_steps=100.0)]
    cluster, table = Cluster.of({"v100": 2, "k80": 2}), table_of({"v100": 4.0, "k80": 2.0})
    for name in [*WHOLE, *PROGRAMS]:
        result = simulate(load_policy(f"elastic({name})"), jobs, cluster, table, PRICES)
        assert not result.unfinished, name
    for name, which in (
        ("elastic(ones)", "mixes"),
        ("agnostic(elastic(max_min_fairness))", "mixes"),
        ("fifo", "mixes"),
    ):
        with pytest.raises(WorkloadError, match=which):
            simulate(load_policy(name), jobs, cluster, table, PRICES)
    narrow = [job_of(scale_factor=4, elastic=Elastic.of("workers:1-8/8"))]
    assert not simulate(load_policy("elastic(ones)"), narrow, cluster, table, PRICES).unfinished
    with pytest.raises(WorkloadError, match="other sizes"):
        simulate(load_policy("fifo"), narrow, cluster, table, PRICES)


def test_a_policy_that_knows_no_mixes_says_so() -> None:
    snapshot = snapshot_of(2, {"v100": 1, "k80": 2}, {"v100": 4.0, "p100": 3.0, "k80": 2.0})
    for text in ("elastic(ones)", "agnostic(elastic(max_min_fairness))"):
        assert any("knows no mixes" in note for note in load_policy(text).allocate(snapshot).notes), text
    assert not load_policy("elastic(fifo)").allocate(snapshot).notes


def test_a_protected_job_on_a_mix_keeps_devices_of_all_its_types() -> None:
    """Those of other owners begin on none of them before it has ended, and a gang waits for each of its types."""
    first = job_of(preemptible="no", owner="a", total_steps=500.0)
    jobs = [first, job_of(1, arrival_s=100.0, owner="b", preemptible="no"), job_of(2, arrival_s=100.0, owner="b")]
    run = asked(jobs, CLUSTER, TABLE, PRICES, opens=ON_BOTH.opens)
    seen = list[list[int]]()
    for snapshot in run:
        if len(snapshot.jobs) == 3 and (protection := run._mechanism.protection()) is not None:
            seen.append(protection.held_A)
            protection.passed_over(2, {0: 1, 1: 1})
            assert not protection.may_begin(1, {0: 1})
            assert not protection.may_begin(1, {1: 1})
        run.answer(ON_BOTH.allocate(snapshot))
    assert seen[0] == [1, 2]
    assert run.result.restarts_J.tolist()[0] == 0
    assert run.result.jct_s_J[0] == pytest.approx(500.0)


@pytest.mark.parametrize("name", ["elastic(max_min_fairness)", "budgeted(elastic(max_min_fairness), total=4000)"])
def test_protected_jobs_end_on_mixes_also_within_quotas(name: str) -> None:
    """What saves nothing is protected once it lost its work; a mix counts as the slowest of its types."""
    jobs = [
        job_of(n, checkpoints=False, owner="ab"[n % 2], total_steps=600.0, arrival_s=50.0 * n) for n in range(4)
    ]
    result = simulate(load_policy(name), jobs, CLUSTER, TABLE, PRICES, rules=DEFAULT.with_round(60.0))
    assert not result.unfinished
    held = {
        tuple(row) for row in zip(result.leases.job_L.tolist(), result.leases.accelerator_L.tolist(), strict=True)
    }
    assert {a for _, a in held} == {0, 1}


def test_an_explanation_counts_all_types_of_a_mix() -> None:
    snapshot = snapshot_of(1, {"v100": 1, "k80": 2}, {"v100": 4.0, "p100": 3.0, "k80": 2.0})
    answer = load_policy("elastic(max_min_fairness)").allocate(snapshot)
    assert answer.share_JA.tolist() == [pytest.approx([1.0, 1.0])]
    reasons = Reasons(answer)
    assert reasons.limited_by(0) == "runs all the time on its fastest types at once (v100, k80)"
    assert [tuple(size)[:2] for size in size_shares(reasons, 0)] == [("v100+k80", 3)]
    assert devices_held_JA(answer).tolist() == [pytest.approx([1.0, 2.0])]
    more = snapshot_of(1, {"v100": 2, "k80": 4}, {"v100": 4.0, "p100": 3.0, "k80": 2.0}, drag=0.001)
    table = more.open("sizes").open("mixes").configurations
    part_C = (table.devices_AC.toarray() == [[1.0], [2.0]]).all(axis=0).astype(float)
    whole = certified(more.open("sizes").open("mixes"), part_C, path="by hand", seconds=0.0)
    assert "also on several types at once" in Reasons(whole).limited_by(0)
    assert why_no_larger(Reasons(whole), 0).startswith("larger sizes are faster, and v100, k80 has free devices")


@dataclass
class Stubborn:
    """A learner that believes a table, whatever is measured."""

    table: Throughputs

    def observe(self, measurements: Iterable[Measurement]) -> None:
        assert not any(is_mix(one.way) for one in measurements)

    def throughputs(self) -> Throughputs:
        return self.table


def test_a_lease_on_a_mix_measures_its_speed() -> None:
    """In gangs of three each device is only a third as fast, which nobody knew: the job goes on on the v100."""
    true, believed = table_of({"v100": 4.0, "k80": 2.0}, drag=1.0), table_of({"v100": 4.0, "k80": 1.9})
    job = job_of(total_steps=3000.0)
    misled, taught = (
        simulate(ON_BOTH, [job], CLUSTER, true, believed=one) for one in (believed, Stubborn(believed))
    )
    assert misled.jct_s_J[0] == pytest.approx(9000.0)
    assert 6000.0 < taught.jct_s_J[0] < 7500.0


def test_parameter_servers_are_devices_of_one_more_type() -> None:
    """Four workers and two servers of parameters do 3.6 steps/s, and 2.4 if they exchange gradients themselves.

    A table tells the speeds; of the job on such servers by themselves it says nothing. Their devices are counted
    and paid as any others.
    """
    job = job_of(total_steps=3600.0, elastic=Elastic.of("workers:1-8/8/mixed"))
    workers = {Setting("m", "v100", n): speed for n, speed in ((1, 1.0), (2, 1.5), (4, 2.4))}
    told = {setting_of(job, (("v100", n), ("ps", n // 2))): speed for n, speed in ((2, 1.9), (4, 3.6))}
    table = Throughputs(workers | {Setting("another", "ps"): 1.0}, mixed=told)
    cluster, prices = Cluster.of({"v100": 4, "ps": 2}), Prices({"v100": 3600.0, "ps": 360.0})
    result = simulate(ON_BOTH, [job], cluster, table, prices)
    assert result.jct_s_J.tolist() == pytest.approx([1000.0])
    assert result.cost_usd_L.sum() == pytest.approx(1000.0 * (4 * 1.0 + 2 * 0.1))
    few = simulate(ON_BOTH, [job, job_of(1, total_steps=3600.0)], Cluster.of({"v100": 4, "ps": 1}), table, prices)
    assert not few.unfinished
    assert (few.busy_devices()[1] <= np.array([4, 1]) + 1e-9).all()
    assert few.completion_s_J.max() < 2 * 3600.0 / 2.4, (
        "the one server helps two workers, and the other two work without"
    )
