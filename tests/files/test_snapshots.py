import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.cluster import Cluster, Server
from gavelx.configuration import ALONE, AS_ASKED, ConfigurationSet
from gavelx.configurations import Configurations
from gavelx.errors import InputFileError, OptionError
from gavelx.files.configuration_rows import ConfigurationRow, configurations_of
from gavelx.files.price_tables import load_prices
from gavelx.files.snapshots import read_snapshot, snapshot_from_json, snapshot_to_json, write_snapshot
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import PREEMPTIBLE, Job
from gavelx.policies import load_policy
from gavelx.promises import Promises
from gavelx.simulator.random_jobs import random_jobs
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Pairing, Setting, Throughputs

TABLE = ("accelerator_C", "devices_C", "job_M", "configuration_M", "throughput_M")
HISTORY = ("steps_left_J", "elapsed_s_J", "usd_per_hour_A", "running_J", "equal_share_s_J", "held_s_J")
PROMISES = ("job", "partner", "type", "devices", "spread")
at_least_0 = st.floats(min_value=0, allow_infinity=False)
above_0 = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


def assert_equal(a: Snapshot, b: Snapshot) -> None:
    """Equal to the last bit, arrays and their kinds included."""
    assert (a.jobs, a.cluster, a.time_s) == (b.jobs, b.cluster, b.time_s)
    assert a.known.shape == b.known.shape
    assert a.promised.accelerators == b.promised.accelerators
    arrays = [(getattr(a.known, name), getattr(b.known, name)) for name in TABLE]
    arrays += [(getattr(a, name), getattr(b, name)) for name in HISTORY]
    before, after = a.promised.configurations, b.promised.configurations
    arrays += [(getattr(before, name), getattr(after, name)) for name in PROMISES]
    arrays.append((a.promised.share_P, b.promised.share_P))
    for ours, theirs in arrays:
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == theirs.tobytes()


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    types = draw(st.lists(names.map(str.lower).filter(lambda n: n == n.lower()), max_size=3, unique=True))
    servers = (
        draw(st.lists(st.tuples(st.sampled_from(types), st.integers(0, 8), names), max_size=4)) if types else []
    )
    ids = draw(st.lists(st.integers(0, 10**9), max_size=4, unique=True))
    J, A = len(ids), len(types)
    rows: list[ConfigurationRow] = []
    alone = set[tuple[int, int]]()  # a job has one row in its own size on each type
    if types and ids:
        for members in draw(
            st.lists(st.lists(st.integers(0, J - 1), min_size=1, max_size=2, unique=True), max_size=6)
        ):
            speeds = draw(st.lists(at_least_0, min_size=len(members), max_size=len(members)))
            accelerator, devices = draw(st.integers(0, A - 1)), draw(st.integers(1, 64))
            if len(members) == 2 or (members[0], accelerator) not in alone:
                rows.append(ConfigurationRow(tuple(members), accelerator, devices, tuple(speeds)))
                alone |= {(members[0], accelerator)} if len(members) == 1 else set()
    return Snapshot(
        cluster=Cluster(
            tuple(Server(i, name, n, region, region) for i, (name, n, region) in enumerate(servers)), tuple(types)
        ),
        jobs=tuple(
            Job(
                i,
                draw(names),
                draw(above_0),
                arrival_s=draw(st.floats(0, 1e12)),
                owner=draw(names),
                preemptible=draw(st.sampled_from(PREEMPTIBLE)),
                checkpoints=draw(st.booleans()),
            )
            for i in ids
        ),
        known=configurations_of(rows, (J, A)),
        steps_left_J=np.array(draw(st.lists(at_least_0, min_size=J, max_size=J)), dtype=float),
        elapsed_s_J=np.array(draw(st.lists(at_least_0, min_size=J, max_size=J)), dtype=float),
        usd_per_hour_A=np.array(draw(st.lists(at_least_0 | st.just(np.nan), min_size=A, max_size=A)), dtype=float),
        time_s=draw(at_least_0),
        equal_share_s_J=np.array(draw(st.lists(at_least_0, min_size=J, max_size=J)), dtype=float),
        held_s_J=np.array(draw(st.lists(at_least_0, min_size=J, max_size=J)), dtype=float),
        running_J=np.array(draw(st.lists(st.integers(-1, A - 1), min_size=J, max_size=J)), dtype=np.int64),
        promised=draw(promises(types)),
    )


@st.composite
def promises(draw: st.DrawFn, types: list[str]) -> Promises:
    """Of any jobs, also of some that have left since; types in the order in which they are first used."""
    pairs = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(10, 19) | st.just(ALONE)), max_size=4))
    names = [draw(st.sampled_from(types)) for _ in pairs] if types else []
    accelerators = tuple(dict.fromkeys(names))
    pairs = pairs[: len(names)]
    configurations = ConfigurationSet.of(
        np.array([first for first, _ in pairs], dtype=np.int64),
        np.array([second for _, second in pairs], dtype=np.int64),
        np.array([accelerators.index(name) for name in names], dtype=np.int64),
        np.array([draw(st.sampled_from([AS_ASKED, 1, 4])) for _ in pairs], dtype=np.int64),
        np.array([draw(st.booleans()) for _ in pairs], dtype=bool),
        np.array([draw(st.sampled_from([0, 64])) for _ in pairs], dtype=np.int64),
    )
    return Promises(accelerators, configurations, np.array([draw(at_least_0) for _ in pairs], dtype=float))


@given(snapshot=snapshots())
def test_what_is_saved_is_read_back(snapshot: Snapshot) -> None:
    assert_equal(snapshot, snapshot_from_json(json.loads(json.dumps(snapshot_to_json(snapshot), allow_nan=False))))


def example() -> Snapshot:
    cluster = Cluster.parse("v100=6,p100=2,k80=4")
    jobs = random_jobs(12, load_throughputs("simulation"), multi_gpu=True, multi_priority=True)
    prices = load_prices("aws", cluster.accelerators, strict=False)
    return Snapshot.of(jobs, cluster, load_throughputs("simulation"), prices)


def test_by_way_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.json"
    write_snapshot(path, example())
    assert_equal(example(), read_snapshot(path))
    assert_equal(example(), read_snapshot(path, 0))


def test_members_that_stand_apart_are_brought_together() -> None:
    apart = Configurations(
        shape=(2, 1),
        accelerator_C=np.array([0, 0]),
        devices_C=np.array([1, 1]),
        job_M=np.array([0, 1, 1]),
        configuration_M=np.array([1, 0, 1]),
        throughput_M=np.array([1.0, 2.0, 3.0]),
    )
    jobs = (Job(7, "a", 1.0), Job(9, "b", 1.0))
    snapshot = Snapshot(Cluster.parse("v100=1"), jobs, apart, np.ones(2), np.ones(2), np.ones(1))
    saved = snapshot_to_json(snapshot)
    assert [row["jobs"] for row in saved["throughputs"]] == [[9], [7, 9]]
    read = snapshot_from_json(saved).known
    assert (read.throughput_JC != apart.throughput_JC).nnz == 0


def test_the_form_that_is_written_by_hand() -> None:
    snapshot = snapshot_from_json(
        {
            "cluster": {"V100": 5},
            "jobs": [{"job_id": 3, "job_type": "A3C", "total_steps": 10}],
            "throughputs": [{"jobs": [3], "accelerator": "V100", "devices": 1, "steps_per_second": [2]}],
            "progress": [{"job_id": 3, "steps_left": 5, "elapsed_s": 0}],
            "prices": {},
        }
    )
    assert snapshot.devices_A.tolist() == [5]
    assert snapshot.jobs == (Job(3, "A3C", 10.0),)
    assert np.isnan(snapshot.usd_per_hour_A).all()


def test_a_list_needs_an_index(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    one = snapshot_to_json(example())
    path.write_text(json.dumps([one, one]))
    assert_equal(example(), read_snapshot(path, 1))
    with pytest.raises(
        OptionError, match=r"--index: .*list.json holds 2 snapshots; expected a number from 0 to 1"
    ):
        read_snapshot(path)
    for index in (2, -1):
        with pytest.raises(
            OptionError, match=rf"list.json has no snapshot {index}; expected a number from 0 to 1"
        ):
            read_snapshot(path, index)
    path.write_text(json.dumps([one]))
    assert_equal(example(), read_snapshot(path))
    path.write_text("[]")
    with pytest.raises(OptionError, match=r"list.json holds 0 snapshots"):
        read_snapshot(path)
    path.write_text(json.dumps(one))
    with pytest.raises(OptionError, match=r"list.json holds one snapshot"):
        read_snapshot(path, 1)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"cluster: v100", "row 1, character 1: is no JSON"),
        (b'{"cluster": {"v100": 1},\n "jobs": [', r"row 2, character 11: is no JSON: .*the file ends early"),
        (b'{"cluster": {"v100": NaN}, "jobs": []}', "cluster.v100: nan cannot be used"),
        (b'{"cluster": {"v100": -Infinity}, "jobs": []}', "cluster.v100: -inf cannot be used"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"time_s": ' + b"9" * 10_000 + b"}", "is no JSON that we can read"),
        (b"\xff\xfe{}", "byte 1 .* is not UTF-8"),
        (b"\0" * 1000, "NUL bytes"),
        (b"17", "17 cannot be used; expected an object"),
        (b'"text"', "'text' cannot be used; expected an object"),
        (b"null", "null cannot be used; expected an object"),
        (b"{}", "the key 'cluster' is missing; there are none"),
    ],
)
def test_what_is_no_snapshot(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "snapshot.json"
    path.write_bytes(content)
    with pytest.raises(InputFileError, match=said) as caught:
        read_snapshot(path)
    assert "snapshot.json" in str(caught.value)
    assert len(str(caught.value)) < 400


def changed(keys: list[Any], value: Any) -> Any:
    """The example with the value at the end of these keys replaced, or removed (...)."""
    whole = json.loads(json.dumps(snapshot_to_json(example())))
    place = whole
    for key in keys[:-1]:
        place = place[key]
    if value is ...:
        del place[keys[-1]]
    else:
        place[keys[-1]] = value
    return whole


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        (
            ["format"],
            "gavelx-snapshot-9",
            "format: 'gavelx-snapshot-9' is not known; expected 'gavelx-snapshot-1'",
        ),
        (["cluster"], ..., "the key 'cluster' is missing; there are 'format', 'time_s', 'jobs'"),
        (["progress"], ..., "the key 'progress' is missing"),
        (["jobs"], {}, "jobs: an object cannot be used; expected a list"),
        (
            ["jobs", 1, "total_steps"],
            "many",
            r"jobs\[1\].total_steps: 'many' cannot be used; expected a finite number",
        ),
        (["jobs", 1, "total_steps"], True, r"jobs\[1\].total_steps: True cannot be used"),
        (["jobs", 1, "total_steps"], 10**400, r"jobs\[1\].total_steps: 1000.* cannot be used"),
        (["jobs", 1, "job_type"], "", r"jobs\[1\].job_type: the text is empty"),
        (["jobs", 1, "job_id"], 0, r"jobs\[1\]: job 0 is in jobs\[0\] already"),
        (["jobs", 1, "scale_factor"], 1.5, r"jobs\[1\].scale_factor: 1.5 cannot be used; expected a whole number"),
        (["time_s"], -1, "time_s: -1 cannot be used; expected a finite number, 0 or more"),
        (["cluster"], {"v100": -1}, "cluster.v100: -1 cannot be used"),
        (["cluster"], {"v100": 1, "V100": 1}, "cluster.V100: 'v100' is named twice"),
        (
            ["cluster", "accelerators"],
            ["v100", "V100"],
            "cluster.accelerators: an accelerator type is named twice",
        ),
        (
            ["cluster", "servers", 0, "accelerator"],
            "t4",
            r"cluster.servers\[0\].accelerator: 't4' is not in the clus",
        ),
        (["throughputs", 2, "jobs"], [99], r"throughputs\[2\].jobs\[0\]: there is no job 99"),
        (
            ["throughputs", 2, "jobs"],
            [],
            r"throughputs\[2\].jobs: \[\] cannot share devices; expected one job, or two",
        ),
        (["throughputs", 2, "jobs"], [1, 1], r"throughputs\[2\].jobs: \[1, 1\] cannot share devices"),
        (["throughputs", 2, "accelerator"], "t4", r"throughputs\[2\].accelerator: 't4' is not in the cluster"),
        (["throughputs", 2, "devices"], 0, r"throughputs\[2\].devices: 0 cannot be used"),
        (["throughputs", 2, "steps_per_second"], [1, 2], r"throughputs\[2\].steps_per_second: there are 2 speeds"),
        (
            ["throughputs", 2, "steps_per_second"],
            [-1],
            r"throughputs\[2\].steps_per_second\[0\]: -1 cannot be used",
        ),
        (["progress", 3], ..., "progress: nothing is said of job 3"),
        (["progress", 3, "job_id"], 1, r"progress\[3\]: job 1 is there twice"),
        (["progress", 3, "steps_left"], None, r"progress\[3\].steps_left: null cannot be used"),
        (["prices", "v100"], "cheap", "prices.v100: 'cheap' cannot be used"),
        (["prices"], {"v100": 1.0, "V100": 2.0}, "prices.V100: 'v100' is named twice"),
    ],
)
def test_mistakes_are_named(keys: list[Any], value: Any, said: str) -> None:
    with pytest.raises(InputFileError, match=f"^mine.json,? ?.*{said}"):
        snapshot_from_json(changed(keys, value), "mine.json")


def test_a_key_that_is_there_twice_is_a_mistake(tmp_path: Path) -> None:
    """Of two values of one key, JSON readers keep the last."""
    path = tmp_path / "mine.json"
    path.write_text('{"format": "gavelx-snapshot-1", "cluster": {"v100": 1, "v100": 2}}')
    with pytest.raises(InputFileError, match=r"mine.json: .*the key 'v100' is there twice in one object"):
        read_snapshot(path)


@pytest.mark.parametrize("other", [{}, {"steps_per_second": [3.0]}, {"devices": 2}])
def test_a_row_that_is_there_twice_is_a_mistake(other: dict[str, Any]) -> None:
    whole = snapshot_to_json(example())
    whole["throughputs"].append(whole["throughputs"][0] | other)
    with pytest.raises(InputFileError, match=r"throughputs: job 0 on .* has not one row in its own size"):
        snapshot_from_json(whole)


def in_doubt() -> Snapshot:
    """Two jobs that may share a device; the first is estimated."""
    alone = Setting("a", "v100")
    table = Throughputs(
        {alone: 10.0, Setting("b", "v100"): 8.0},
        {Pairing("a", "b", "v100"): 9.0, Pairing("b", "a", "v100"): 7.5},
        ranges={alone: (5.0, 30.0), Pairing("a", "b", "v100"): (1.0, 9.0)},
    )
    return Snapshot.of([Job(0, "a", 1.0), Job(1, "b", 1.0)], Cluster.of({"v100": 1}), table, pairs=True)


def test_ranges_of_speeds_are_saved(tmp_path: Path) -> None:
    snapshot = in_doubt()
    write_snapshot(tmp_path / "s.json", snapshot)
    again = read_snapshot(tmp_path / "s.json")
    assert_equal(again, snapshot)
    for end in ("lower", "upper"):
        assert again.known.at(end).throughput_M.tobytes() == snapshot.known.at(end).throughput_M.tobytes()


@pytest.mark.parametrize("ranges", [[], [[5.0]], [[11.0, 30.0]], [[5.0, 9.0]], [[5.0, 30.0], [1.0, 2.0]]])
def test_ranges_that_do_not_hold_the_speed_are_a_mistake(ranges: list[list[float]]) -> None:
    value = snapshot_to_json(in_doubt())
    value["throughputs"][0]["ranges"] = ranges
    with pytest.raises(InputFileError, match=r"throughputs\[0\].ranges"):
        snapshot_from_json(value)


def of_unknown_length() -> Snapshot:
    """Two jobs; of the second it is believed how much is left."""
    table = Throughputs({Setting("a", "v100"): 10.0})
    snapshot = Snapshot.of([Job(0, "a", 100.0), Job(1, "a", 50.0)], Cluster.of({"v100": 1}), table)
    jobs = (snapshot.jobs[0], Job(1, "a"))
    return snapshot.replace(jobs=jobs, left_range_JE=np.array([[100.0, 100.0], [5.0, 900.0]]))


def test_believed_lengths_are_saved(tmp_path: Path) -> None:
    snapshot = of_unknown_length()
    write_snapshot(tmp_path / "s.json", snapshot)
    again = read_snapshot(tmp_path / "s.json")
    assert_equal(again, snapshot)
    assert again.left_range_JE is not None
    assert again.left_range_JE.tolist() == [[100.0, 100.0], [5.0, 900.0]]
    assert not again.jobs[1].has_length


@pytest.mark.parametrize("ends", [[], [5.0], [60.0, 900.0], [5.0, 40.0], [1.0, 60.0, 90.0], "all", [-1.0, 60.0]])
def test_an_interval_that_does_not_hold_the_length_is_a_mistake(ends: Any) -> None:
    value = snapshot_to_json(of_unknown_length())
    value["progress"][1]["steps_left_range"] = ends
    with pytest.raises(InputFileError, match=r"progress\[1\].steps_left_range"):
        snapshot_from_json(value)


def test_policies_answer_for_jobs_of_unknown_length() -> None:
    for policy in ("max_min_fairness", "srtf", "robust(srtf)", "optimistic(makespan)", "partitioned(makespan, 2)"):
        load_policy(policy).allocate(of_unknown_length())


def test_numbers_of_any_plain_kind_are_read() -> None:
    """A column that is not plainly right is read one value at a time, and some such values are right."""
    value = snapshot_to_json(in_doubt())
    plain = snapshot_from_json(value)
    value["progress"][0]["elapsed_s"] = np.float64(value["progress"][0]["elapsed_s"])
    value["throughputs"][0]["accelerator"] = value["throughputs"][0]["accelerator"].upper()
    other = snapshot_from_json(value)
    assert np.array_equal(other.elapsed_s_J, plain.elapsed_s_J)
    assert np.array_equal(other.known.accelerator_C, plain.known.accelerator_C)
