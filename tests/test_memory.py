"""What a policy remembers: carried by simulator, log and snapshots, through modifiers, and never by the policy."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from gavelx import memory
from gavelx.allocation import Allocation
from gavelx.asking import ask
from gavelx.errors import InputFileError, PolicyError
from gavelx.fallback import FallbackPolicy
from gavelx.files.snapshots import snapshot_from_json, snapshot_to_json
from gavelx.policies import MaxMinFairness, agnostic, elastic, optimistic, packed, partitioned, placed, robust
from gavelx.service.store.allocation_record import AllocationRecord, allocation_of, answer_of
from gavelx.simulator import simulate
from gavelx.snapshot import Snapshot
from gavelx.testing.runs import CLUSTER, JOBS, PRICES, TABLE, Runs
from gavelx.testing.snapshots import of_size

KINDS = st.sampled_from(["?", "i1", "i8", "u4", "f4", "f8"])
ARRAYS = KINDS.flatmap(lambda kind: arrays.arrays(kind, arrays.array_shapes(min_dims=0, min_side=0, max_side=4)))
MEMORIES = st.dictionaries(st.text(max_size=5), ARRAYS, max_size=3)


class Counts(MaxMinFairness):
    """Counts its answers in its memory, and what it has seen there."""

    name = "counts"
    promises = ()

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def allocate(self, snapshot: Snapshot) -> Allocation:
        count = int(snapshot.memory.get("count", np.array(0)))
        self.seen.append(count)
        return super().allocate(snapshot).with_memory({"count": np.array(count + 1)})


def same(one: memory.Memory, other: memory.Memory) -> bool:
    return one.keys() == other.keys() and all(
        one[name].dtype == other[name].dtype
        and one[name].shape == other[name].shape
        and one[name].tobytes() == other[name].tobytes()
        for name in one
    )


@given(MEMORIES)
def test_arrays_go_to_json_and_come_back_to_the_bit(remembered: dict[str, Any]) -> None:
    text = json.dumps(memory.to_json(remembered), allow_nan=False)
    assert same(memory.from_json(json.loads(text)), remembered)


@given(MEMORIES)
def test_snapshots_and_the_log_carry_it(remembered: dict[str, Any]) -> None:
    snapshot = of_size(3).replace(memory=remembered)
    assert same(snapshot_from_json(json.loads(json.dumps(snapshot_to_json(snapshot)))).memory, remembered)
    allocation = ask(MaxMinFairness(), snapshot).with_memory(remembered)
    body = json.loads(json.dumps(answer_of(allocation).to_json(), allow_nan=False))
    assert same(allocation_of(AllocationRecord.from_json(body), snapshot).memory, remembered)


def test_an_answer_without_memory_is_written_as_before() -> None:
    snapshot = of_size(3)
    assert "memory" not in answer_of(ask(MaxMinFairness(), snapshot)).to_json()
    assert "memory" not in snapshot_to_json(snapshot)


def test_a_simulation_brings_it_back_each_time() -> None:
    policy = Counts()
    simulate(policy, Runs()._arriving(0), CLUSTER, TABLE, PRICES)
    assert policy.seen == list(range(len(policy.seen)))
    assert len(policy.seen) >= JOBS
    simulate(policy, Runs()._arriving(0), CLUSTER, TABLE, PRICES)
    assert policy.seen.count(0) == 2  # another run begins with nothing


@pytest.mark.parametrize(
    "modifier", [agnostic, elastic, packed, placed, robust, optimistic], ids=lambda m: m.__name__
)
def test_modifiers_hand_it_on(modifier: Any) -> None:
    policy = Counts()
    first = ask(modifier(policy), of_size(6))
    ask(modifier(policy), of_size(6).replace(memory=first.memory))
    assert policy.seen == [0, 1]


def test_each_part_has_its_own() -> None:
    policy = Counts()
    first = ask(partitioned(policy, 2), of_size(12))
    assert sorted(first.memory) == ["0/count", "1/count"]
    ask(partitioned(policy, 2), of_size(12).replace(memory={"0/count": np.array(7), "1/count": np.array(9)}))
    assert policy.seen == [0, 0, 7, 9]


def test_a_failed_answer_forgets_nothing() -> None:
    from gavelx.errors import SolverError

    class Fails(MaxMinFairness):
        def allocate(self, snapshot: Snapshot) -> Allocation:
            raise SolverError("no")

    remembered = {"count": np.array(3)}
    assert same(FallbackPolicy(Fails()).allocate(of_size(4).replace(memory=remembered)).memory, remembered)


@pytest.mark.parametrize(
    ("remembered", "words"),
    [
        ([1.0], "memory is a list"),
        (None, "memory is a NoneType"),
        ({3: np.zeros(1)}, "memory has the name 3"),
        ({"a": [1.0]}, "memory 'a' is a list"),
        ({"a": 1.0}, "memory 'a' is a float"),
        ({"a": np.array(["text"])}, "memory 'a' is an array of <U4"),
        ({"a": np.array([{}])}, "memory 'a' is an array of object"),
        ({"a": np.zeros(1, complex)}, "memory 'a' is an array of complex128"),
        ({"a": np.zeros(125_001)}, "memory of 1,000,008 bytes"),
        ({"a": np.zeros(70_000), "b": np.zeros(70_000)}, "memory of 1,120,000 bytes"),
    ],
)
def test_what_cannot_be_remembered_is_refused(remembered: Any, words: str) -> None:
    class Author(MaxMinFairness):
        def allocate(self, snapshot: Snapshot) -> Allocation:
            return super().allocate(snapshot).with_memory(remembered)

    with pytest.raises(PolicyError) as seen:
        ask(Author(), of_size(3))
    assert words in str(seen.value)
    assert "expected" in str(seen.value)


@pytest.mark.parametrize(
    "one",
    [
        *(3, "x", None, [], {}, {"type": "<f8"}),
        {"type": "<f8", "shape": [2], "base64": "AAAA"},
        {"type": "|O", "shape": [0], "base64": ""},
        {"type": "<U4", "shape": [0], "base64": ""},
        {"type": "no", "shape": [0], "base64": ""},
        {"type": "<f8", "shape": [1], "base64": "not base64!"},
        {"type": "<f8", "shape": ["one"], "base64": ""},
        {"type": "<f8", "shape": 1, "base64": ""},
    ],
)
def test_a_file_that_is_wrong_names_the_array(one: Any) -> None:
    body = snapshot_to_json(of_size(2)) | {"memory": {"fine": memory.to_json({"x": np.zeros(2)})["x"], "bad": one}}
    with pytest.raises(InputFileError) as seen:
        snapshot_from_json(body)
    assert "memory.bad" in str(seen.value)


def test_chance_is_of_the_snapshot_and_the_seed() -> None:
    snapshot = of_size(2)
    draws = snapshot.random(1).random(3)
    assert (draws == snapshot.replace(memory={"a": np.zeros(1)}).random(1).random(3)).all()
    assert not (draws == snapshot.random(2).random(3)).any()
    later = snapshot.replace(time_s=math.nextafter(snapshot.time_s, math.inf))
    assert not (draws == later.random(1).random(3)).any()
