"""A table of jobs is the same jobs: policies, speeds and simulations cannot tell it from a list of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.errors import UserError
from gavelx.files.throughput_tables import load_throughputs
from gavelx.job_table import DTYPES, Coded, JobTable, column, kinds
from gavelx.jobs import ARRIVAL_S_MAX, Job
from gavelx.policies import load_policy
from gavelx.simulator import simulate
from gavelx.simulator.random_jobs import random_jobs
from gavelx.snapshot import Snapshot

TABLE = load_throughputs("simulation")
TYPES = ("v100", "p100", "k80")
ELASTIC = (None, Elastic.of("workers:1-8"), Elastic.of("workers:1-4"))
JOBS = st.lists(
    st.builds(
        Job,
        id=st.integers(0, 1 << 40),
        job_type=st.sampled_from(TABLE.job_types[:4]),
        total_steps=st.floats(1e-3, 1e9),
        scale_factor=st.sampled_from([1, 2, 4]),
        weight=st.sampled_from([1.0, 2.0, 5.0]),
        arrival_s=st.floats(0, 1e6),
        slo=st.none() | st.floats(1, 10),
        owner=st.sampled_from(["", "a/x", "b"]),
        preemptible=st.sampled_from(["auto", "yes", "no"]),
        elastic=st.sampled_from(ELASTIC),
    ),
    max_size=12,
)


def table_of(jobs: list[Job]) -> JobTable:
    """The columns of some jobs, each value of a coded column once."""
    columns: dict[str, object] = {name: column(jobs, name) for name in DTYPES}
    for name in ("job_type", "slo", "owner", "preemptible", "elastic"):
        values = list(dict.fromkeys(getattr(job, name) for job in jobs))
        columns[name] = Coded(values, np.array([values.index(getattr(job, name)) for job in jobs], dtype=np.int16))
    return JobTable(**columns)  # type: ignore[arg-type]


@given(JOBS)
def test_it_is_the_same_sequence(jobs: list[Job]) -> None:
    table = table_of(jobs)
    assert list(table) == jobs
    assert table == jobs
    assert len(table) == len(jobs)
    assert list(table[1:-1]) == jobs[1:-1]
    assert table != [*jobs, Job(1, "lm")]
    assert not jobs or table != ["no job"] * len(jobs)


@given(JOBS)
def test_columns_and_kinds_are_those_of_the_jobs(jobs: list[Job]) -> None:
    table = table_of(jobs)
    for name in DTYPES:
        assert column(table, name).tobytes() == column(jobs, name).tobytes()
    for names in (("job_type",), ("job_type", "scale_factor"), ("job_type", "scale_factor", "elastic", "slo")):
        number_J, keys = kinds(table, *names)
        expected_J, expected = kinds(jobs, *names)
        assert (number_J.tolist(), keys) == (expected_J.tolist(), expected)


def test_what_is_left_out_has_the_default() -> None:
    table = JobTable(id=np.array([7, 3]), job_type=Coded(["lm"], np.array([0, 0])))
    assert list(table) == [Job(7, "lm"), Job(3, "lm")]
    assert column(table, "weight").tolist() == [1.0, 1.0]
    assert kinds(table, "job_type", "elastic")[1] == [("lm", None)]


def test_a_policy_answers_the_same() -> None:
    jobs = random_jobs(300, TABLE, seed=3, multi_gpu=True)
    cluster = Cluster.of(dict.fromkeys(TYPES, 24), 8)
    for text in (
        "max_min_fairness",
        "finish_time_fairness",
        "placed(max_min_fairness)",
        "hierarchical(max_min_fairness)",
    ):
        opened = {"placements": True} if text.startswith("placed") else {}
        of_table, of_jobs = (Snapshot.of(each, cluster, TABLE, **opened) for each in (table_of(jobs), jobs))
        one, other = (load_policy(text).allocate(snapshot) for snapshot in (of_table, of_jobs))
        assert one.share_C.tobytes() == other.share_C.tobytes()
    assert isinstance(of_table.jobs, JobTable)


def test_it_can_be_simulated() -> None:
    jobs, cluster = random_jobs(30, TABLE, seed=5), Cluster.of(dict.fromkeys(TYPES, 3))
    one, other = (
        simulate(load_policy("max_min_fairness"), each, cluster, TABLE) for each in (table_of(jobs), jobs)
    )
    assert one.completion_s_J.tobytes() == other.completion_s_J.tobytes()


BAD = {
    "total_steps": st.one_of(st.floats(max_value=0.0), st.just(float("nan"))),
    "scale_factor": st.integers(-(1 << 40), 0),
    "weight": st.one_of(st.floats(max_value=0.0), st.sampled_from([float("inf"), float("nan")])),
    "arrival_s": st.one_of(st.floats(max_value=-1e-9), st.floats(ARRIVAL_S_MAX * 2), st.just(float("nan"))),
}


@given(data=st.data(), name=st.sampled_from(sorted(BAD)), jobs=st.integers(1, 9))
def test_a_value_that_no_job_can_have_is_said_with_its_job(data: st.DataObject, name: str, jobs: int) -> None:
    at, value = data.draw(st.integers(0, jobs - 1)), data.draw(BAD[name])
    numbers = np.ones(jobs, dtype=DTYPES[name])
    numbers[at] = value
    with pytest.raises(UserError) as told:
        JobTable(id=np.arange(jobs) + 40, job_type=Coded(["lm"], np.zeros(jobs, dtype=int)), **{name: numbers})
    assert told.value.where == f"job {40 + at}"


def test_so_are_values_of_other_columns() -> None:
    id_J, lm = np.arange(4), Coded(["lm"], np.zeros(4, dtype=int))
    for name, bad in (("slo", -1.0), ("duration_s", 0.0), ("preemptible", "perhaps"), ("recorded_start_s", -5.0)):
        good = "yes" if name == "preemptible" else 1.0
        with pytest.raises(UserError) as told:
            JobTable(id=id_J, job_type=lm, **{name: Coded([good, bad], np.array([0, 0, 1, 0]))})
        assert told.value.where == "job 2"
    with pytest.raises(UserError, match="scale_factor"):
        elastic = Coded([Elastic.of("workers:1-2")], np.zeros(4, dtype=int))
        JobTable(id=id_J, job_type=lm, scale_factor=np.array([1, 1, 4, 1]), elastic=elastic)


def test_columns_of_another_form_are_refused() -> None:
    id_J, lm = np.arange(2), Coded(["lm"], np.zeros(2, dtype=int))
    with pytest.raises(TypeError, match="no field 'steps'"):
        JobTable(id=id_J, job_type=lm, steps=id_J)
    with pytest.raises(TypeError, match="needs the column id"):
        JobTable(job_type=lm)
    with pytest.raises(TypeError, match=r"Coded\(values, code_J\) is expected"):
        JobTable(id=id_J, job_type=np.array(["lm", "lm"]))
    with pytest.raises(TypeError, match="an array of numbers is expected"):
        JobTable(id=id_J, job_type=lm, weight=lm)
    with pytest.raises(TypeError, match="Cannot cast"):
        JobTable(id=id_J + 0.5, job_type=lm)
    for wrong in (-1, 1):
        with pytest.raises(ValueError, match=f"job_type has codes from .*{wrong}.*, and 1 values"):
            JobTable(id=id_J, job_type=Coded(["lm"], np.array([0, wrong])))
    with pytest.raises(ValueError, match="one length"):
        JobTable(id=id_J, job_type=lm, weight=np.ones(3))
