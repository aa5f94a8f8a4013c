"""Whatever comes in, on every method and below them: a clear status, and a service that goes on as before.

One service for all of it, with an agent and a job that runs from the first test to the last. Nothing that anybody
sends may make it fail, stop it, credit it with steps it has not done, or make the log unreadable.
"""

import math
import random
import socket
import string
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.rpc import channels
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.certificates import make_certificates
from gavelx.rpc.channels import OPTIONS, Access, ServiceError, channel, stub_of
from gavelx.rpc.tokens import add_token, new_token
from gavelx.service.state.replay import read_history
from tests.service.agents import spec
from tests.service.background import Background
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

METHODS = wire.DESCRIPTOR.services_by_name["Scheduler"].methods
REQUESTS: dict[str, Any] = {
    method.name: getattr(wire, method.input_type.name)(version=1) for method in METHODS
} | {
    "Submit": wire.SubmitRequest(version=1, jobs=[spec(environment={"A": "1"}, steps_per_s={"v100": 3.0})]),
    "Status": wire.StatusRequest(version=1, job_ids=[0, 1], ended=True, limit=3),
    "Cancel": wire.CancelRequest(version=1, job_id=77),
    "Drain": wire.DrainRequest(version=1, server="nobody"),
    "Offer": wire.OfferRequest(version=1, server="nobody"),
    "SetPolicy": wire.SetPolicyRequest(version=1, policy="max_min_fairness"),
}
CLEAR = {
    *(grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND),
    *(grpc.StatusCode.ALREADY_EXISTS, grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNIMPLEMENTED),
    *(grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED),
}
OURS = ("Traceback", "<class", ".py", "Error:", "\n", "\x1b")
"""What no user should read in an answer."""
LONG = 1e9
SOME = settings(max_examples=200, database=None)

nasty = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        ["", "..", "../../etc/passwd", "a/b", "a\\b", "-rf", "--help", "~", "$(reboot)", "`id`", "a;b"]
    ),
    st.sampled_from(["a\0b", "a\nb", "a\r\nb", "\x1b[31m", "%s%n", "x" * 10_240, "nеt", "ｎｅｔ", "net ", "NET"]),
    st.sampled_from(["net~00000000", "CON", ".", "\u202enet", "\ufeff", "[bold]", "'; drop table events; --"]),
)
numbers = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 0.0, 5e-324, 1e308, 1e15, 1e16])
ids = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3)
names = st.sampled_from(["", "one", "fuzz", "fuzz"]) | nasty


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Background]:
    running = Background(tmp_path_factory.mktemp("fuzz") / "state", devices=4)
    running.do(lambda: running.service.scheduler.solver.load("max_min_fairness"))
    try:
        (job_id,) = submit(running, spec(LONG))
        until(running, job_id, "running")
        yield running
    finally:
        running.close()
    books_are_exact(running)  # now nothing is being written any more


@pytest.fixture(autouse=True)
def unharmed(live: Background) -> Iterator[None]:
    """After each test: a good job runs to its end, the one from the beginning still runs, figures are figures."""
    yield
    (good,) = submit(live, spec(20.0))
    until(live, good, "complete")
    (long,) = status(live, 0).jobs
    assert (long.state, long.failures, long.restarts) == ("running", 0, 0)
    assert 0.0 < long.steps_done < 100.0 * long.submitted_s_ago
    assert {server.name: server.state for server in status(live).servers}["one"] == "serving"
    assert live.agent.seen.twice == []
    columns = live.service.scheduler.state.mechanism.live
    for name in ("steps_done", "saved_steps", "share", "promised_s", "spent_usd"):
        assert all(math.isfinite(value) and value >= 0.0 for value in getattr(columns, name).tolist()), name
    assert not live.service.scheduler.failure


def books_are_exact(running: Background) -> None:
    """What the log says from its first record is what the service believes."""
    again, _ = read_history(running.service.options.state)
    before = running.service.scheduler.state
    assert again.ended == before.ended and again.live == before.live
    for job_id, known in before.jobs.items():
        assert again.jobs[job_id].job == known.job
        assert again.jobs[job_id].ended == known.ended


def call(
    running: Background | str, method: str, data: bytes, service: str = "gavelx.v1.Scheduler", **more: Any
) -> tuple[grpc.StatusCode, str, list[bytes]]:
    """Bytes to a method: status, details and answers. Whatever they are, they are clear."""
    address = running if isinstance(running, str) else running.address
    with grpc.insecure_channel(address, OPTIONS) as opened:
        return said(lambda: opened.unary_stream(f"/{service}/{method}")(data, timeout=PATIENCE_S, **more))


def said(answers: Callable[[], Any]) -> tuple[grpc.StatusCode, str, list[bytes]]:
    received: list[bytes] = []
    try:
        for answer in answers():
            received.append(answer)
    except grpc.RpcError as error:
        code, details = error.code(), error.details() or ""
        assert code in CLEAR, (code, details)
        assert len(details) <= 1003 and not any(word in details for word in OURS), details
        return code, details, received
    return grpc.StatusCode.OK, "", received


def submit(running: Background, *specs: wire.JobSpec) -> list[int]:
    data = wire.SubmitRequest(version=1, jobs=specs).SerializeToString()
    code, details, answers = call(running, "Submit", data)
    assert code is grpc.StatusCode.OK, details
    return list(wire.SubmitReply.FromString(answers[0]).job_ids)


def status(running: Background, *job_ids: int) -> wire.StatusReply:
    data = wire.StatusRequest(version=1, job_ids=job_ids, ended=True).SerializeToString()
    return wire.StatusReply.FromString(call(running, "Status", data)[2][0])


def until(running: Background, job_id: int, state: str) -> None:
    job = lambda: status(running, job_id).jobs[0]  # noqa: E731
    wait_until(lambda: job().state == state, f"job {job_id} is {state}", job)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good request in which some bytes are others, missing or doubled."""
    data = bytearray(draw(st.sampled_from(list(REQUESTS.values()))).SerializeToString())
    for _ in range(draw(st.integers(1, 4))):
        at, what = draw(st.integers(0, max(0, len(data) - 1))), draw(st.binary(max_size=3))
        data[at : at + draw(st.integers(0, 3))] = what
    return bytes(data)


@SOME
@given(method=st.sampled_from([*REQUESTS, "Nothing", "../Submit"]), data=st.binary(max_size=80) | damaged())
def test_bytes_on_every_method(live: Background, method: str, data: bytes) -> None:
    if method == "SetPolicy" and data:
        with suppress(Exception):
            if wire.SetPolicyRequest.FromString(data).policy:
                return  # it may be one
    if method == "Cancel":
        with suppress(Exception):
            if wire.CancelRequest.FromString(data).job_id == 0:
                return  # the job that is to run on
    call(live, method, data)


@SOME
@given(st.binary(min_size=1, max_size=40))
def test_bytes_to_the_health_service(live: Background, data: bytes) -> None:
    code, _, answers = call(live, "Check", data, service="grpc.health.v1.Health")
    assert answers or code in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}
    assert call(live, "Check", b"", service="grpc.health.v1.Health")[2] == [b"\x08\x01"]


specs = st.builds(
    wire.JobSpec,
    name=nasty,
    job_type=st.sampled_from(["net", "net"]) | nasty,
    workers=st.integers(0, 2**32 - 1) | st.integers(0, 3),
    total_steps=numbers,
    weight=numbers,
    command=st.lists(nasty, max_size=3),
    environment=st.dictionaries(
        nasty | st.sampled_from(["PATH", "LD_PRELOAD", "RANK", "GAVELX_JOB_DIR", "A=B", "1A"]), nasty, max_size=2
    ),
    one_process_per_server=st.booleans(),
    slo=numbers,
    duration_s=numbers,
    steps_per_s=st.dictionaries(st.sampled_from(["v100", "V100", "../v100"]) | nasty, numbers, max_size=2),
    request_id=nasty,
)


@SOME
@given(st.lists(specs, max_size=2))
def test_jobs_that_nobody_can_run(live: Background, jobs: list[wire.JobSpec]) -> None:
    code, details, answers = call(live, "Submit", wire.SubmitRequest(version=1, jobs=jobs).SerializeToString())
    if code is not grpc.StatusCode.OK:
        assert code is grpc.StatusCode.INVALID_ARGUMENT and "job" in details
        return
    for job_id, job in zip(wire.SubmitReply.FromString(answers[0]).job_ids, jobs, strict=True):
        assert math.isfinite(job.total_steps) and job.total_steps > 0 and job.command[0]
        call(live, "Cancel", wire.CancelRequest(version=1, job_id=job_id).SerializeToString())


@SOME
@given(
    st.builds(
        wire.StatusRequest,
        version=st.integers(0, 2),
        job_ids=st.lists(ids, max_size=5),
        limit=st.integers(0, 2**32 - 1),
    )
    | st.builds(wire.ExplainRequest, version=st.integers(0, 2), job_id=ids)
    | st.builds(wire.SpeedsRequest, version=st.integers(0, 2), job_type=st.text(max_size=20))
    | st.builds(wire.CancelRequest, version=st.just(1), job_id=ids.filter(bool))
    | st.builds(wire.LogsRequest, version=st.just(1), job_id=ids.filter(bool), offset=st.integers(0, 2**64 - 1))
    | st.builds(wire.DrainRequest, version=st.just(1), server=nasty)
    | st.builds(wire.OfferRequest, version=st.just(1), server=nasty, devices=ids.filter(lambda n: 0 <= n < 9))
    | st.builds(wire.SetPolicyRequest, version=st.just(1), policy=nasty.map(lambda text: text + "?"))
)
def test_questions_about_what_is_not_there(live: Background, request: Any) -> None:
    method = type(request).__name__.removesuffix("Request")
    code, _, _ = call(live, method, request.SerializeToString())
    if method in ("Drain", "Offer", "SetPolicy"):
        assert code is not grpc.StatusCode.OK


reports = st.builds(
    wire.LeaseReport,
    lease_id=ids,
    job_id=ids,
    steps_done=numbers,
    saved_steps=numbers,
    held_s=numbers,
    steps_per_s=numbers,
    memory_bytes=st.integers(0, 2**64 - 1),
    device_use=numbers,
)
hellos = st.builds(
    wire.Hello,
    version=st.sampled_from([1, 1, 1, 0, 2**32 - 1]),
    name=names,
    address=st.sampled_from(["127.0.0.1", "", "a b;c", "[::1]:5"]) | nasty,
    accelerator=st.sampled_from(["k80", "v100", "other"]) | nasty,
    devices=st.integers(0, 3) | st.integers(0, 2**32 - 1),
    boot_id=st.sampled_from(["boot", "b"]) | nasty,
    leases=st.lists(reports, max_size=2),
    agent_version=nasty,
)
words = st.one_of(
    st.builds(wire.FromAgent, hello=hellos),
    st.builds(
        wire.FromAgent,
        heartbeat=st.builds(
            wire.Heartbeat, sent_s=numbers, leases=st.lists(reports, max_size=3), leaving=st.booleans()
        ),
    ),
    st.builds(
        wire.FromAgent,
        ended=st.builds(
            wire.Ended,
            report_id=nasty,
            lease_id=ids,
            job_id=ids,
            steps_done=numbers,
            held_s=numbers,
            failed=st.booleans(),
            complete=st.booleans(),
            exit_code=st.integers(-(2**31), 2**31 - 1),
            reason=nasty,
        ),
    ),
    st.builds(wire.FromAgent, refused=st.builds(wire.Refused, lease_id=ids, job_id=ids, reason=nasty)),
    st.builds(wire.FromAgent, log_part=st.builds(wire.LogPart, request_id=nasty, last=st.booleans())),
    st.just(wire.FromAgent()),
)


@SOME
@given(st.lists(words.map(wire.FromAgent.SerializeToString) | st.binary(max_size=30), max_size=6))
def test_agents_that_are_none(live: Background, messages: list[bytes]) -> None:
    with grpc.insecure_channel(live.address, OPTIONS) as opened:
        attend = opened.stream_stream("/gavelx.v1.Agents/Attend")
        code, details, _ = said(lambda: attend(iter(messages), timeout=PATIENCE_S))
        first = wire.FromAgent.FromString(messages[0]) if messages and _readable(messages[0]) else wire.FromAgent()
        if first.WhichOneof("message") != "hello":
            assert code is grpc.StatusCode.INVALID_ARGUMENT, details


def _readable(data: bytes) -> bool:
    try:
        wire.FromAgent.FromString(data)
    except Exception:
        return False
    return True


def test_a_hello_from_somebody_else_does_not_take_a_name_over(live: Background) -> None:
    hello = wire.Hello(version=1, name="one", accelerator="v100", devices=4, boot_id="another")
    with grpc.insecure_channel(live.address, OPTIONS) as opened:
        attend = opened.stream_stream("/gavelx.v1.Agents/Attend")
        code, details, _ = said(
            lambda: attend(iter([wire.FromAgent(hello=hello).SerializeToString()]), timeout=PATIENCE_S)
        )
    assert code is grpc.StatusCode.ALREADY_EXISTS and "another agent is called one" in details


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (wire.StatusRequest(version=1, job_ids=[0] * 1_000_000), "INVALID_ARGUMENT", "1000000 job ids"),
        (wire.SubmitRequest(version=1, jobs=[spec()] * 10_001), "INVALID_ARGUMENT", "10001 jobs"),
        (wire.SetPolicyRequest(version=1, policy="agnostic(" * 9000), "INVALID_ARGUMENT", "81000 characters"),
        (wire.DrainRequest(version=1, server="x" * 10_000_000), "NOT_FOUND", "no server is called"),
        (wire.DrainRequest(version=1, server="x" * 17_000_000), "RESOURCE_EXHAUSTED", "larger than max"),
    ],
)
def test_what_is_huge(live: Background, request_: Any, code: str, message: str) -> None:
    method = type(request_).__name__.removesuffix("Request")
    found, details, _ = call(live, method, request_.SerializeToString())
    assert found is grpc.StatusCode[code] and message in details, details


def job_of(part: bytes, times: int) -> bytes:
    """A job that consists of this, as part of a request."""
    size = len(part) * times
    return (
        b"\x12"
        + bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127 | 128, size >> 21])
        + part * times
    )


@pytest.mark.parametrize(
    "data",
    [
        *(b"\x12\x00" * 5_000_000, b"\xf8\x07\x01" * 5_000_000, job_of(b"\x32\x00", 5_000_000)),
        *(
            job_of(b"\x3a\x00", 5_000_000),
            job_of(b"\x3a\x02\x0a\x00", 3_000_000),
            job_of(b"\x32\x00", 200_000) * 30,
        ),
    ],
    ids=["jobs", "unknown", "words", "variables", "parts of variables", "words of some jobs"],
)
def test_millions_of_fields_are_not_even_read(live: Background, data: bytes) -> None:
    code, details, _ = call(live, "Submit", wire.SubmitRequest(version=1).SerializeToString() + data)
    assert code is grpc.StatusCode.INVALID_ARGUMENT and "more than 1048576 fields" in details, details


def test_a_huge_header(live: Background) -> None:
    header = (("authorization", "Bearer " + "x" * 20_000),)
    code, details, _ = call(live, "Status", REQUESTS["Status"].SerializeToString(), metadata=header)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED and "metadata size" in details


def test_a_huge_message_of_an_agent(live: Background) -> None:
    beat = wire.Heartbeat(sent_s=1.0, leases=[wire.LeaseReport(lease_id=i) for i in range(5000)])
    for message, problem in (
        (wire.FromAgent(heartbeat=beat), "more than 4096 leases"),
        (wire.FromAgent(ended=wire.Ended(report_id="x" * 300)), "report_id has 300"),
        (wire.FromAgent(ended=wire.Ended(reason="x" * 2_000_000)), "a message of 2000"),
    ):
        hello = wire.Hello(version=1, name="huge", accelerator="k80", devices=1, boot_id="b")
        messages = [wire.FromAgent(hello=hello).SerializeToString(), message.SerializeToString()]
        with grpc.insecure_channel(live.address, OPTIONS) as opened:
            attend = opened.stream_stream("/gavelx.v1.Agents/Attend")
            code, details, _ = said(lambda: attend(iter(messages), timeout=PATIENCE_S))  # noqa: B023
        assert code is grpc.StatusCode.INVALID_ARGUMENT and problem in details, details


NOISE = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 300,
    b"SSH-2.0-x\r\n",
    bytes(100_000),
    random.Random(0).randbytes(100_000),
]


@pytest.mark.parametrize("noise", NOISE, ids=[repr(noise[:8]) for noise in NOISE])
def test_noise_on_the_port(live: Background, secured: "Secured", noise: bytes) -> None:
    for address in (live.address, secured.address):
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as plain, suppress(OSError):
            plain.sendall(noise)
            plain.shutdown(socket.SHUT_WR)
            while plain.recv(65536):  # until the other side has had enough
                pass
    assert secured.code(secured.good) is grpc.StatusCode.OK


class Secured(Background):
    """One with TLS and tokens."""

    def __init__(self, folder: Path) -> None:
        pairs = make_certificates(folder / "certs", ["localhost", "127.0.0.1"], [])
        self.ca = str(pairs["ca"].certificate)
        tokens = str(folder / "tokens.json")
        texts = {}
        for owner, days in (("ada", None), ("late", -1.0)):
            texts[owner], token = new_token(owner, "user", days)
            add_token(tokens, token)
        self.good, self.expired = texts["ada"], texts["late"]
        certificate, key = str(pairs["server"].certificate), str(pairs["server"].key)
        super().__init__(folder / "state", devices=0, tokens=tokens, certificate=certificate, key=key)

    def code(self, token: str) -> grpc.StatusCode:
        access = Access(self.address, None, self.ca)
        with channel(access) as opened:
            header = (("authorization", token),)
            data = REQUESTS["Status"].SerializeToString()
            status = opened.unary_stream("/gavelx.v1.Scheduler/Status")
            return said(lambda: status(data, timeout=PATIENCE_S, metadata=header))[0]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    running = Secured(tmp_path_factory.mktemp("secured"))
    yield running
    running.close()


PRINTABLE = string.ascii_letters + string.digits + string.punctuation + " "


@settings(max_examples=40, database=None)
@given(st.text(PRINTABLE, max_size=60) | st.sampled_from(["Bearer", "Bearer ", "bearer x", "Basic eDp5"]))
def test_tokens_that_are_none(secured: Secured, token: str) -> None:
    assert secured.code(token) is grpc.StatusCode.UNAUTHENTICATED


def test_tokens_that_nearly_are(secured: Secured) -> None:
    good = secured.good
    assert secured.code(good) is secured.code(f"Bearer {good}") is grpc.StatusCode.OK
    for token in (secured.expired, good[:-1], good + "x", good.lower(), f"Bearer Bearer {good}", good[::-1]):
        assert secured.code(token) is grpc.StatusCode.UNAUTHENTICATED


def test_plain_text_to_a_tls_port_and_tls_to_a_plain_one(live: Background, secured: Secured) -> None:
    for access, hint in (
        (Access(secured.address), "with --ca, if it speaks TLS"),
        (Access(live.address, None, secured.ca), "without --ca, if it does not speak TLS"),
    ):
        with channel(access) as opened, pytest.raises(ServiceError, match=hint):
            channels.call(access, stub_of(opened).Status, REQUESTS["Status"], timeout_s=PATIENCE_S)
