"""Sparse expansion: every job keeps what it gets, and few mix types.

Legend: J jobs, A accelerator types, C configurations, G classes, K kinds of configurations that a class uses.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gavelx.cluster import Cluster
from gavelx.configurations import Configurations, joined
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.policies.max_min_fairness import MaxMinFairness
from gavelx.snapshot import Snapshot
from gavelx.solvers import Statement
from gavelx.solvers.maxmin.vertex_rounding import sparser
from gavelx.solvers.program.collapse import Classes, collapse

TYPES = ("v100", "p100", "k80", "a100")
SPEEDS = st.one_of(st.sampled_from((0.5, 1.0, 2.0, 4.0)), st.floats(1e-3, 1e5))


@dataclass(frozen=True, repr=False)
class Case:
    """A snapshot, its classes, and shares that are the same for all members of a class."""

    snapshot: Snapshot
    classes: Classes
    share_C: NDArray[np.float64]

    def __repr__(self) -> str:
        first_Z, table = self.classes.first_Z, self.snapshot.configurations
        return f"{self.classes.count_G} jobs at {table.throughput_M[first_Z]} for {self.share_C[first_Z]}"

    @property
    def sparse_C(self) -> NDArray[np.float64]:
        return sparser(self.snapshot, self.classes, self.share_C.copy())

    def kinds_J(self, share_C: NDArray[np.float64]) -> NDArray[np.int64]:
        """How many configurations each job uses."""
        table = self.snapshot.configurations
        return np.bincount(table.job_M, share_C[table.configuration_M] > 0, len(self.snapshot.jobs)).astype(int)


def snapshot_of(kind_J: list[int], speed_GA: list[list[float]], running_J: list[int], ways: int) -> Snapshot:
    """Jobs of some kinds, with so many ways to run on each type: consolidated, then spread and slower."""
    scale_J, speed_JA = np.ones(len(kind_J), dtype=np.int64), np.array([speed_GA[k] for k in kind_J])
    plain = Configurations.of_matrix(speed_JA, scale_J)
    tables = [plain, *[Configurations.of_matrix(0.7 * speed_JA, 2 * scale_J, spread=True)][: ways - 1]]
    return Snapshot(
        cluster=Cluster.of(dict.fromkeys(TYPES[: speed_JA.shape[1]], 2)),
        jobs=tuple(Job(j, f"kind {k}", 1000.0) for j, k in enumerate(kind_J)),
        known=joined(tables) if ways > 1 else plain,
        steps_left_J=np.full(len(kind_J), 1000.0),
        elapsed_s_J=np.zeros(len(kind_J)),
        usd_per_hour_A=np.ones(speed_JA.shape[1]),
        running_J=np.array(running_J, dtype=np.int64),
        opened=frozenset({"placements"}),
    )


def classes_of(snapshot: Snapshot) -> Classes:
    statement = MaxMinFairness().state(snapshot)
    assert isinstance(statement, Statement)
    return collapse(statement)


@st.composite
def cases(draw: st.DrawFn, ways: int = 2) -> Case:
    """Classes of any size with any shares, of which some use all their time and some nothing at all."""
    A, G = draw(st.integers(1, len(TYPES))), draw(st.integers(1, 3))
    speed_GA = draw(st.lists(st.lists(SPEEDS, min_size=A, max_size=A), min_size=G, max_size=G))
    kind_J = draw(st.lists(st.integers(0, G - 1), min_size=1, max_size=14))
    if draw(st.booleans()):
        kind_J = kind_J * draw(st.sampled_from((1, 10, 1000)))
    seed = draw(st.integers(0, 9))
    running_J = np.random.default_rng(seed).integers(-1, A, len(kind_J)).tolist()
    snapshot = snapshot_of(kind_J, speed_GA, running_J, draw(st.integers(1, ways)))
    classes = classes_of(snapshot)
    value_Z = np.array([draw(st.sampled_from((0.0, 0.0, 1.0, 0.3, 1e-3))) for _ in classes.first_Z])
    class_Z = classes.class_J[snapshot.configurations.job_M[classes.first_Z]]
    time_G = np.bincount(class_Z, value_Z, len(classes))
    busy_G = np.array([draw(st.sampled_from((1.0, 1.0, 0.97, 0.5, 0.1))) for _ in range(len(classes))])
    value_Z *= (busy_G / np.where(time_G > 0, time_G, 1.0))[class_Z]
    return Case(snapshot, classes, classes.shares(value_Z))


@given(case=cases())
def test_everyone_keeps_his_throughput_and_all_kinds_their_totals(case: Case) -> None:
    table, sparse_C = case.snapshot.configurations, case.sparse_C
    assert (sparse_C >= 0).all()
    assert (sparse_C[case.share_C == 0] == 0).all()
    np.testing.assert_allclose(table.throughput_JC @ sparse_C, table.throughput_JC @ case.share_C, rtol=1e-12)
    assert (table.time_J(sparse_C) <= np.maximum(1.0, table.time_J(case.share_C)) + 1e-15).all()
    Z = len(case.classes.first_Z)
    before_Z, after_Z = (np.bincount(case.classes.kind_C, share_C, Z) for share_C in (case.share_C, sparse_C))
    np.testing.assert_allclose(after_Z, before_Z, rtol=1e-9, atol=1e-12 * len(case.snapshot.jobs))


@pytest.mark.slow
@given(case=cases())
def test_few_mix(case: Case) -> None:
    """All but K - 1 of a class use one kind, or two where it has some on which their work does not fit in time."""
    table, classes, sparse_C = case.snapshot.configurations, case.classes, case.sparse_C
    kinds_J, before_J = case.kinds_J(sparse_C), case.kinds_J(case.share_C)
    throughput_J = table.throughput_JC @ case.share_C
    for g, j in enumerate(classes.representative_G.tolist()):
        members, K = classes.class_J == g, before_J[j]
        speed_C = table.throughput_JC[[j]].toarray()[0]
        needed_C = np.divide(throughput_J[j], speed_C, out=np.zeros(len(table)), where=speed_C > 0)
        used_C = (case.share_C > 0) & (speed_C > 0)
        slow_C, fast_C = used_C & (needed_C > 1.0 + 1e-9), used_C & (needed_C <= 1.0 - 1e-9)
        assert (kinds_J[members] > 2).sum() <= max(0, K - 1)
        least = 0.0  # how many members must mix
        if slow_C.any():
            n, share_C = classes.count_G[g], case.share_C
            late = n * (share_C[slow_C] * (1.0 - 1.0 / needed_C[slow_C])).sum()
            least = n * (share_C[slow_C] / needed_C[slow_C]).sum()
            for c in sorted(np.flatnonzero(fast_C), key=lambda c: needed_C[c]):
                spare = n * share_C[c] * (1.0 / needed_C[c] - 1.0)
                least += min(1.0, late / spare) * n * share_C[c] / needed_C[c]
                late -= min(late, spare)
        assert (kinds_J[members] > 1).sum() <= np.ceil(least - 1e-6) + max(0, K - 1)


@given(case=cases(ways=1))
def test_those_who_run_stay_as_far_as_there_is_room(case: Case) -> None:
    """Of members who run on one type as many have most of their time there as can."""
    snapshot, classes, sparse_C = case.snapshot, case.classes, case.sparse_C
    share_JA = snapshot.configurations.by_job_and_type(sparse_C)
    main_J = np.where(share_JA.max(axis=1) > 0, share_JA.argmax(axis=1), -1)
    mixed_G = case.kinds_J(case.share_C)[classes.representative_G] > 1
    for g in np.flatnonzero(mixed_G & (classes.count_G > 1)).tolist():
        members = classes.class_J == g
        for a in range(share_JA.shape[1]):
            runs_J, has_J = members & (snapshot.running_J == a), members & (main_J == a)
            assert (runs_J & has_J).sum() == min(runs_J.sum(), has_J.sum())


@given(case=cases())
def test_the_same_snapshot_gets_the_same_bits(case: Case) -> None:
    again = Case(case.snapshot.replace(), classes_of(case.snapshot.replace()), case.share_C)
    assert case.sparse_C.tobytes() == again.sparse_C.tobytes()


def test_by_hand() -> None:
    """Four jobs of throughput 1 on types of speeds 4 and 0.5, all time in use: one may not do without the fast.

    A job has time for x on the fast and 1 - x on the slow type with 4 x + (1 - x) / 2 = 1, x = 1/7. With some time
    to spare (speeds 4 and 2, shares 1/8 and 1/4) two jobs run on the one and two on the other, each where it is.
    """
    tight = snapshot_of([0] * 4, [[4.0, 0.5]], [-1] * 4, 1)
    tight_C = np.tile([1 / 7, 6 / 7], 4)
    np.testing.assert_allclose(sparser(tight, classes_of(tight), tight_C), tight_C, rtol=1e-12)
    loose = snapshot_of([0] * 4, [[4.0, 2.0]], [-1, 0, 1, 0], 1)
    sparse_C = sparser(loose, classes_of(loose), np.tile([1 / 8, 1 / 4], 4))
    expected_JA = [[0.0, 0.5], [0.25, 0.0], [0.0, 0.5], [0.25, 0.0]]
    np.testing.assert_allclose(sparse_C.reshape(4, 2), expected_JA, rtol=1e-12)


def test_pairs_are_left_alone() -> None:
    table = load_throughputs("simulation")
    name = next(name for name in table.job_types if table.get(name, "v100", 1))
    jobs = [Job(j, name, 1000.0) for j in range(6)]
    snapshot = Snapshot.of(jobs, Cluster.of({"v100": 1, "k80": 2}), table, pairs=True).open("pairs")
    share_C = np.full(len(snapshot.configurations), 1e-3)
    assert sparser(snapshot, classes_of(snapshot), share_C) is share_C


def test_max_min_fairness_on_the_real_table() -> None:
    """Devices are scarce, so time does not bind: no more than two jobs of each class use several types."""
    table = load_throughputs("simulation")
    names = [name for name in table.job_types if table.get(name, "v100", 1)][:5]
    jobs = [Job(j, names[j % 5], 1000.0) for j in range(100)]
    snapshot = Snapshot.of(jobs, Cluster.of({"v100": 9, "p100": 7, "k80": 20}), table)
    share_C = MaxMinFairness().allocate(snapshot).share_C
    used = share_C.reshape(100, 3) > 0
    assert (used.sum(axis=1) > 1).sum() <= 5 * 2
