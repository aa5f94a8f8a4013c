import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gavelx.errors import InputFileError
from gavelx.files.snapshots import read_snapshot, snapshot_from_json

GOLDEN = Path(__file__).parents[1] / "data" / "golden_instances.json"
INSTANCES: list[dict[str, Any]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
PAIRED = next(i for i, instance in enumerate(INSTANCES) if "pairs" in instance)
MIXED = next(
    i for i, x in enumerate(INSTANCES) if "pairs" in x and len({j["scale_factor"] for j in x["jobs"]}) > 1
)


@pytest.mark.parametrize("index", range(len(INSTANCES)))
def test_an_instance_says_the_same_as_a_snapshot(index: int) -> None:
    instance, snapshot = INSTANCES[index], read_snapshot(GOLDEN, index)
    types = snapshot.accelerators
    jobs = instance["jobs"]
    assert dict(zip(types, snapshot.devices_A.tolist(), strict=True)) == instance["cluster"]
    assert snapshot.usd_per_hour_A.tolist() == [instance["prices_usd_per_hour"][name] for name in types]
    assert [job.id for job in snapshot.jobs] == [job["id"] for job in jobs]
    assert snapshot.scale_factor_J.tolist() == [job["scale_factor"] for job in jobs]
    assert snapshot.weight_J.tolist() == [job["priority"] for job in jobs]
    assert snapshot.steps_left_J.tolist() == [job["steps_remaining"] for job in jobs]
    assert snapshot.elapsed_s_J.tolist() == [job["time_since_start"] for job in jobs]
    T_JA = np.array([[job["throughputs"][name] for name in types] for job in jobs])
    assert (snapshot.configurations.throughput_JA == T_JA).all()
    assert {job.arrival_s for job in snapshot.jobs} == {0.0}


@pytest.mark.parametrize("index", [PAIRED, MIXED])
def test_pairs_follow_the_jobs_alone(index: int) -> None:
    instance, snapshot = INSTANCES[index], read_snapshot(GOLDEN, index)
    table, A = snapshot.known, len(snapshot.accelerators)
    alone = A * len(snapshot.jobs)
    assert table.members_C.tolist() == [1] * alone + [2] * A * len(instance["pairs"])
    for p, pair in enumerate(instance["pairs"]):
        for a, name in enumerate(snapshot.accelerators):
            c = alone + p * A + a
            members = table.configuration_M == c
            assert [snapshot.jobs[j].id for j in table.job_M[members]] == [pair["a"], pair["b"]]
            assert table.throughput_M[members].tolist() == pair["throughputs"][name]
            assert table.devices_C[c] == snapshot.scale_factor_J[table.job_M[members]].max()


def test_a_type_in_two_spellings_is_a_mistake() -> None:
    instance = copy.deepcopy(INSTANCES[1])
    instance["jobs"][0]["throughputs"]["V100"] = 1.0
    with pytest.raises(InputFileError, match=r"jobs\[0\].throughputs.V100: 'v100' is named twice"):
        snapshot_from_json(instance)


def test_unknown_speeds_have_no_configuration() -> None:
    instance = copy.deepcopy(INSTANCES[1])
    del instance["jobs"][0]["throughputs"]["k80"]
    instance["jobs"][1]["throughputs"]["v100"] = None
    instance["jobs"][1]["throughputs"]["elsewhere"] = 1.0
    del instance["prices_usd_per_hour"]
    snapshot = snapshot_from_json(instance)
    T_JA = snapshot.configurations.throughput_JA
    k80, v100 = (snapshot.accelerators.index(name) for name in ("k80", "v100"))
    assert len(snapshot.configurations) == 4
    assert np.isnan([T_JA[0, k80], T_JA[1, v100]]).all()
    assert np.isnan(snapshot.usd_per_hour_A).all()


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        (["cluster", "v100"], 1.5, "cluster.v100: 1.5 cannot be used"),
        (["jobs", 1, "id"], 0, r"jobs\[1\]: job 0 is in jobs\[0\] already"),
        (["jobs", 1, "priority"], 0, r"jobs\[1\].priority: 0 cannot be used"),
        (["jobs", 1, "steps_remaining"], 0, r"jobs\[1\].steps_remaining: 0 cannot be used"),
        (["jobs", 1, "throughputs"], [1], r"jobs\[1\].throughputs: a list cannot be used; expected an object"),
        (["jobs", 1, "throughputs", "v100"], -1, r"jobs\[1\].throughputs.v100: -1 cannot be used"),
        (["pairs", 0, "b"], 0, r"pairs\[0\]: job 0 is paired with itself"),
        (["pairs", 0, "b"], 99, r"pairs\[0\].b: there is no job 99"),
        (
            ["pairs", 0, "throughputs", "v100"],
            [1.0],
            r"pairs\[0\].throughputs.v100: a list of 1; expected the speeds",
        ),
        (["jobs", 0, "scale_factor"], 16, r"pairs\[0\]: jobs 0 and 1 have the scale factors 16 and 1"),
        (["prices_usd_per_hour", "v100"], -1, "prices_usd_per_hour.v100: -1 cannot be used"),
    ],
)
def test_mistakes_are_named(keys: list[Any], value: Any, said: str) -> None:
    instance = copy.deepcopy(INSTANCES[PAIRED])
    place: Any = instance
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    with pytest.raises(InputFileError, match=f"^mine.json, {said}"):
        snapshot_from_json(instance, "mine.json")


def test_a_missing_key_is_named() -> None:
    instance = copy.deepcopy(INSTANCES[0])
    del instance["jobs"][0]["throughputs"]
    with pytest.raises(
        InputFileError, match=r"mine.json, jobs\[0\]: the key 'throughputs' is missing; there are 'id'"
    ):
        snapshot_from_json(instance, "mine.json")
