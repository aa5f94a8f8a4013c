"""How results and tables show themselves in Python and in a notebook."""

import dataclasses

import numpy as np
import pytest

import gavelx as gx
from gavelx.result import Leases
from gavelx.throughputs import Setting

JOBS = [
    gx.Job(j, "<b>net</b>", 1000.0 * (j + 1), weight=1.0 + j, owner="ml", arrival_s=60.0 * j) for j in range(3)
]
TABLE = gx.Throughputs(
    {Setting("<b>net</b>", "v100"): 2.0, Setting("<b>net</b>", "k80"): 1.0},
    name="mine",
    ranges={Setting("<b>net</b>", "k80"): (0.5, 2.0)},
)
CLUSTER = gx.Cluster.parse("v100=1,k80=1")
PRICES = gx.Prices({"v100": 2.0, "k80": 1.0})


@pytest.fixture(scope="module")
def results() -> list[gx.Result]:
    policies = map(gx.load_policy, ("fifo", "max_min_fairness"))
    return gx.compare(policies, JOBS, CLUSTER, TABLE, PRICES)


def test_a_result_in_a_line(results: list[gx.Result]) -> None:
    assert repr(results[0]) == (
        "<Result of fifo on v100=1,k80=1: 3 of 3 jobs done, JCT mean 0.40 h, makespan 0.72 h, $1.67>"
    )


def test_a_comparison_is_a_line_a_policy(results: list[gx.Result]) -> None:
    assert repr(results) == "\n".join(["<Comparison of 2 policies>", *map(repr, results)])
    assert results.to_frame()["policy"].tolist() == ["fifo", "max_min_fairness"]  # type: ignore[attr-defined]


def test_jobs_as_a_frame(results: list[gx.Result]) -> None:
    jobs = results[0].to_frame()
    assert jobs["job_type"].tolist() == ["<b>net</b>"] * 3
    assert jobs[["scale_factor", "weight"]].to_numpy().tolist() == [[1, 1.0], [1, 2.0], [1, 3.0]]
    assert (jobs["waiting_s"] == jobs["start_s"] - jobs["arrival_s"]).all()
    assert (jobs["waiting_s"] >= 0).all()
    assert (jobs["start_s"] < jobs["completion_s"]).all()


def test_leases_as_a_frame(results: list[gx.Result]) -> None:
    for result in results:
        leases, jobs = result.lease_frame(), result.to_frame()
        assert leases["start_s"].is_monotonic_increasing
        assert leases["cost_usd"].sum() == pytest.approx(jobs["cost_usd"].sum())
        first = leases.groupby("job_id")["start_s"].min()
        assert first.tolist() == jobs["start_s"].tolist()
        assert leases["restart"].sum() == jobs["restarts"].sum()


def test_a_job_that_never_ran_has_no_start(results: list[gx.Result]) -> None:
    nothing = Leases(*(getattr(results[0].leases, field.name)[:0] for field in dataclasses.fields(Leases)))
    result = dataclasses.replace(results[0], leases=nothing, completion_s_J=np.full(3, np.nan))
    assert result.to_frame()[["start_s", "waiting_s"]].isna().all(axis=None)
    assert len(result.lease_frame()) == 0


def test_a_throughput_table_shows_itself() -> None:
    assert repr(TABLE) == "<Throughputs mine: 1 job types on v100, k80; 2 speeds alone, 0 in pairs>"
    frame = TABLE.to_frame()
    assert frame["steps_per_second"].tolist() == [2.0, 1.0]
    assert frame["lower"].isna().tolist() == [True, False]
    assert len(gx.load_throughputs("simulation")._repr_html_()) < 100_000


def test_an_allocation_shows_itself() -> None:
    snapshot = gx.Snapshot.of(JOBS, CLUSTER, TABLE, PRICES)
    allocation = gx.load_policy("max_min_fairness").allocate(snapshot)
    assert repr(snapshot) == "<Snapshot of 3 jobs on v100=1,k80=1 at 0 s>"
    assert repr(allocation).startswith(f"<Allocation for {snapshot!r}: objective ")
    assert allocation.to_frame()[["v100", "k80"]].to_numpy() == pytest.approx(allocation.share_JA)


def test_what_a_notebook_shows_is_escaped(results: list[gx.Result]) -> None:
    snapshot = gx.Snapshot.of(JOBS, CLUSTER, TABLE, PRICES)
    allocation = gx.load_policy("max_min_fairness").allocate(snapshot)
    for shown in (results[0], results, TABLE, allocation):
        page = shown._repr_html_()  # type: ignore[attr-defined]
        assert page.startswith("<table")
        assert "<b>" not in page


def test_a_large_cluster_is_a_short_line() -> None:
    assert repr(gx.Cluster.parse("v100=4000")) == "<Cluster v100=4000: 1,000 servers>"
