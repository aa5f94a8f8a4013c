"""Who gets in, and how much of them: strangers first, callers who take too much, tokens that were taken back."""

import asyncio
import gc
import json
import logging
import sys
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.tokens import digest
from gavelx.service.api import admission, agents, auth, users
from gavelx.service.api.admission import STRANGERS_MAX, Admission
from gavelx.service.api.grpc_status import LINE_EVERY_S, LINES, Complaints
from tests.service.agents import FakeAgent, User, serving, spec, user_of
from tests.service.running import run
from tests.service.test_security import tokens_for
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.slow

LONG = 1e6
REFUSED = grpc.StatusCode.UNAUTHENTICATED


async def code_of(call: Any) -> tuple[grpc.StatusCode, str]:
    """How a call ends."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details() or ""
    return grpc.StatusCode.OK, ""


# -- strangers -------------------------------------------------------------------------------------------------

METHODS = [method.name for method in wire.DESCRIPTOR.services_by_name["Scheduler"].methods]


@pytest.mark.parametrize("token", ["", "Bearer nonsense", "Bearer "])
def test_not_a_byte_of_a_strangers_message_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    tokens_for(tmp_path, ada="user")
    read = list[Any]()
    monkeypatch.setattr(Admission, "_bytes", lambda *of: read.append(of))
    monkeypatch.setattr(agents, "_first", read.append)
    words = wire.SubmitRequest(jobs=[wire.JobSpec(command=[""] * 1_000_000)]).SerializeToString() * 5

    async def main() -> None:
        async with serving(tmp_path / "state", tokens=str(tmp_path / "tokens.json")) as service:
            async with user_of(service) as stranger:
                header = (("authorization", token),) if token else ()
                for method in METHODS:
                    call = stranger.channel.unary_unary(f"/gavelx.v1.Scheduler/{method}")
                    assert (await code_of(call(words, metadata=header)))[0] is REFUSED, method
                attend = stranger.channel.stream_unary("/gavelx.v1.Agents/Attend")
                assert (await code_of(attend(iter([words[:1_000_000]]), metadata=header)))[0] is REFUSED
                assert not read
                calls = service.metrics.registry.get_sample_value
                for method in [*METHODS, "Attend"]:
                    assert calls("gavelx_calls_total", {"method": method, "code": "UNAUTHENTICATED"}) == 1

    run(main())


def test_the_health_service_takes_small_messages(tmp_path: Path) -> None:
    tokens_for(tmp_path, ada="user")

    async def main() -> None:
        async with serving(tmp_path / "state", tokens=str(tmp_path / "tokens.json")) as service:
            async with user_of(service) as stranger:
                for method in ("Check", "Watch"):
                    ask = stranger.channel.unary_stream(f"/grpc.health.v1.Health/{method}")
                    assert await ask(b"").read() == b"\x08\x01"
                    name = b"\x0a" + bytes([len("gavelx.v1.Agents")]) + b"gavelx.v1.Agents"
                    assert await ask(name).read() == b"\x08\x01"
                    for huge in (bytes(STRANGERS_MAX + 1), b"\x12\x00" * 7_000_000):
                        code, problem = await code_of(ask(huge).read())
                        assert code is grpc.StatusCode.INVALID_ARGUMENT, method
                        assert problem == f"a message of {len(huge)} bytes; expected at most {STRANGERS_MAX}"

    run(main())


def test_a_stranger_holds_so_many_watches_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "STREAMS", 2)

    async def main() -> None:
        async with serving(tmp_path / "state") as service, user_of(service) as stranger:
            watch = stranger.channel.unary_stream("/grpc.health.v1.Health/Watch")
            calls = [watch(b"") for _ in range(2)]
            assert [await call.read() for call in calls] == [b"\x08\x01"] * 2
            assert (await code_of(watch(b"").read()))[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
            calls[0].cancel()
            await until(lambda: sum(service.admission.streams._count.values()) == 1, "one stream is counted")
            assert await watch(b"").read() == b"\x08\x01"

    run(main())


# -- callers who take too much ---------------------------------------------------------------------------------


def test_a_caller_who_keeps_us_waiting_keeps_nobody_else_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "READ_AT_ONCE", 2)
    monkeypatch.setattr(admission, "READ_S", PATIENCE_S)
    texts = tokens_for(tmp_path, ada="user", bob="user")

    async def main() -> None:
        async with serving(tmp_path / "state", tokens=str(tmp_path / "tokens.json")) as service:
            ada, bob = (User(service.address, texts[owner]) for owner in ("ada", "bob"))
            begin = ada.channel.stream_unary("/gavelx.v1.Scheduler/Status")
            silent = [begin(metadata=ada.access.metadata) for _ in range(2)]
            reading = service.admission._reading
            await until(lambda: "ada" in reading and reading["ada"].locked(), "ada's message is being read")
            third = asyncio.create_task(ada.jobs())
            await bob.jobs()
            assert not third.done()
            silent[0].cancel()
            assert await third == []
            monkeypatch.setattr(admission, "READ_S", 0.0)
            late = begin(metadata=ada.access.metadata)
            assert await code_of(late) == (
                grpc.StatusCode.INVALID_ARGUMENT,
                "no message came; expected one within 0 s",
            )
            for user in (ada, bob):
                await user.close()

    run(main())


def test_large_messages_of_a_caller_are_worked_on_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work, most, check = list[object](), list[int](), admission._check_fields

    async def counted(*of: Any) -> None:
        at_work.append(of)
        most.append(len(at_work))
        await check(*of)
        at_work.remove(of)

    monkeypatch.setattr(admission, "_check_fields", counted)
    large = spec(LONG, environment={"A": "x" * 50_000})

    async def main() -> None:
        async with serving(tmp_path / "state") as service, user_of(service) as user:
            ids = await asyncio.gather(*(user.submit(large, large) for _ in range(6)))
            assert sorted(job_id for pair in ids for job_id in pair) == list(range(12))
            assert most == [1] * 6

    run(main())


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("Submit", wire.SubmitRequest(version=1, jobs=[spec()] * 10_001)),
        ("Status", wire.StatusRequest(version=1, job_ids=[0] * 20_000)),
        ("Logs", wire.LogsRequest(version=1, job_id=77)),
    ],
)
def test_a_message_that_is_refused_is_gone_with_its_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, request_: Any
) -> None:
    """Not when the garbage collector comes by, which does not know how large it is."""
    messages = list[Any]()

    def decoded(read: Any, data: bytes) -> Any:
        messages.append(read(data))
        return messages[0]

    monkeypatch.setattr(admission, "decoded", decoded)

    async def main() -> None:
        async with serving(tmp_path / "state") as service, user_of(service) as user:
            gc.disable()
            try:
                call = user.channel.unary_unary(f"/gavelx.v1.Scheduler/{method}")
                assert (await code_of(call(request_.SerializeToString())))[0] is not grpc.StatusCode.OK
                await until(lambda: sys.getrefcount(messages[0]) == 2, "the message is let go of")
            finally:
                gc.enable()

    run(main())


def test_a_user_reads_so_many_outputs_and_leaves_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "STREAMS", 3)
    texts = tokens_for(tmp_path, ada="user", bob="user")

    async def main() -> None:
        async with serving(tmp_path / "state", tokens=str(tmp_path / "tokens.json")) as service:
            ada, bob = (User(service.address, texts[owner]) for owner in ("ada", "bob"))
            open_now = service.admission.streams._count

            def follow(user: User, job_id: int) -> Any:
                request = wire.LogsRequest(version=1, job_id=job_id, follow=True)
                return user.stub.Logs(request, metadata=user.access.metadata)

            (mine,), (other,) = await ada.submit(spec(LONG)), await bob.submit(spec(LONG))
            calls = [follow(ada, mine) for _ in range(3)]
            await until(lambda: open_now["Logs ada"] == 3, "ada reads three logs")
            code, problem = await code_of(follow(ada, mine).read())
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert problem == "3 calls of Logs are open for ada already"
            theirs = follow(bob, other)
            await until(lambda: open_now["Logs bob"] == 1, "bob reads one")
            calls[0].cancel()
            await until(lambda: open_now["Logs ada"] == 2, "one of hers has ended")
            again = follow(ada, mine)
            await until(lambda: open_now["Logs ada"] == 3, "ada reads three logs")
            for call in (*calls, theirs, again):
                call.cancel()
            await until(lambda: not open_now, "all have ended")
            for user in (ada, bob):
                await user.close()

    run(main())


# -- tokens that were taken back -------------------------------------------------------------------------------


def without(file: Path, text: str, **instead: str) -> None:
    """Take a token back, or say something else of it."""
    entries = json.loads(file.read_text())["tokens"]
    kept = [entry for entry in entries if entry["sha256"] != digest(text)]
    changed = [entry | instead for entry in entries if entry["sha256"] == digest(text)]
    file.write_text(json.dumps({"tokens": kept + (changed if instead else [])}))


@pytest.mark.parametrize(
    ("instead", "told"),
    [
        ({}, "no token, or one that is not known"),
        ({"owner": "eve"}, "the token is another one's now"),
        ({"expires": "2020-01-01T00:00:00+00:00"}, "the token has expired"),
    ],
    ids=["taken back", "of another owner", "expired"],
)
def test_open_streams_end_with_their_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instead: dict[str, str], told: str
) -> None:
    monkeypatch.setattr(auth, "LOOK_S", 0.0)
    monkeypatch.setattr(admission, "LOOK_S", 0.05)
    texts = tokens_for(tmp_path, ada="user", bob="user", old="agent", new="agent")
    file = tmp_path / "tokens.json"

    async def main() -> None:
        async with serving(tmp_path / "state", tokens=str(file)) as service:
            ada, bob = (User(service.address, texts[owner]) for owner in ("ada", "bob"))
            agents = [
                FakeAgent("", name, access=User(service.address, texts[name]).access) for name in ("old", "new")
            ]
            for agent in agents:
                agent.connect()
            await until(lambda: all(agent.server_id >= 0 for agent in agents), "all agents are in")
            streams = []
            for user in (ada, bob):
                (job_id,) = await user.submit(spec(LONG))
                request = wire.LogsRequest(version=1, job_id=job_id, follow=True)
                streams.append(user.stub.Logs(request, metadata=user.access.metadata))
            hers, his = streams
            await until(lambda: len(service.admission.streams._open) == 4, "four streams are open")
            without(file, texts["old"], **instead)
            await until(
                lambda: any(told in said or said.startswith("INTERNAL") for said in agents[0].refusals),
                "the agent is told",  # or its stream breaks before the reason comes through, as it is writing
                lambda: agents[0].refusals,
            )
            await agents[0].cut()  # it would come again, and eve may
            await until(lambda: len(service.admission.streams._open) == 3, "its stream is closed")
            without(file, texts["ada"], **instead)

            async def to_the_end() -> None:
                async for _ in hers:
                    pass

            code, problem = await code_of(asyncio.wait_for(to_the_end(), PATIENCE_S))
            assert code is REFUSED and told in problem
            await until(lambda: len(service.admission.streams._open) == 2, "her stream is closed")
            assert not his.done() and not agents[1].refusals
            his.cancel()
            for agent in agents:
                await agent.cut(jobs_too=True)
            for user in (ada, bob):
                await user.close()

    run(main())


def test_a_reader_who_takes_nothing_is_cut_off_with_their_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The words cannot reach them."""
    monkeypatch.setattr(auth, "LOOK_S", 0.0)
    monkeypatch.setattr(admission, "LOOK_S", 0.05)
    monkeypatch.setattr(admission, "CLOSE_S", 0.1)
    text = tokens_for(tmp_path, ada="user")["ada"]

    async def flood(call: Any, request: Any) -> Any:
        while True:
            yield wire.LogChunk(text=bytes(60_000))

    monkeypatch.setitem(users.METHODS, "Logs", ("user", flood))

    async def main() -> None:
        async with serving(tmp_path / "state", tokens=str(tmp_path / "tokens.json")) as service:
            async with user_of(service, token=text) as ada:
                stalled = ada.stub.Logs(wire.LogsRequest(version=1), metadata=ada.access.metadata)
                await stalled.read()
                assert len(service.admission.streams._open) == 1
                without(tmp_path / "tokens.json", text)
                await until(lambda: not service.admission.streams._open, "every stream is closed")
                assert not service.admission.streams._count

    run(main())


@pytest.mark.parametrize("method", ["Status", "Logs"])
def test_a_mistake_of_ours_says_nothing_of_our_insides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Of a method that answers once, and of one that streams."""

    async def once(call: Any, request: Any) -> Any:
        raise KeyError("secret")

    async def stream(call: Any, request: Any) -> Any:
        raise KeyError("secret")
        yield

    monkeypatch.setitem(users.METHODS, method, ("user", stream if method == "Logs" else once))

    async def main() -> None:
        async with serving(tmp_path / "state") as service, user_of(service) as user:
            ask = user.channel.unary_stream(f"/gavelx.v1.Scheduler/{method}")
            code, problem = await code_of(ask(wire.StatusRequest(version=1).SerializeToString()).read())
            assert code is grpc.StatusCode.INTERNAL and "a mistake of ours" in problem, problem
            counted = service.metrics.registry.get_sample_value
            assert counted("gavelx_calls_total", {"method": method, "code": "INTERNAL"}) == 1

    run(main())


# -- lines in the log ------------------------------------------------------------------------------------------


def test_a_flood_of_refused_calls_is_logged_at_a_limited_rate(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = [0.0]
    monkeypatch.setattr("gavelx.service.api.grpc_status.time.monotonic", lambda: now_s[0])
    complaints = Complaints(logging.getLogger("gavelx"))
    with caplog.at_level(logging.INFO):
        for n in range(1000):
            complaints.say("UNAUTHENTICATED", logging.INFO, "call %d refused", n)
        assert caplog.messages == [f"call {n} refused" for n in range(LINES)]
        complaints.say("NOT_FOUND", logging.INFO, "another one refused")
        assert caplog.messages[-1] == "another one refused"
        now_s[0] += LINE_EVERY_S
        for n in range(9):
            complaints.say("UNAUTHENTICATED", logging.INFO, "late %d", n)
        assert caplog.messages[LINES + 1 :] == [
            f"late 0 ({1000 - LINES} more of status UNAUTHENTICATED before it)"
        ]


def test_strangers_do_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tokens_for(tmp_path, ada="user")

    async def main() -> None:
        async with serving(tmp_path / "state", tokens=str(tmp_path / "tokens.json")) as service:
            async with user_of(service) as stranger:
                status = wire.StatusRequest(version=1)
                for _ in range(20):
                    codes = await asyncio.gather(*(code_of(stranger.call("Status", status)) for _ in range(20)))
                    assert {code for code, _ in codes} == {REFUSED}

    with caplog.at_level(logging.INFO):
        run(main())
    assert LINES <= sum("UNAUTHENTICATED" in line for line in caplog.messages) < 100


def test_a_caller_who_leaves_before_the_refusal_leaves_no_traceback_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """grpc logs one for each status that it could not send, and strangers decide how many these are."""
    tokens_for(tmp_path, ada="user")

    async def gone(self: object, *_: object) -> None:
        raise grpc.aio.InternalError("Failed execute_batch")  # type: ignore[attr-defined]

    class Context:
        """That of a call whose status cannot be sent any more."""

        def __init__(self, context: Any) -> None:
            self.invocation_metadata, self.peer, self.abort = context.invocation_metadata, context.peer, gone

    real = Admission._call

    def call(self: Admission, *its: Any) -> Any:
        answered = real(self, *its)
        return lambda messages, context: answered(messages, Context(context))

    monkeypatch.setattr(Admission, "_call", call)

    async def main() -> None:
        async with serving(tmp_path / "state", tokens=str(tmp_path / "tokens.json")) as service:
            labels = {"method": "Status", "code": REFUSED.name}
            async with user_of(service) as stranger:
                call = asyncio.create_task(stranger.call("Status", wire.StatusRequest(version=1)))
                counted = service.metrics.registry.get_sample_value
                await until(lambda: counted("gavelx_calls_total", labels), "the call is refused")
                call.cancel()

    run(main())
    assert "Traceback" not in caplog.text
