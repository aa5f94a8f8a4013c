"""Elastic jobs: how their sizes are written, which there are, and by which one a job is judged."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.cluster import Cluster
from gavelx.elastic import RATES, Elastic
from gavelx.errors import InputFileError, UserError
from gavelx.files.traces import read_trace, write_trace
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.sizes import OWN_BATCH, Sized, permits, sizes, speed, worth
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Size, Throughputs
from gavelx.ways_to_run import ways_to_run

DEVICES = st.tuples(st.integers(1, 64), st.integers(1, 64)).map(sorted)
BATCHES = st.tuples(*[st.integers(1, 4096)] * 3).map(sorted)


@st.composite
def elastics(draw: st.DrawFn) -> Elastic:
    least, most = draw(DEVICES)
    if draw(st.booleans()):
        return Elastic("workers", least, most, parts=draw(st.sampled_from((0, most, 2 * most))))
    batch_least, batch, batch_most = draw(BATCHES)
    sizes = {"batch": batch, "batch_least": batch_least, "batch_most": batch_most}
    return Elastic("batch", least, most, **sizes, rates=draw(st.sampled_from(RATES)))


@given(elastics())
def test_what_is_written_is_read_back(elastic: Elastic) -> None:
    assert Elastic.of(str(elastic)) == elastic


@pytest.mark.parametrize(
    "text",
    [
        *("workers", "workers:", "workers:1", "workers:8-1", "workers:0-4", "workers:1-99999999", "workers:1-8/4"),
        *("workers:1-8/64-512", "workers:1-8/16/linear", "workers:a-b", "workers:1--8", "Workers:1-8", "1-8", ""),
        *("batch:1-8", "batch:1-8/64", "batch:1-8/512-64", "batch:1-8/0-64", "batch:1-8/64-512/cubic", "gpus:1-8"),
        *("batch:1-8/64-32-512", "batch:1-8/64-600-512", "batch:1-8/1-99999999999", "workers:1-8;rm", "nan:1-2"),
    ],
)
def test_a_text_that_makes_no_sense_is_one_message(text: str) -> None:
    with pytest.raises(UserError) as found:
        Elastic.of(text)
    assert "\n" not in str(found.value)
    assert found.value.expected


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ({"scale_factor": 9, "elastic": Elastic("workers", 1, 8)}, "1 to 8 devices"),
        ({"scale_factor": 1, "elastic": Elastic("workers", 2, 8)}, "2 to 8 devices"),
        ({"scale_factor": 3, "elastic": Elastic("workers", 1, 8, parts=8)}, "a multiple of its 3 devices"),
    ],
)
def test_a_job_has_one_of_its_sizes(job: dict[str, object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        Job(1, "net", 10.0, **job)  # type: ignore[arg-type]


def test_a_trace_carries_sizes(tmp_path: Path) -> None:
    jobs = tuple(
        Job(i, "net", 10.0, 2, elastic=elastic)
        for i, elastic in enumerate((None, Elastic("workers", 1, 8), Elastic.of("batch:1-4/32-64-512/adascale")))
    )
    write_trace(tmp_path / "jobs.csv", jobs)
    assert read_trace(tmp_path / "jobs.csv") == jobs


def test_a_trace_names_the_cell_that_makes_no_sense(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,arrival_s,job_type,scale_factor,total_steps,elasticity\n1,0,net,1,10,workers:8-1\n")
    with pytest.raises(InputFileError, match=r"row 2.*elasticity"):
        read_trace(path)


# -- sizes ----------------------------------------------------------------------------------------------------

ALONE = {1: 10.0, 2: 18.0, 3: 20.0, 4: 30.0, 8: 29.0}
TABLE = Throughputs({Setting("net", "v100", n): steps_per_s for n, steps_per_s in ALONE.items()})


def test_sizes_that_are_no_faster_are_left_out() -> None:
    job = Job(1, "net", 100.0, 2, elastic=Elastic("workers", 1, 8))
    assert sizes(job, "v100", TABLE) == (Sized(1, 0, 10.0), Sized(4, 0, 30.0))


def test_devices_wait_for_the_one_with_most_parts() -> None:
    job = Job(1, "net", 100.0, 2, elastic=Elastic("workers", 1, 4, parts=4))
    found = {n: speed(job, "v100", n, OWN_BATCH, TABLE) for n in (1, 2, 3, 4)}
    assert found == {1: 10.0, 2: 18.0, 3: pytest.approx(20.0 * 4 / 6), 4: 30.0}


def test_an_update_at_a_larger_batch_counts_as_more_steps_worth_less() -> None:
    job = Job(1, "net", 100.0, 1, elastic=Elastic.of("batch:1-2/64-256"))
    updates = {
        Size("net", "v100", 1, 64): 10.0,
        Size("net", "v100", 1, 128): 6.0,
        Size("net", "v100", 2, 256): 5.0,
    }
    table = replace(TABLE, sizes=updates, noise_scale={"net": 192.0})
    assert speed(job, "v100", 1, 128, table) == pytest.approx(6.0 * 2 * (192 + 64) / (192 + 128))
    assert worth(256, 64, 192.0) == pytest.approx(256 / 448)
    assert sizes(job, "v100", table)[-1] == Sized(2, 128, pytest.approx(18.0 * 256 / 320))  # better than 256


def test_without_a_speed_of_its_own_size_a_job_has_no_sizes_on_a_type() -> None:
    job = Job(1, "net", 100.0, 5, elastic=Elastic("workers", 1, 8))
    assert sizes(job, "v100", TABLE) == ()
    assert len(ways_to_run([job], ["v100"], TABLE, sizes=True)) == 0


@given(st.lists(st.tuples(st.sampled_from((1, 2, 4, 8)), st.none() | elastics()), max_size=6))
def test_every_job_is_judged_by_one_row_on_each_type(kinds: list[tuple[int, Elastic | None]]) -> None:
    jobs = [
        Job(i, "net", 100.0, n, elastic=None if elastic is None else replace(elastic, parts=0).around(n))
        for i, (n, elastic) in enumerate(kinds)
    ]
    table = ways_to_run(jobs, ["v100"], TABLE, sizes=True, placements=True, pairs=True)
    assert table.misjudged() is None
    assert table.unlike() is None
    plain = ways_to_run(jobs, ["v100"], TABLE)
    assert np.array_equal(table.throughput_JA, plain.throughput_JA, equal_nan=True)
    for j, c in zip(table.job_M.tolist(), table.configuration_M.tolist(), strict=True):
        assert permits(jobs[j], int(table.devices_C[c]), int(table.batch_C[c]))


@pytest.mark.parametrize("own", [[True, True], [False, False]])
def test_a_table_in_which_a_job_is_misjudged_is_told(own: list[bool]) -> None:
    job = Job(1, "net", 100.0, 1, elastic=Elastic("workers", 1, 2))
    table = ways_to_run([job], ["v100"], TABLE, sizes=True)
    assert table.misjudged() is None
    assert replace(table, own_C=np.array(own)).misjudged() == (0, 0)


# -- policies -------------------------------------------------------------------------------------------------


def elastic_snapshot(jobs: int, devices: int) -> Snapshot:
    every = [Job(i, "net", 1000.0, 1 + i % 2, elastic=Elastic("workers", 1, 8)) for i in range(jobs)]
    return Snapshot.of(every, Cluster.of({"v100": devices}), TABLE, sizes=True)


@pytest.mark.parametrize("name", ["max_min_fairness", "finish_time_fairness", "max_sum_throughput", "makespan"])
@pytest.mark.parametrize(("jobs", "devices"), [(3, 16), (4, 6), (12, 4)])
def test_sizes_never_make_an_answer_worse(name: str, jobs: int, devices: int) -> None:
    snapshot, policy = elastic_snapshot(jobs, devices), load_policy(name)
    rigid, elastic = (p.allocate(snapshot) for p in (policy, load_policy(f"elastic({name})")))
    gain = [policy.gain(answer.snapshot, answer.share_C) for answer in (rigid, elastic)]
    assert None not in gain
    assert gain[1] >= gain[0] - 1e-9 * abs(gain[0])  # type: ignore[operator,arg-type]


def test_a_job_is_judged_by_its_own_size() -> None:
    """Where all of its sizes counted, what it gets would be compared with four slices of the cluster."""
    snapshot = elastic_snapshot(3, 16)
    fair = load_policy("elastic(max_min_fairness)").allocate(snapshot)
    assert fair.throughput_J.tolist() == pytest.approx([30.0] * 3)
    assert fair.certificate.objective == pytest.approx(min(30.0 / 10.0, 2 * 30.0 / 18.0))
