"""Who gets in, who sees what; TLS, tokens, certificates of agents."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import grpc.aio
import pytest

from gavelx.errors import InputFileError, OptionError
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.certificates import make_certificates
from gavelx.rpc.channels import Access
from gavelx.rpc.tokens import Token, add_token, digest, new_token, read_tokens
from gavelx.service.api.auth import Guard, check_exposure, is_loopback
from gavelx.service.store.log import Log
from tests.service.agents import FakeAgent, User, serving, spec, tokens_for, user_of
from tests.service.running import run
from tests.waiting import until

LONG = 1e6


async def refused(user: User, method: str, request: object) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await user.call(method, request)
    return error.value.code()


def test_speeds_of_types_that_somebody_brought_are_his_and_the_operators(tmp_path: Path) -> None:
    texts = tokens_for(tmp_path, ada="user", bob="user", root="operator", machine="agent")

    async def main() -> None:
        async with serving(tmp_path / "state", tokens=str(tmp_path / "tokens.json")) as service:
            users = {name: User(service.address, text) for name, text in texts.items()}
            own = wire.JobSpec(job_type="secret", total_steps=5, command=["true"], steps_per_s={"v100": 7.0})
            await users["ada"].submit(own)
            seen = {}
            for name in ("ada", "bob", "root"):
                reply = await users[name].call("Speeds", wire.SpeedsRequest(version=1))
                seen[name] = {row["job_type"].partition("~")[0] for row in json.loads(reply.speeds_json)["rows"]}
            assert seen == {"ada": {"net", "secret"}, "bob": {"net"}, "root": {"net", "secret"}}
            request = wire.SpeedsRequest(version=1)
            assert await refused(users["machine"], "Speeds", request) is grpc.StatusCode.PERMISSION_DENIED
            for user in users.values():
                await user.close()

    run(main())


@pytest.mark.slow
def test_the_jobs_of_members_are_those_of_their_team(tmp_path: Path) -> None:
    """On one device, under weights of 1 to 3, two members of a team have an eighth each."""
    texts = tokens_for(tmp_path, **{"ml/ann": "user", "ml/bob": "user", "ops": "user", "machine": "agent"})
    shares = {"ml/ann": 0.125, "ml/bob": 0.125, "ops": 0.75}

    async def main() -> None:
        options = {
            "tokens": str(tmp_path / "tokens.json"),
            "policy": "hierarchical(max_min_fairness, ml=1, ops=3)",
        }
        async with serving(tmp_path / "state", **options) as service:
            users = {owner: User(service.address, texts[owner]) for owner in shares}
            for user in users.values():
                await user.submit(spec(LONG))

            async def promised() -> bool:
                (seen,) = zip(*[await user.jobs() for user in users.values()], strict=True)
                assert [job.owner for job in seen] == list(shares)
                return [job.promised_share for job in seen] == pytest.approx(list(shares.values()))

            async with FakeAgent(service.address, access=Access(service.address, texts["machine"])):
                await until(promised, "each has its part")
            for user in users.values():
                await user.close()

    run(main())


@pytest.mark.slow
def test_users_act_on_their_own_jobs_only_and_operators_on_all(tmp_path: Path) -> None:
    texts = tokens_for(tmp_path, ada="user", bob="user", root="operator", machine="agent")

    async def main() -> None:
        tokens = str(tmp_path / "tokens.json")
        async with serving(tmp_path / "state", tokens=tokens) as service:
            users = {name: User(service.address, text) for name, text in texts.items()}
            ada, bob, root = users["ada"], users["bob"], users["root"]
            (job_id,) = await ada.submit(spec(LONG))
            assert [job.owner for job in await ada.jobs()] == ["ada"]
            assert await bob.jobs() == []
            assert len(await root.jobs()) == 1
            cancel = wire.CancelRequest(version=1, job_id=job_id)
            assert await refused(bob, "Cancel", cancel) is grpc.StatusCode.NOT_FOUND
            explain = wire.ExplainRequest(version=1, job_id=job_id)
            assert await refused(bob, "Explain", explain) is grpc.StatusCode.NOT_FOUND
            assert (
                await refused(ada, "Drain", wire.DrainRequest(version=1, server="x"))
                is grpc.StatusCode.PERMISSION_DENIED
            )
            offer = wire.OfferRequest(version=1, server="x", devices=1)
            assert await refused(ada, "Offer", offer) is grpc.StatusCode.PERMISSION_DENIED
            policy = wire.SetPolicyRequest(version=1, policy="fifo")
            assert await refused(ada, "SetPolicy", policy) is grpc.StatusCode.PERMISSION_DENIED
            submit = wire.SubmitRequest(version=1, jobs=[spec()])
            assert await refused(users["machine"], "Submit", submit) is grpc.StatusCode.PERMISSION_DENIED
            assert (
                await refused(User(service.address, "nonsense"), "Submit", submit)
                is grpc.StatusCode.UNAUTHENTICATED
            )
            assert await refused(User(service.address), "Submit", submit) is grpc.StatusCode.UNAUTHENTICATED
            (other,) = await bob.submit(spec(request_id="same"))
            assert (await ada.submit(spec(request_id="same"))) != [other]
            async with FakeAgent("", access=users["ada"].access) as agent:
                await agent.until_refused("PERMISSION_DENIED")
            async with FakeAgent("", access=users["machine"].access):
                await bob.until("complete", other)
            assert (await root.call("Cancel", cancel)).state == "cancelled"
            for user in users.values():
                await user.close()

    run(main())


def test_a_token_that_expired_or_was_taken_back_is_good_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gavelx.service.api.auth.LOOK_S", 0.0)
    file = tmp_path / "tokens.json"
    old, expired = new_token("ada", "user", -1.0)
    add_token(file, expired)
    good = tokens_for(tmp_path, ada="user")["ada"]

    async def main() -> None:
        async with serving(tmp_path / "state", tokens=str(file)) as service:
            ada = User(service.address, good)
            await ada.submit(spec())
            status = wire.StatusRequest(version=1)
            late = User(service.address, old)
            with pytest.raises(grpc.aio.AioRpcError, match="expired"):
                await late.call("Status", status)
            file.write_text("{")  # whoever edits it is half done: nothing changes
            await ada.jobs()
            file.write_text('{"tokens": []}')
            assert await refused(ada, "Status", status) is grpc.StatusCode.UNAUTHENTICATED
            await ada.close()
            await late.close()

    run(main())


def test_no_token_is_ever_on_disk_or_in_the_log(tmp_path: Path) -> None:
    text = tokens_for(tmp_path, ada="user")["ada"]

    async def main() -> None:
        async with serving(tmp_path / "state", tokens=str(tmp_path / "tokens.json")) as service:
            async with user_of(service, token=text) as ada:
                await ada.submit(spec())

    run(main())
    assert text not in (tmp_path / "tokens.json").read_text()
    assert (tmp_path / "tokens.json").stat().st_mode & 0o077 == 0
    log = Log(str(tmp_path / "state"), read_only=True)
    assert not any(text in record.body or digest(text) in record.body for record in log.read())
    log.close()


@pytest.mark.slow
def test_tls_with_tokens_and_agents_by_certificate(tmp_path: Path) -> None:
    pairs = make_certificates(tmp_path / "certs", ["localhost", "127.0.0.1"], ["one", "two"])
    strangers = make_certificates(tmp_path / "other", ["localhost"], ["one"])
    text = tokens_for(tmp_path, ada="operator")["ada"]
    ca, server = str(pairs["ca"].certificate), pairs["server"]

    async def main() -> None:
        options = {
            "tokens": str(tmp_path / "tokens.json"),
            "certificate": str(server.certificate),
            "key": str(server.key),
            "agent_ca": ca,
            "agent_listen": "127.0.0.1:0",
        }
        async with serving(tmp_path / "state", **options) as service:
            async with user_of(service, token=text, ca=ca) as ada:
                (job_id,) = await ada.submit(spec())

                def access(name: str, of: dict) -> Access:  # type: ignore[type-arg]
                    pair = of[name]
                    return Access(service.agent_address, None, ca, str(pair.certificate), str(pair.key))

                async with FakeAgent("", "one", access=access("two", pairs)) as wrong_name:
                    await wrong_name.until_refused("UNAUTHENTICATED: the certificate is for two")
                async with FakeAgent("", "one", access=access("one", strangers)) as stranger:
                    await stranger.until_refused()
                    assert stranger.server_id == -1
                async with FakeAgent("", "one", access=Access(service.address, text, ca)) as no_certificate:
                    await no_certificate.until_refused("UNAUTHENTICATED")
                assert not await ada.servers()
                async with FakeAgent("", "one", access=access("one", pairs)):
                    await ada.until("complete", job_id)
            async with user_of(service, token=text) as plain:  # speaks no TLS
                assert await refused(plain, "Status", wire.StatusRequest(version=1)) is grpc.StatusCode.UNAVAILABLE
            async with user_of(service, token=text, ca=str(strangers["ca"].certificate)) as fooled:
                assert (
                    await refused(fooled, "Status", wire.StatusRequest(version=1)) is grpc.StatusCode.UNAVAILABLE
                )
            async with user_of(service, token=text, ca=ca) as ada:
                assert len(await ada.jobs()) == 1

    run(main())


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("tokens", [False, True])
@pytest.mark.parametrize(
    ("address", "here"),
    [
        *(("127.0.0.1:7", True), ("[::1]:7", True), ("localhost:7", True), ("127.9.9.9:0", True)),
        *(("0.0.0.0:7", False), ("[::]:7", False), ("example.org:7", False), (":7", False), ("10.0.0.1:7", False)),
        ("localhost.example.org:7", False),
    ],
)
def test_beyond_loopback_only_with_tls_and_tokens(address: str, here: bool, tokens: bool, tls: bool) -> None:
    assert is_loopback(address) is here
    if here or (tls and tokens):
        check_exposure(address, tls=tls, tokens=tokens)
    else:
        with pytest.raises(OptionError, match="can be reached from other machines"):
            check_exposure(address, tls=tls, tokens=tokens)


def test_calls_are_limited_by_caller(tmp_path: Path) -> None:
    class Context:
        def __init__(self, token: str) -> None:
            self.token = token

        def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
            return (("authorization", f"Bearer {self.token}"),)

    texts = tokens_for(tmp_path, ada="user", bob="user")
    guard = Guard(str(tmp_path / "tokens.json"), calls_per_s=0.001, burst=3)
    for _ in range(3):
        assert guard.enter(Context(texts["ada"])).owner == "ada"
    with pytest.raises(Exception, match="calls/s"):
        guard.enter(Context(texts["ada"]))
    assert guard.enter(Context(texts["bob"])).owner == "bob"


@pytest.mark.parametrize("text", ['{"tokens": 3}', "{", None])
def test_a_file_that_holds_no_tokens_any_more_takes_none_back_and_is_said_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    class Context:
        def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
            return (("authorization", f"Bearer {token}"),)

    monkeypatch.setattr("gavelx.service.api.auth.LOOK_S", 0.0)
    token, file = tokens_for(tmp_path, ada="user")["ada"], tmp_path / "tokens.json"
    guard = Guard(str(file))
    file.unlink() if text is None else file.write_text(text)
    for _ in range(3):
        assert guard.caller(Context()).owner == "ada"
    (record,) = caplog.records
    assert "tokens.json" in record.message and "stay good" in record.message


@pytest.mark.parametrize(
    "entry",
    [
        "{}",
        '{"sha256": "00", "owner": "a", "role": "user"}',
        '{"sha256": "%s", "owner": "a", "role": "king"}' % ("0" * 64),
        '{"sha256": "%s", "owner": "a", "role": "user", "expires": "2030-01-01"}' % ("0" * 64),
        '{"sha256": "%s", "owner": 5, "role": "user"}' % ("0" * 64),
        "7",
    ],
)
def test_a_file_of_tokens_that_cannot_be_used_is_said_so(tmp_path: Path, entry: str) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(f'{{"tokens": [{entry}]}}')
    with pytest.raises(InputFileError, match="token 0 cannot be used"):
        read_tokens(file)
    for text in ("[]", '{"tokens": 3}', "[" * 100_000):
        file.write_text(text)
        with pytest.raises(InputFileError, match="cannot be read as tokens"):
            read_tokens(file)
    with pytest.raises(OptionError, match="no role is called 'king'"):
        new_token("ada", "king", None)


def test_a_token_is_kept_as_its_hash(tmp_path: Path) -> None:
    text, token = new_token("ada", "user", 1.0)
    add_token(tmp_path / "t.json", token)
    assert read_tokens(tmp_path / "t.json") == {digest(text): token}
    assert not token.is_expired()
    assert Token(digest(text), "ada", "user", "2020-01-01T00:00:00+00:00").is_expired()
    assert text not in json.dumps((tmp_path / "t.json").read_text())


def test_tokens_that_are_made_at_once_are_all_in_the_file(tmp_path: Path) -> None:
    file, tokens = tmp_path / "t.json", [new_token(f"user-{n}", "user", None)[1] for n in range(16)]
    with ThreadPoolExecutor(len(tokens)) as pool:
        list(pool.map(lambda token: add_token(file, token), tokens))
    assert set(read_tokens(file).values()) == set(tokens)
