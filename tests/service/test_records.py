"""Every event there is goes to disk and comes back the same."""

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.cluster import Cluster, Server
from gavelx.configuration import Configuration
from gavelx.elastic import Elastic
from gavelx.errors import InputFileError, PolicyError
from gavelx.execution import Execution
from gavelx.jobs import PREEMPTIBLE, Job
from gavelx.measurements import Measurement
from gavelx.mechanism import events
from gavelx.mechanism.events import Event
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.service.store.allocation_record import AllocationRecord, allocation_of, answer_of
from gavelx.service.store.records import (
    KINDS,
    Alive,
    Answered,
    Entry,
    Measured,
    Record,
    Started,
    entry_of,
    record_of,
)
from gavelx.snapshot import Snapshot
from gavelx.testing.snapshots import snapshots
from gavelx.throughputs import Pairing, Setting, Throughputs
from gavelx.training_report import NOTHING_SAID, TrainingReport

TIMES = st.floats(0, 1e9)
IDS = st.integers(0, 2**53)
STEPS = st.floats(0, 1e15)
JOBS = st.builds(
    Job,
    id=IDS,
    job_type=st.text(min_size=1),
    total_steps=st.floats(1e-9, 1e15) | st.just(math.inf),
    scale_factor=st.integers(1, 64),
    weight=st.floats(1e-3, 1e3),
    arrival_s=st.floats(0, 1e12),
    slo=st.none() | st.floats(0.1, 10),
    duration_s=st.none() | st.floats(0.1, 1e6),
    owner=st.text(),
    preemptible=st.sampled_from(PREEMPTIBLE),
    checkpoints=st.booleans(),
)
SETTINGS = st.builds(Setting, st.text(), st.text(), st.integers(1, 64), st.booleans())
WAYS = SETTINGS | st.builds(Pairing, st.text(), st.text(), st.text())
MEASUREMENTS = st.builds(Measurement, WAYS, STEPS, st.floats(0, 1), TIMES, st.text(), st.text())
SERVERS = st.builds(Server, IDS, st.text(min_size=1), st.integers(1, 16), st.text(), st.text())


REPORTS = st.just(NOTHING_SAID) | st.builds(
    TrainingReport, STEPS, *[st.just(math.nan) | st.floats(-1e15, 1e15)] * 4
)


def progress(
    time_s: float,
    rows: list[tuple[int, int, float, float, float]],
    says: bool,
    training: TrainingReport | None,
) -> events.Progress:
    lease, job, *figures = (np.array(column) for column in zip(*rows, strict=True))
    reports = None if training is None else (training,) * len(rows)
    return events.Progress(time_s, lease, job, *(figures if says else figures[:2]), training_L=reports)


EVENTS = st.one_of(
    st.builds(events.JobSubmitted, TIMES, JOBS),
    st.builds(events.WorkerJoined, TIMES, SERVERS, IDS),
    st.builds(events.WorkerLost, TIMES, IDS, IDS, st.none() | STEPS),
    st.builds(events.WorkerDrained, TIMES, IDS, IDS),
    st.builds(events.JobCancelled, TIMES, IDS),
    st.builds(events.PolicyChanged, TIMES, st.frozensets(st.sampled_from(["pairs", "placements"]))),
    st.builds(
        progress,
        TIMES,
        st.lists(st.tuples(IDS, IDS, STEPS, STEPS, STEPS), min_size=1),
        st.booleans(),
        st.none() | REPORTS,
    ),
    st.builds(events.LeaseEnded, TIMES, IDS, IDS, STEPS, STEPS, st.booleans(), STEPS),
    st.builds(events.PriceChanged, TIMES, st.builds(Prices, st.dictionaries(st.text(), STEPS), st.text())),
    st.builds(events.Wake, TIMES),
    st.builds(Measured, TIMES, MEASUREMENTS),
    st.builds(Started, TIMES, st.text(), STEPS),
    st.builds(Alive, TIMES),
)
NOTES = st.dictionaries(st.text(), st.text() | st.lists(st.text()) | STEPS | st.dictionaries(st.text(), st.text()))


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return bool(np.array_equal(a, b) and a.dtype == b.dtype)
    if dataclasses.is_dataclass(a):
        return type(a) is type(b) and all(
            same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a)
        )
    return bool(a == b)


@given(EVENTS, NOTES)
def test_events_come_back_as_they_were(event: Event, note: dict[str, Any]) -> None:
    again = entry_of(record_of(7, Entry(event, note)))
    assert same(again.event, event)
    assert again.note == note


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy",
    [
        "max_min_fairness",
        "fifo",
        "gandiva",
        "packed(max_sum_throughput)",
        "agnostic(hierarchical(max_min_fairness))",
        "elastic(max_min_fairness)",
    ],
)
@given(snapshot=snapshots())
def test_an_answer_comes_back_as_the_allocation_that_it_was(policy: str, snapshot: Snapshot) -> None:
    allocation = load_policy(policy).allocate(snapshot).with_execution(first_on=((3, "v100"),))
    record = record_of(1, Entry(Answered(3.0, answer_of(allocation))))
    event = entry_of(record).event
    assert isinstance(event, Answered)
    again = allocation_of(event.answer, snapshot)
    table, before = again.snapshot.configurations, allocation.snapshot.configurations
    assert len(table) == len(before)
    assert same(again.promises(), allocation.promises())
    assert again.certificate == allocation.certificate
    assert again.execution == allocation.execution
    assert again.notes == allocation.notes


def test_a_pair_comes_back_as_a_pair() -> None:
    table = Throughputs({Setting("net", "fast"): 10.0}, {Pairing("net", "net", "fast"): 9.0})
    jobs = [Job(i, "net", 100.0) for i in (5, 3)]
    snapshot = Snapshot.of(jobs, Cluster.of({"fast": 1}), table, pairs=True)
    allocation = load_policy("packed(max_min_fairness)").allocate(snapshot)
    answer = AllocationRecord.from_json(answer_of(allocation).to_json())
    assert (answer.promised.configurations.partner >= 0).any()
    assert np.array_equal(allocation_of(answer, snapshot).share_C, allocation.share_C)


def test_a_mix_comes_back_as_a_mix() -> None:
    """And is refused where the question knows of none."""
    speeds = {
        Setting("net", name, n): each * n for name, each in (("fast", 2.0), ("slow", 1.0)) for n in (1, 2, 3)
    }
    job, table = Job(5, "net", 100.0, elastic=Elastic.of("workers:1-3/12/mixed")), Throughputs(speeds)
    asked, read = (
        Snapshot.of([job], Cluster.of(devices), table, sizes=True, mixes=True)
        for devices in ({"fast": 1, "slow": 2}, {"slow": 2, "fast": 1})
    )
    allocation = load_policy("elastic(max_min_fairness)").allocate(asked)
    answer = AllocationRecord.from_json(answer_of(allocation).to_json())
    assert answer.opened == {"sizes", "mixes"}
    assert allocation_of(answer, asked).share_C.tolist() == allocation.share_C.tolist()
    (named,) = allocation.promises().configurations.named(asked.accelerators)
    assert named.uses == (("fast", 1), ("slow", 2))
    with pytest.raises(PolicyError):
        allocation_of(answer, read.without_mixes())


def test_records_of_the_first_version_are_read() -> None:
    """Leases did not say what was lost, nor jobs whether they may be preempted."""
    submitted = Record(
        1, 5.0, "JobSubmitted", '{"job":{"id":3,"job_type":"net","total_steps":9.0},"note":{"command":["a"]}}', 1
    )
    over = Record(
        2, 6.0, "LeaseEnded", '{"lease_id":1,"job_id":3,"steps_done":0.0,"held_s":8.0,"failed":false}', 1
    )
    assert entry_of(submitted) == Entry(events.JobSubmitted(5.0, Job(3, "net", 9.0)), {"command": ["a"]})
    assert entry_of(over).event == events.LeaseEnded(6.0, 1, 3, 0.0, 8.0, failed=False, lost_s=0.0)


def test_an_answer_of_the_second_version_is_read() -> None:
    """It had flags, and did not say on how many devices: on as many as the job asked for, here 2."""
    body = (
        '{"asked_s":0.0,"opened":["placements"],"accelerators":["fast"],"first":[4],"second":[-1],'
        '"accelerator":[0],"spread":[0],"share":[0.5],"certificate":{"objective":null,"bound":null,"violation":0.0,"path":"","classes":1,'
        '"seconds":0.0},"marginal":{},"flags":["strict","unmoved"],"notes":["so"],"ask_again_s":9.0}'
    )
    event = entry_of(Record(1, 2.0, "Answered", body, 2)).event
    assert isinstance(event, Answered)
    table = Throughputs({Setting("net", "fast", 2, together): 1.0 + together for together in (True, False)})
    snapshot = Snapshot.of([Job(4, "net", 9.0, 2)], Cluster.of({"fast": 2}, 1), table, placements=True)
    allocation = allocation_of(event.answer, snapshot)
    assert allocation.execution == Execution(backfill=False, may_move=False, refresh_s=9.0)
    (how,) = allocation.promises().configurations.named(["fast"])
    assert how == Configuration((4,), "fast", 2, spread=True)


def test_what_an_author_takes_from_numpy_goes_to_the_log() -> None:
    """Such as ``backfill=(share_C > 0).all()``."""
    snapshot = Snapshot.of(
        [Job(4, "net", 9.0)], Cluster.of({"fast": 2}), Throughputs({Setting("net", "fast"): 1.0})
    )
    told = {"backfill": np.array([1.0]).all(), "quota": np.False_, "refresh_s": np.int64(60)}
    allocation = load_policy("max_min_fairness").allocate(snapshot).with_execution(**told)
    body = json.loads(json.dumps(answer_of(allocation).to_json()))
    assert AllocationRecord.from_json(body).execution == Execution(backfill=True, quota=False, refresh_s=60)


def test_every_event_of_the_mechanism_has_a_record() -> None:
    all_events = {each.__name__ for each in Event.__subclasses__()}
    # a service has no last job; an answer is an Answered, and another speed follows from what was Measured
    theirs = all_events - {"ArrivalsEnded", "Allocated", "ThroughputsChanged"}
    assert theirs == set(KINDS)


@pytest.mark.parametrize(
    "record",
    [
        Record(4, 0.0, "Wake", "{}", version=99),
        Record(4, 0.0, "Nonsense", "{}"),
        Record(4, 0.0, "JobCancelled", "{}"),
        Record(4, 0.0, "Wake", "{"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(record: Record) -> None:
    with pytest.raises(InputFileError, match="record 4 of the log"):
        entry_of(record)
