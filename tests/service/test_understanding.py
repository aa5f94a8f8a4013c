"""How many fields a message has, without reading it."""

from hypothesis import given
from hypothesis import strategies as st

from gavelx.rpc import wire_pb2 as wire
from gavelx.service.understanding import fields


def test_fields_are_counted_as_often_as_they_are_there() -> None:
    jobs = [wire.JobSpec(name="x" * n, total_steps=1.5) for n in range(300)]
    assert fields(wire.SubmitRequest(version=1, jobs=jobs).SerializeToString(), 1000) == 301
    assert fields(wire.SubmitRequest(version=1, jobs=jobs).SerializeToString(), 20) == 20
    assert fields(wire.JobSpec(total_steps=1.0, weight=2.0, workers=2**32 - 1).SerializeToString(), 9) == 3
    assert fields(b"", 5) == 0


@given(st.binary(max_size=200))
def test_counting_ends_whatever_the_bytes_are(data: bytes) -> None:
    assert 0 <= fields(data, 1000) <= len(data)
