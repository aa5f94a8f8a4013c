"""Classes of identical jobs: the same answers as without them, with pairs and without.

Legend: J jobs, A accelerator types, C configurations.
"""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from gavelx.cluster import Cluster
from gavelx.configurations import Configurations, joined
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.policies import Cost, Maximize, NormalizedThroughput, Sum, Throughput, View, Worst, load_policy
from gavelx.snapshot import Snapshot
from gavelx.solvers import Statement
from gavelx.solvers.program import collapse as collapsing
from gavelx.solvers.program.collapse import collapse
from gavelx.solvers.program.statement import Affine, Requirement
from tests.policies.reference import TIGHT

TYPES = ("v100", "p100")
SPEEDS = st.sampled_from((0.0, 1.0, 2.0, 3.0))
MAX_MIN = Maximize(Worst(NormalizedThroughput()))


@st.composite
def with_pairs(draw: st.DrawFn) -> Snapshot:
    """A few jobs of one or two kinds; any two may share a device, at speeds of their kinds or not."""
    kinds = draw(st.lists(st.tuples(SPEEDS, SPEEDS), min_size=1, max_size=2))
    kind_J = draw(st.lists(st.integers(0, len(kinds) - 1), min_size=2, max_size=6))
    J, A = len(kind_J), len(TYPES)
    scale_J = np.array(draw(st.lists(st.sampled_from((1, 1, 2)), min_size=J, max_size=J)), dtype=np.int64)
    weights = draw(st.lists(st.sampled_from((1.0, 1.0, 2.0)), min_size=J, max_size=J))
    jobs = tuple(Job(j, f"kind {kind_J[j]}", 1000.0, int(scale_J[j]), weights[j]) for j in range(J))
    alone = Configurations.of_matrix(np.array([kinds[k] for k in kind_J]), scale_J)
    slow = draw(
        st.dictionaries(st.tuples(st.integers(0, 1), st.integers(0, 1)), st.sampled_from((0.0, 0.5, 0.9, 1.0)))
    )
    odd = draw(st.booleans())  # one pair unlike all others of its kinds
    rows = [(i, j, a) for i in range(J) for j in range(i + 1, J) for a in range(A) if scale_J[i] == scale_J[j]]
    speeds = [
        (
            kinds[kind_J[i]][a] * slow.get((kind_J[i], kind_J[j]), 0.7) * (1.5 if odd and n == 0 else 1.0),
            kinds[kind_J[j]][a] * slow.get((kind_J[j], kind_J[i]), 0.7),
        )
        for n, (i, j, a) in enumerate(rows)
    ]
    pairs = Configurations(
        shape=(J, A),
        accelerator_C=np.array([a for _, _, a in rows], dtype=np.int64),
        devices_C=np.array([scale_J[i] for i, _, _ in rows], dtype=np.int64),
        job_M=np.array([j for i, k, _ in rows for j in (i, k)], dtype=np.int64),
        configuration_M=np.arange(len(rows)).repeat(2),
        throughput_M=np.array([speed for pair in speeds for speed in pair], dtype=float),
    )
    counts = {name: draw(st.integers(1, 3)) for name in TYPES}
    return Snapshot(
        cluster=Cluster.of(counts),
        jobs=jobs,
        known=joined([alone, pairs]),
        steps_left_J=np.full(J, 1000.0),
        elapsed_s_J=np.zeros(J),
        usd_per_hour_A=np.array([2.0, 1.0]),
        opened=frozenset({"pairs"}),
    )


def by_linprog(statement: Statement) -> float:
    """The optimum of the whole program: every job and configuration, by scipy."""
    snapshot, table = statement.snapshot, statement.snapshot.configurations
    L = len(statement.worst)
    level = np.eye(L)
    rows = [np.hstack([table.membership_JC.toarray(), np.zeros((len(snapshot.jobs), L))])]
    rows.append(np.hstack([table.devices_AC.toarray(), np.zeros((len(snapshot.devices_A), L))]))
    limits = [np.ones(len(snapshot.jobs)), snapshot.devices_A.astype(float)]
    for k, part in enumerate(statement.worst):
        matrix = part.affine.matrix_RC.toarray()
        rows.append(np.hstack([-matrix, np.ones((len(matrix), 1)) * level[k]]))
        limits.append(part.affine.constant_R)
    for requirement in statement.requirements:
        matrix = requirement.affine.matrix_RC.toarray()
        rows.append(np.hstack([-matrix, np.zeros((len(matrix), L))]))
        limits.append(requirement.affine.constant_R)
    gain = np.concatenate(
        [statement.linear.matrix_RC.toarray().ravel(), [part.weight for part in statement.worst]]
    )
    bounds = [(0.0, float(usable)) for usable in snapshot.usable_C] + [(None, None)] * L
    answer = linprog(
        -gain, A_ub=np.vstack(rows), b_ub=np.concatenate(limits), bounds=bounds, method="highs", options=TIGHT
    )
    assert answer.status == 0, answer.message
    return -float(answer.fun) + float(statement.linear.constant_R[0])


@pytest.mark.parametrize(
    "policy",
    [
        MAX_MIN,
        Maximize(Sum(Throughput()) - 0.3 * Cost()),
        Maximize(Worst(NormalizedThroughput()) + 0.01 * Sum(Throughput()), [Cost() <= 3.0]),
    ],
    ids=str,
)
@given(snapshot=with_pairs())
def test_classes_reach_the_optimum_of_the_whole_program(policy: Maximize, snapshot: Snapshot) -> None:
    statement = policy.state(snapshot)
    assert isinstance(statement, Statement)
    allocation, expected = policy.allocate(snapshot), by_linprog(statement)
    assert allocation.certificate.objective == pytest.approx(expected, rel=1e-7, abs=1e-7)
    assert allocation.certificate.bound == pytest.approx(expected, rel=1e-7, abs=1e-7)


@given(snapshot=with_pairs())
def test_kinds_that_are_told_give_the_same_levels_as_colours_that_are_found(snapshot: Snapshot) -> None:
    alone = snapshot.replace(opened=frozenset())
    kinds = {(job.job_type, job.scale_factor): k for k, job in enumerate(snapshot.jobs)}
    kind_J = np.array([kinds[job.job_type, job.scale_factor] for job in snapshot.jobs])
    told = alone.replace(known=dataclasses.replace(snapshot.known, kind_J=kind_J))
    one, other = MAX_MIN.allocate(alone), MAX_MIN.allocate(told)
    np.testing.assert_allclose(one.throughput_J, other.throughput_J, rtol=1e-8, atol=1e-9)
    assert one.certificate.classes <= other.certificate.classes  # kinds may look alike


def of_one_type(pairs: dict[tuple[int, int], float], weights: tuple[float, ...]) -> Snapshot:
    """Four jobs of 2 steps/s on two devices, of the kinds 0, 0, 1 and 1; pairs share one at a speed."""
    alone = Configurations.of_matrix(np.full((4, 1), 2.0), np.ones(4), kind_J=np.array([0, 0, 1, 1]))
    shared = Configurations(
        shape=(4, 1),
        accelerator_C=np.zeros(len(pairs), dtype=np.int64),
        devices_C=np.ones(len(pairs), dtype=np.int64),
        job_M=np.array(list(pairs)).ravel(),
        configuration_M=np.arange(len(pairs)).repeat(2),
        throughput_M=np.array(list(pairs.values())).repeat(2),
    )
    jobs = tuple(Job(j, "any", 100.0, weight=weight) for j, weight in enumerate(weights))
    return Snapshot(
        cluster=Cluster.of({"v100": 2}),
        jobs=jobs,
        known=joined([alone, shared]),
        steps_left_J=np.full(4, 100.0),
        elapsed_s_J=np.zeros(4),
        usd_per_hour_A=np.ones(1),
        opened=frozenset({"pairs"}),
    )


@pytest.mark.parametrize(
    ("pairs", "weights"),
    [
        (
            {(0, 2): 1.5, (0, 3): 0.8, (1, 2): 0.8, (1, 3): 1.5},
            (1.0, 1.0, 1.0, 1.0),
        ),  # kinds say not who suits whom
        ({(0, 2): 1.5, (1, 3): 1.5}, (1.0, 1.0, 1.0, 5.0)),  # nor what the partners weigh
    ],
)
def test_told_kinds_whose_jobs_have_unlike_partners_are_looked_at_more_closely(
    pairs: dict[tuple[int, int], float], weights: tuple[float, ...]
) -> None:
    told = of_one_type(pairs, weights)
    assert told.known.unlike() is None
    found = told.replace(known=dataclasses.replace(told.known, kind_J=None))
    assert MAX_MIN.allocate(told).throughput_J == pytest.approx(MAX_MIN.allocate(found).throughput_J, rel=1e-9)
    assert MAX_MIN.allocate(told).certificate.path == "highs-lexicographic"


def test_jobs_of_one_kind_have_their_ways_in_the_same_order() -> None:
    table = Configurations(
        shape=(2, 2),
        accelerator_C=np.array([0, 1, 1, 0]),
        devices_C=np.ones(4, dtype=np.int64),
        job_M=np.array([0, 0, 1, 1]),
        configuration_M=np.arange(4),
        throughput_M=np.array([1.0, 10.0, 10.0, 1.0]),
        kind_J=np.array([0, 0]),
    )
    assert table.unlike() == (0, 1)


def test_all_pairs_of_the_real_table_collapse() -> None:
    table = load_throughputs("simulation")
    names = [name for name in table.job_types if table.get(name, "v100", 1)][:5]
    jobs = [Job(j, names[j % 5], 1000.0, weight=1.0 + j % 2) for j in range(40)]
    snapshot = Snapshot.of(jobs, Cluster.of({"v100": 2, "p100": 2, "k80": 2}), table, pairs=True)
    packed = load_policy("packed(max_min_fairness)").allocate(snapshot)
    assert packed.certificate.classes == 10
    told = snapshot.open("pairs")
    found = told.replace(known=dataclasses.replace(snapshot.known, kind_J=None))
    assert len(collapse(MAX_MIN.state(found))) == 10
    assert packed.certificate.objective == pytest.approx(by_linprog(MAX_MIN.state(told)), rel=1e-8)
    alone = MAX_MIN.allocate(snapshot).certificate.objective
    assert packed.certificate.objective > 1.1 * alone


def test_demands_may_not_be_added() -> None:
    """The example of the module's docstring: demands of 0 and 2 stay apart."""
    jobs = (Job(0, "same", 10.0), Job(1, "same", 10.0))
    speeds = np.array([[1.0, 2.0], [1.0, 2.0]])
    snapshot = Snapshot(
        cluster=Cluster.of({"slow": 2, "fast": 1}),
        jobs=jobs,
        known=Configurations.of_matrix(speeds, np.ones(2, dtype=np.int64)),
        steps_left_J=np.full(2, 10.0),
        elapsed_s_J=np.zeros(2),
        usd_per_hour_A=np.ones(2),
    )
    view = View(snapshot)
    demand = Requirement(view.throughput.shifted(np.array([0.0, -2.0])), "demands")
    statement = Statement(snapshot, (), view.throughput.total(), (demand,), "demands")
    assert len(collapse(statement)) == 2
    without = dataclasses.replace(statement, requirements=())
    assert len(collapse(without)) == 1


def test_a_row_that_looks_at_another_job_keeps_jobs_apart() -> None:
    """An expression of one job's row may have coefficients on another's configurations."""
    jobs = tuple(Job(j, "same", 10.0) for j in range(3))
    snapshot = Snapshot(
        cluster=Cluster.of({"v100": 1}),
        jobs=jobs,
        known=Configurations.of_matrix(np.ones((3, 1)), np.ones(3, dtype=np.int64)),
        steps_left_J=np.full(3, 10.0),
        elapsed_s_J=np.zeros(3),
        usd_per_hour_A=np.ones(1),
    )
    view = View(snapshot)
    matrix = view.throughput.matrix_RC.tolil()
    matrix[0, 1] = 1.0  # job 0 profits from job 1
    odd = Affine(matrix.tocsr(), np.zeros(3), "job")
    statement = Statement(snapshot, (), view.nothing, (Requirement(odd, "odd"),), "odd")
    assert len(collapse(statement)) == 3


@pytest.mark.parametrize("twins", [False, True])
def test_jobs_that_one_number_tells_apart_are_not_looked_at_more_closely(
    twins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    speed_JA = np.random.default_rng(0).random((50, len(TYPES)))
    speed_JA[0] = speed_JA[1] if twins else speed_JA[0]
    snapshot = Snapshot(
        cluster=Cluster.of(dict.fromkeys(TYPES, 4)),
        jobs=tuple(Job(j, f"kind {j}", 1000.0) for j in range(50)),
        known=Configurations.of_matrix(speed_JA, np.ones(50, dtype=np.int64)),
        steps_left_J=np.full(50, 1000.0),
        elapsed_s_J=np.zeros(50),
        usd_per_hour_A=np.array([2.0, 1.0]),
    )
    statement = Maximize(Worst(Throughput())).state(snapshot)
    assert isinstance(statement, Statement)
    if not twins:
        monkeypatch.setattr(collapsing, "_refined", None)
    assert len(collapse(statement)) == 50 - twins
