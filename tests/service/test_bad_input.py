"""Whatever is sent, the service says what is wrong with it, and goes on."""

import math
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.errors import UserError
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.channels import MESSAGE_BYTES_MAX
from gavelx.rpc.convert import check_hello, check_message, check_spec, safe_number
from tests.service.agents import FakeAgent, serving, spec, user_of
from tests.service.running import run

BAD_SPECS = [
    ({"total_steps": -1.0}, "total_steps is -1"),
    ({"total_steps": math.nan}, "total_steps is nan"),
    ({"total_steps": math.inf}, "total_steps is inf"),
    ({"total_steps": 1e300}, "total_steps is 1e"),
    ({"workers": 4_000_000_000}, "workers is 4000000000"),
    ({"total_steps": 1e16}, "total_steps is 1e+16"),
    ({"weight": -2.0}, "weight is -2"),
    ({"weight": 1e-50}, "weight is 1e-50; expected a number from 1e-09 to 1e+12"),
    ({"steps_per_s": {"v100": 1e-300}}, "steps_per_s of v100 is 1e-300"),
    ({"slo": math.nan}, "slo is nan"),
    ({"name": "../../etc/passwd"}, "name is '../../etc/passwd'"),
    ({"name": "a" * 65}, "name is"),
    ({"name": "-rf"}, "name is '-rf'"),
    ({"job_type": "nett"}, "did you mean 'net'"),
    ({"job_type": "$(reboot)"}, "job_type is"),
    ({"job_type": "../x"}, "job_type is"),
    ({"command": []}, "command is empty"),
    ({"command": [""]}, "command is empty"),
    ({"command": ["a\0b"]}, "zero byte"),
    ({"command": ["x"] * 2000}, "too long"),
    ({"command": ["x" * 70_000]}, "70000 bytes"),
    ({"command": ["echo", "\U0001f600" * 33_000]}, "132004 bytes"),
    ({"environment": {"NAME": "é" * 33_000}}, "at most 65536 in all"),
    ({"environment": {"A=B": "1"}}, "environment variable"),
    ({"environment": {"GAVELX_JOB_DIR": "/"}}, "GAVELX_JOB_DIR"),
    ({"environment": {"A": "\0"}}, "zero byte"),
    ({"environment": {"CUDA_VISIBLE_DEVICES": "0"}}, "'CUDA_VISIBLE_DEVICES'; expected another name"),
    ({"request_id": "x" * 200}, "request_id"),
    ({"elasticity": "workers:1-65536"}, "elasticity is workers:1-65536; expected at most 1024 devices and parts"),
    ({"elasticity": "workers:1-8/65536/mixed"}, "at most 1024 devices and parts"),
    ({"steps_per_s": {"v1": -1.0}}, "steps_per_s of v1"),
    ({"steps_per_s": {"v1": 1.0, "V1": 2.0}}, "steps_per_s names a type twice"),
    ({"steps_per_s": {"../v1": 1.0}}, "accelerator"),
]


def bad(**fields: Any) -> wire.JobSpec:
    return wire.JobSpec(**({"job_type": "net", "workers": 1, "total_steps": 5.0, "command": ["true"]} | fields))


@pytest.mark.slow
def test_each_mistake_in_a_job_is_named_and_the_whole_call_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user:
            for fields, message in BAD_SPECS:
                with pytest.raises(grpc.aio.AioRpcError) as error:
                    await user.submit(spec(), bad(**fields))
                assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT, fields
                assert message in str(error.value.details()) and "job 2 of 2" in str(error.value.details()), fields
                with pytest.raises(grpc.aio.AioRpcError) as error:
                    await user.submit(bad(**fields))
                assert str(error.value.details()).startswith("the job"), "0 would be read as another job's number"
            assert await user.jobs() == []
            with pytest.raises(grpc.aio.AioRpcError, match="version is 9"):
                await user.call("Submit", wire.SubmitRequest(version=9, jobs=[spec()]))
            with pytest.raises(grpc.aio.AioRpcError, match="0 jobs"):
                await user.submit()
            unknown = wire.StatusRequest.FromString(
                wire.StatusRequest(version=1).SerializeToString() + b"\xf8\x07\x01"
            )
            with pytest.raises(grpc.aio.AioRpcError, match="unknown fields"):
                await user.call("Status", unknown)
            huge = wire.SubmitRequest(version=1, jobs=[bad(name="x" * (MESSAGE_BYTES_MAX + 1))])
            with pytest.raises(grpc.aio.AioRpcError, match="larger than max") as error:
                await user.call("Submit", huge)
            assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            for method, request in (
                ("Explain", wire.ExplainRequest(version=1, job_id=7)),
                ("Cancel", wire.CancelRequest(version=1, job_id=-7)),
                ("Drain", wire.DrainRequest(version=1, server="../..")),
            ):
                with pytest.raises(grpc.aio.AioRpcError) as error:
                    await user.call(method, request)
                assert error.value.code() is grpc.StatusCode.NOT_FOUND
            assert await user.submit(spec()) == [0]

    run(main())


def test_a_job_whose_speed_nobody_knows_may_say_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user, FakeAgent(service.address):
            mine = {"job_type": "mine", "steps_per_s": {"v100": 40.0}, "total_steps": 20.0}
            first, second = await user.submit(bad(**mine), bad(**mine | {"steps_per_s": {"V100": 400.0}}))
            jobs = await user.until("complete", first, second)
            assert {job.job_type for job in jobs} == {"mine"}

    run(main())


def test_a_type_may_be_spelled_otherwise_and_get_a_speed_more(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user, FakeAgent(service.address):
            plain, more = await user.submit(bad(job_type="NET"), bad(job_type="Net", steps_per_s={"h100": 900.0}))
            jobs = await user.until("complete", plain, more)  # where the table knows how fast, too
            assert [job.job_type for job in jobs] == ["net", "net"]
            with pytest.raises(
                grpc.aio.AioRpcError, match=r"did you mean 'net'\? or say .* --speed v100=STEPS_PER_S"
            ):
                await user.submit(bad(job_type="nett"))

    run(main())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.builds(
            wire.FromAgent,
            heartbeat=st.builds(
                wire.Heartbeat,
                sent_s=st.floats(),
                leases=st.lists(
                    st.builds(
                        wire.LeaseReport,
                        lease_id=st.integers(0, 3),
                        job_id=st.integers(-1, 3),
                        steps_done=st.floats(),
                        saved_steps=st.floats(),
                        held_s=st.floats(),
                    ),
                    max_size=3,
                ),
            ),
        )
        | st.builds(
            wire.FromAgent,
            ended=st.builds(
                wire.Ended,
                report_id=st.text(max_size=5),
                lease_id=st.integers(0, 4),
                job_id=st.integers(-1, 3),
                steps_done=st.floats(),
                held_s=st.floats(),
                failed=st.booleans(),
                complete=st.booleans(),
            ),
        )
        | st.builds(wire.FromAgent, refused=st.builds(wire.Refused, lease_id=st.integers(0, 4)))
        | st.builds(wire.FromAgent, log_part=st.builds(wire.LogPart, request_id=st.text(max_size=3)))
        | st.just(wire.FromAgent()),
        max_size=12,
    )
)
def test_an_agent_that_talks_nonsense_breaks_nothing(messages: list[wire.FromAgent]) -> None:
    """Straight into the registry, with a state that follows at once: reports are believed within bounds only."""
    from tests.service.desk import Desk

    async def main() -> None:
        desk = Desk()
        session, stream = await desk.agent("one", 2)
        desk.submit(100.0, 100.0, 100.0)
        desk.wake()
        for message in messages:
            desk.here.receive(session, stream, message)
            desk.settle()
            desk.here.progress.entries(desk.now_s)
        live = desk.state.mechanism.live
        assert ((live.steps_done >= 0) & (live.steps_done <= 100.0)).all()
        assert all(math.isfinite(value) for value in live.spent_usd.tolist())

    run(main())


@pytest.mark.parametrize(
    ("value", "expected"),
    [(math.nan, 0.0), (-1.0, 0.0), (math.inf, 0.0), (5.0, 5.0), (1e30, 1e15), (1e-310, 0.0)],
)
def test_numbers_of_agents_are_made_safe(value: float, expected: float) -> None:
    assert safe_number(value) == expected


@pytest.mark.parametrize(
    "hello",
    [
        wire.Hello(version=1, name="../x", accelerator="v100", devices=1, boot_id="b"),
        wire.Hello(version=1, name="x", accelerator="", devices=1, boot_id="b"),
        wire.Hello(version=1, name="x", accelerator="v100", devices=0, boot_id="b"),
        wire.Hello(version=1, name="x", accelerator="v100", devices=1, boot_id=""),
        wire.Hello(version=1, name="x", accelerator="v100", devices=1, boot_id="b", address="a b;c"),
        wire.Hello(version=1, name="x", accelerator="v100", devices=1, boot_id="b", agent_id="x" * 129),
        wire.Hello(version=2, name="x", accelerator="v100", devices=1, boot_id="b"),
    ],
)
def test_an_agent_that_cannot_take_part_is_told_why(hello: wire.Hello) -> None:
    with pytest.raises(UserError):
        check_hello(hello)


@given(st.binary(max_size=80))
def test_no_bytes_make_the_checks_fail_otherwise_than_with_a_message(data: bytes) -> None:
    from google.protobuf.message import DecodeError

    try:
        message = wire.JobSpec.FromString(data)
    except DecodeError:
        return
    try:
        check_message(message)
        check_spec(message)
    except UserError as error:
        assert str(error)
