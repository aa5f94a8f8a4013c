"""EasyScale: all jobs run, idle devices go where they help most, and a size that disappoints is given up.

Legend: J jobs, A accelerator types.
"""

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.allocation import Allocation
from gavelx.asking import ask
from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.errors import PolicyError
from gavelx.jobs import Job
from gavelx.policies import EasyScale, SerialFifo, elastic
from gavelx.policies.proposals import Proposal, Way, accepted
from gavelx.simulator import simulate
from gavelx.snapshot import WAITING, Snapshot
from gavelx.throughputs import Setting, Throughputs

EVEN = {n: float(n) for n in range(1, 9)}
"""Each device adds as much as the first."""
Curves = list[dict[int, float]]


def table_of(curves: Curves, slower: dict[str, float]) -> Throughputs:
    return Throughputs(
        {
            Setting(f"job {j}", name, n): speed / by
            for j, curve in enumerate(curves)
            for name, by in slower.items()
            for n, speed in curve.items()
        }
    )


def snapshot_of(
    curves: Curves, devices: dict[str, int], *, slower: dict[str, float] | None = None, least: int = 1
) -> Snapshot:
    """Jobs that arrived one after the other, in as many parts as any number of devices divides."""
    jobs = [
        Job(j, f"job {j}", 1e6, least, arrival_s=float(j), elastic=Elastic("workers", least, 8, parts=840))
        for j in range(len(curves))
    ]
    table = table_of(curves, slower or dict.fromkeys(devices, 1.0))
    return Snapshot.of(jobs, Cluster.of(devices), table, sizes=True).open("sizes")


def devices_JA(allocation: Allocation) -> list[list[int]]:
    """The devices of each job on each type."""
    table, found = allocation.snapshot.configurations, np.zeros(allocation.share_JA.shape, dtype=int)
    for c in np.flatnonzero(allocation.share_C).tolist():
        (m,) = np.flatnonzero(table.configuration_M == c).tolist()
        found[table.job_M[m], table.accelerator_C[c]] = table.devices_C[c]
    return found.tolist()


def after(allocation: Allocation, seconds: float = 60.0, curves: Curves | None = None) -> Snapshot:
    """The next snapshot, if all was carried out; with other speeds, if leases have measured these."""
    snapshot = allocation.snapshot
    chosen_J = allocation.share_JA.argmax(axis=1)
    running_J = np.where(allocation.share_JA.any(axis=1), chosen_J, WAITING)
    if curves is not None:
        table = table_of(curves, dict.fromkeys(snapshot.accelerators, 1.0))
        known = Snapshot.of(snapshot.jobs, snapshot.cluster, table, sizes=True).known
        snapshot = snapshot.replace(known=known)
    return snapshot.replace(
        promised=allocation.promises(rounded=True),
        memory=allocation.memory,
        running_J=running_J,
        time_s=snapshot.time_s + seconds,
    )


def test_a_job_alone_gets_all_that_it_can_use_and_with_once_twice_what_it_has() -> None:
    assert devices_JA(EasyScale().allocate(snapshot_of([EVEN], {"v100": 10}))) == [[8]]
    answer, seen = EasyScale(once=True).allocate(snapshot_of([EVEN], {"v100": 10})), []
    for _ in range(4):
        seen.append(devices_JA(answer)[0][0])
        assert answer.execution.refresh_s == (60.0 if seen[-1] < 8 else None)
        answer = EasyScale(once=True).allocate(after(answer))
    assert seen == [2, 4, 8, 8]


def test_devices_go_where_each_helps_most_and_a_proposal_at_most_doubles() -> None:
    """The first job gains 100 % a device, the second 40 %: two each, then four for the first, none is left."""
    weak = {n: 1.0 + 0.4 * (n - 1) for n in range(1, 9)}
    assert devices_JA(EasyScale(waste=0.9).allocate(snapshot_of([EVEN, weak], {"v100": 6}))) == [[4], [2]]


def test_a_size_that_wastes_too_much_is_not_proposed() -> None:
    """Two devices at speed 1.5 waste 25 %, four at 2.6 waste 35 %."""
    curve = {1: 1.0, 2: 1.5, 4: 2.6}
    assert devices_JA(EasyScale().allocate(snapshot_of([curve], {"v100": 4}))) == [[2]]
    assert devices_JA(EasyScale(waste=0.36).allocate(snapshot_of([curve], {"v100": 4}))) == [[4]]


def test_jobs_give_devices_up_for_one_that_waits_and_keep_their_least() -> None:
    first = EasyScale().allocate(snapshot_of([EVEN], {"v100": 4}))
    assert devices_JA(first) == [[4]]
    later = after(first)
    more = snapshot_of([EVEN] * 6, {"v100": 4})
    both = more.replace(
        promised=later.promised, memory=later.memory, running_J=np.array([0, *[WAITING] * 5]), time_s=60.0
    )
    assert devices_JA(EasyScale().allocate(both)) == [[1], [1], [1], [1], [0], [0]]


def test_those_give_up_first_who_lose_least_by_it() -> None:
    weak = {n: 1.0 + 0.75 * (n - 1) for n in range(1, 9)}
    first = EasyScale().allocate(snapshot_of([EVEN, weak], {"v100": 8}))
    assert devices_JA(first) == [[4], [4]]
    later, more = after(first), snapshot_of([EVEN, weak, EVEN], {"v100": 8})
    three = more.replace(promised=later.promised, running_J=np.array([0, 0, WAITING]), time_s=60.0)
    assert devices_JA(EasyScale().allocate(three)) == [[4], [3], [1]]


def test_no_job_overtakes_one_that_waits() -> None:
    first = EasyScale().allocate(snapshot_of([EVEN], {"v100": 4}, least=4))
    more = snapshot_of([EVEN, EVEN], {"v100": 7}, least=4)
    later = after(first)
    both = more.replace(promised=later.promised, running_J=np.array([0, WAITING]), time_s=60.0)
    assert devices_JA(EasyScale().allocate(both)) == [[7], [0]]


def test_a_job_moves_to_a_faster_type_where_that_pays() -> None:
    slower = {"k80": 4.0, "v100": 1.0}
    small = snapshot_of([EVEN], {"k80": 1, "v100": 0} | {"v100": 1}, slower=slower)
    running = small.replace(running_J=np.array([0]), promised=only(small, 0))
    assert devices_JA(EasyScale().allocate(running)) == [[0, 1]]


def only(snapshot: Snapshot, a: int):  # type: ignore[no-untyped-def]
    """The promise of one device of a type to the first job."""
    share_C = np.zeros(len(snapshot.configurations))
    share_C[np.flatnonzero(snapshot.configurations.accelerator_C == a)[0]] = 1.0
    answer = EasyScale().allocate(snapshot)
    return Allocation(snapshot, share_C, answer.certificate).promises(rounded=True)


def test_what_was_measured_slower_is_rolled_back_and_barred_for_an_hour() -> None:
    """Eight devices promise speed 8; leases measure 3, less than on four: back to four, for an hour."""
    first = EasyScale().allocate(snapshot_of([EVEN], {"v100": 8}))
    assert devices_JA(first) == [[8]]
    bad = EVEN | dict.fromkeys(range(5, 9), 3.0)
    back = EasyScale().allocate(after(first, 600.0, [bad]))
    assert devices_JA(back) == [[4]]
    assert back.memory["devices"].tolist() == [8]
    assert back.execution.refresh_s == 60.0
    hopeful = EasyScale().allocate(after(back, 600.0, [EVEN]))
    assert devices_JA(hopeful) == [[7]]
    assert devices_JA(EasyScale().allocate(after(hopeful, 3601.0, [EVEN]))) == [[8]]
    assert devices_JA(EasyScale().allocate(after(back, 600.0, [EVEN]).replace(memory={}))) == [[8]]


def test_what_wastes_too_much_by_now_is_rolled_back_though_it_is_faster() -> None:
    first = EasyScale().allocate(snapshot_of([EVEN], {"v100": 4}))
    assert devices_JA(first) == [[4]]
    assert devices_JA(EasyScale().allocate(after(first, 60.0, [{1: 1.0, 2: 1.9, 4: 2.4}]))) == [[2]]


def test_a_size_that_too_few_devices_are_left_for_is_not_barred() -> None:
    first = EasyScale().allocate(snapshot_of([EVEN], {"v100": 8}))
    less = snapshot_of([EVEN], {"v100": 5}).replace(promised=after(first).promised, running_J=np.array([0]))
    answer = EasyScale().allocate(less)
    assert devices_JA(answer) == [[5]]
    assert not len(answer.memory["devices"])


@pytest.mark.parametrize("seed", range(3))
def test_dropped_or_nonsensical_memory_costs_no_answer(seed: int) -> None:
    random = np.random.default_rng(seed)
    snapshot = snapshot_of([EVEN] * 3, {"v100": 5})
    for memory in (
        {"job": np.zeros(2, dtype=int)},
        {name: random.integers(-3, 9, 4) for name in ("job", "type", "devices", "until_s")},
        {name: np.zeros((2, 2)) for name in ("job", "type", "devices", "until_s")},
    ):
        answer = ask(EasyScale(), snapshot.replace(memory=memory))
        assert sum(map(sum, devices_JA(answer))) == 5


def proposal(job: int, devices: int, gain: float = 1.0, a: int = 0) -> Proposal:
    uses = ((a, devices),)
    return Proposal(gain, devices, job, job, Way(devices, 1.0, 0, a, uses), uses)


def as_printed(proposals: list[Proposal], free: int, most_turns: int) -> tuple[list[Proposal], int]:
    """Algorithm 1 as printed: a proposal is taken from the queue only if it fits."""
    queue, taken, turns = deque(sorted(proposals, reverse=True)), list[Proposal](), 0
    while queue and turns < most_turns:
        turns += 1
        if queue[0].devices <= free:
            taken.append(queue.popleft())
            free -= taken[-1].devices
    return taken, turns


def test_the_printed_loop_never_ends_and_ours_does() -> None:
    fits_not, fits = proposal(0, 4, 0.9), proposal(1, 2, 0.5)
    assert as_printed([fits_not, fits], 3, 10_000) == ([], 10_000)
    assert accepted([fits_not, fits], [3]) == [fits]


@given(
    st.lists(
        st.builds(
            proposal, st.integers(0, 5), st.integers(1, 8), st.sampled_from([0.1, 0.5, 1.0]), st.integers(0, 1)
        ),
        max_size=20,
    ),
    st.lists(st.integers(0, 10), min_size=2, max_size=2),
)
def test_no_more_is_accepted_than_there_is_and_one_of_each_job(
    proposals: list[Proposal], free_A: list[int]
) -> None:
    taken = accepted(proposals, free_A)
    left_A = [free - sum(one.devices for one in taken if one.way.type == a) for a, free in enumerate(free_A)]
    assert min(left_A) >= 0
    jobs = [one.job for one in taken]
    assert len(set(jobs)) == len(jobs)
    for one in proposals:
        assert one.job in jobs or one.devices > left_A[one.way.type]


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 12), st.integers(0, 4))
@settings(max_examples=150, deadline=None)
def test_everybody_runs_before_anybody_has_more_and_nothing_useful_idles(
    seed: int, jobs: int, v100s: int, k80s: int
) -> None:
    random = np.random.default_rng(seed)
    powers = random.uniform(0.76, 1.0, jobs).tolist()
    curves = [{n: float(n**power) for n in range(1, 9)} for power in powers]
    devices = {"v100": v100s} | ({"k80": k80s} if k80s else {})
    snapshot = snapshot_of(curves, devices, slower={"v100": 1.0, "k80": 3.0})
    answer = ask(EasyScale(), snapshot)
    for _ in range(2):
        has_JA = np.array(devices_JA(answer))
        has_J, free_A = has_JA.sum(axis=1), snapshot.devices_A - has_JA.sum(axis=0)
        assert free_A.min() >= 0
        assert int((has_J > 0).sum()) == min(jobs, int(snapshot.devices_A.sum()))
        assert not (has_J == 0).any() or has_J.max() == 1
        small = [j for j in range(jobs) if 0 < has_J[j] < 4 and has_JA[j, 0]]
        assert free_A[0] == 0 or not small
        answer = ask(EasyScale(), after(answer))


def test_one_job_at_a_time() -> None:
    table = Throughputs({Setting("mine", "v100", 1): 1.0, Setting("mine", "k80", 1): 0.5})
    jobs = [Job(j, "mine", 100.0, arrival_s=10.0 * j) for j in range(3)]
    result = simulate(SerialFifo(), jobs, Cluster.of({"k80": 2, "v100": 2}), table)
    assert result.completion_s_J.tolist() == [100.0, 200.0, 300.0]


def test_elastic_jobs_are_all_done_and_sooner_than_rigid_ones() -> None:
    snapshot = snapshot_of([EVEN] * 4, {"v100": 8})
    jobs = [Job(j.id, j.job_type, 1e4, arrival_s=j.arrival_s, elastic=j.elastic) for j in snapshot.jobs]
    table = table_of([EVEN] * 4, {"v100": 1.0})
    ours, rigid = (
        simulate(policy, jobs, snapshot.cluster, table) for policy in (elastic(EasyScale()), EasyScale())
    )
    assert not len(ours.unfinished)
    assert ours.jct_s_J.mean() < 0.6 * rigid.jct_s_J.mean()


@pytest.mark.parametrize(
    "options", [{"waste": 1.0}, {"waste": -0.1}, {"interval_s": 0.0}, {"barred_s": -1.0}], ids=str
)
def test_options_that_make_no_sense(options: dict[str, float]) -> None:
    with pytest.raises(PolicyError):
        EasyScale(**options)  # type: ignore[arg-type]


# -- mixes ----------------------------------------------------------------------------------------------------


def mixed_snapshot(jobs: int, devices: dict[str, int], *, slower: dict[str, float] | None = None) -> Snapshot:
    """Jobs of any number of parts, which may have devices of several types; a k80 is half as fast."""
    every = [
        Job(j, f"job {j}", 1e6, arrival_s=float(j), elastic=Elastic("workers", 1, 8, parts=840, mixed=True))
        for j in range(jobs)
    ]
    table = table_of([EVEN] * jobs, slower or {"v100": 1.0, "k80": 2.0})
    snapshot = Snapshot.of(every, Cluster.of(devices), table, sizes=True, mixes=True)
    return snapshot.open("sizes").open("mixes")


def uses_J(allocation: Allocation) -> dict[int, dict[str, int]]:
    """The devices of each job by their types."""
    promised = allocation.promises(rounded=True)
    named = promised.configurations.named(promised.accelerators)
    return {each.members[0]: dict(each.uses) for each in named}


def test_a_job_alone_has_devices_of_both_types() -> None:
    answer = ask(EasyScale(), mixed_snapshot(1, {"v100": 2, "k80": 4}))
    assert uses_J(answer) == {0: {"v100": 2, "k80": 4}}
    assert answer.throughput_J.tolist() == pytest.approx([4.0])


def test_a_mix_gives_devices_up_for_a_job_that_waits_and_is_kept_otherwise() -> None:
    first = ask(EasyScale(), mixed_snapshot(1, {"v100": 2, "k80": 4}))
    later = after(first)
    assert uses_J(ask(EasyScale(), later)) == uses_J(first)
    both = mixed_snapshot(2, {"v100": 2, "k80": 4}).replace(
        promised=later.promised, running_J=np.array([0, WAITING]), time_s=60.0
    )
    answer = ask(EasyScale(), both)
    held = uses_J(answer)
    assert set(held) == {0, 1}
    assert sum(n for uses in held.values() for n in uses.values()) >= 5
    assert all(n <= uses_J(first)[0].get(name, 0) for name, n in held[0].items())


@pytest.mark.parametrize(("parts", "waste"), [(8, 0.0), (8, 0.1), (840, 0.05)])
def test_a_mix_wastes_no_more_than_it_may(parts: int, waste: float) -> None:
    """With few parts, those of a k80 that is 3.1 times as slow do not end with those of a v100."""
    slower = {"v100": 1.0, "k80": 3.1}
    job = Job(0, "job 0", 1e6, elastic=Elastic("workers", 1, 8, parts=parts, mixed=True))
    cluster = Cluster.of({"v100": 2, "k80": 4})
    snapshot = Snapshot.of([job], cluster, table_of([EVEN], slower), sizes=True, mixes=True)
    assert snapshot.known.has_mixes
    answer = ask(elastic(EasyScale(waste=waste)), snapshot)
    able = sum(n / slower[name] for name, n in uses_J(answer)[0].items())
    assert answer.throughput_J[0] >= (1.0 - waste) * able * (1 - 1e-9)
    assert (len(uses_J(answer)[0]) > 1) == (waste > 0.0)


@given(st.integers(1, 5), st.integers(0, 6), st.integers(0, 6), st.sampled_from((1.0, 1.7, 2.0, 3.0)))
@settings(max_examples=40, deadline=None)
def test_with_mixes_every_job_still_runs_first_and_nothing_is_held_twice(
    jobs: int, v100s: int, k80s: int, slower: float
) -> None:
    devices = {name: n for name, n in (("v100", v100s), ("k80", k80s)) if n}
    if not devices:
        return
    snapshot = mixed_snapshot(jobs, devices, slower={"v100": 1.0, "k80": slower})
    for _ in range(3):
        answer = ask(EasyScale(), snapshot)  # which checks that devices suffice
        assert len(uses_J(answer)) == min(jobs, v100s + k80s)
        snapshot = after(answer)
