"""How many fields a message has, without reading it."""

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from gavelx.rpc import wire_pb2 as wire
from gavelx.service.api.decoding import PIECE, fields, kind_of


def count(message: Message) -> int:
    return list(fields(message.SerializeToString(), message.DESCRIPTOR))[-1]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (wire.SubmitRequest(), 0),
        (wire.JobSpec(total_steps=1.0, weight=2.0, workers=2**32 - 1), 3),
        (wire.JobSpec(command=["x" * n for n in range(300)]), 300),
        (wire.SubmitRequest(version=1, jobs=[wire.JobSpec(name="x" * 200, slo=1.5)] * 5), 1 + 5 * 3),
        (wire.SubmitRequest(version=1, jobs=[wire.JobSpec(command=[""] * 5000)] * 3), 1 + 3 * 5001),
        (wire.SubmitRequest(jobs=[wire.JobSpec(environment={"A": "1", "B": "2"}, slo=1.0)]), 1 + 2 * 3 + 1),
        (wire.StatusRequest(job_ids=[0, 300, 2**40]), 1 + 3),
        (wire.FromAgent(hello=wire.Hello(leases=[wire.LeaseReport(lease_id=1, job_id=300)] * 9)), 1 + 9 * 3),
    ],
)
def test_fields_are_counted_at_whatever_depth(message: Message, expected: int) -> None:
    assert count(message) == expected


def test_the_count_is_said_now_and_then() -> None:
    data = wire.JobSpec(command=[""] * (3 * PIECE)).SerializeToString()
    assert list(fields(data, wire.JobSpec.DESCRIPTOR)) == [PIECE, 2 * PIECE, 3 * PIECE, 3 * PIECE]


@given(st.binary(max_size=200), st.sampled_from([wire.SubmitRequest, wire.FromAgent, wire.StatusRequest]))
def test_counting_ends_whatever_the_bytes_are(data: bytes, kind: type[Message]) -> None:
    assert 0 <= list(fields(data, kind.DESCRIPTOR))[-1] <= len(data)


@given(st.binary(max_size=200))
def test_unknown_fields_are_counted_and_not_looked_into(data: bytes) -> None:
    tag = bytes([15 << 3 | 2, len(data) & 127 | 128, len(data) >> 7])
    assert list(fields(tag + data, wire.SubmitRequest.DESCRIPTOR)) == [1]


def test_methods_are_known_by_their_paths() -> None:
    assert kind_of("/gavelx.v1.Scheduler/Submit") is wire.SubmitRequest.DESCRIPTOR
    assert kind_of("/grpc.health.v1.Health/Check").name == "HealthCheckRequest"
