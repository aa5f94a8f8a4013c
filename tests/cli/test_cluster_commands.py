"""The commands of a running cluster, against a service in this process; and without its libraries."""

import json
import logging
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from gavelx.cli import main
from gavelx.cli.clients import _plain
from gavelx.cli.cluster_commands import EXAMPLES
from gavelx.cli.cluster_options import ServeOptions
from gavelx.cli.commands import app
from gavelx.cli.serving import _configure, is_worth_a_line, open_as_many_files_as_allowed
from gavelx.rpc import wire_pb2 as wire
from tests.service.agents import configuration
from tests.service.background import Background
from tests.waiting import wait_until


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Background]:
    running = Background(tmp_path / "state")
    monkeypatch.setenv("GAVELX_SCHEDULER", running.address)
    yield running
    running.close()


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What a command prints; its errors, where it fails."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    output = capsys.readouterr()
    assert end.value.code == code, output
    return output.err if code else output.out


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(said(capsys, *arguments, "--json"))


def explained_once_it_runs(capsys: pytest.CaptureFixture[str]) -> Any:
    explained = lambda: told(capsys, "explain", "0")  # noqa: E731
    wait_until(lambda: explained()["state"] == "running", "job 0 runs", explained)
    return explained()


@pytest.mark.slow
def test_a_job_from_submission_to_replay(
    service: Background, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "submit", "--type", "net", "--steps", "50", "--name", "mine", "--", "true", "-x") == "0\n"
    options = ["--type", "net", "--steps", "1e6", "--count", "2", "--request-id", "r", "--env", "A=b=c"]
    twice = [json.loads(said(capsys, "submit", *options, "--json", "--", "true"))["job_ids"] for _ in range(2)]
    assert twice == [[1, 2], [1, 2]]
    job = lambda: told(capsys, "status", "0")["jobs"][0]  # noqa: E731
    wait_until(lambda: job()["state"] == "complete", "job 0 is complete", job)
    status = told(capsys, "status", "--all")
    assert [(job["job_id"], job["name"], job["owner"]) for job in status["jobs"]] == [
        (i, n, "local") for i, n in enumerate(("mine", "", ""))
    ]
    assert status["servers"][0]["name"] == "one" and status["policy"] == "max_min_fairness"
    table = said(capsys, "status")
    assert "one" in table and "max_min_fairness" in table
    assert told(capsys, "explain", "1")["policy"] == "max_min_fairness"
    assert "promised so far" in said(capsys, "explain", "1")
    decisions = [decision["what"] for decision in told(capsys, "explain", "0")["history"]]
    assert decisions[0] == "submitted" and decisions[-1].endswith("steps are safe")
    assert said(capsys, "explain", "0", "--history").endswith(f"  {decisions[-1]}\n")
    assert decisions[-1] not in said(capsys, "explain", "0")
    assert (
        said(capsys, "explain", "0").startswith("job 0 is complete\n")
        and told(capsys, "explain", "0")["took_s"] > 0
    )
    assert said(capsys, "logs", "0") == "job 0 on one\n"
    assert json.loads(said(capsys, "logs", "0", "--json"))["text"] == "job 0 on one\n"
    assert told(capsys, "cancel", "1") == {"job_id": 1, "state": "cancelled"}
    assert said(capsys, "cancel", "2") == "job 2 is cancelled\n"
    assert told(capsys, "policy", "set", "fifo") == {"policy": "fifo", "before": "max_min_fairness"}
    assert "takes no more leases" in said(capsys, "drain", "one")
    assert told(capsys, "drain", "one", "--undo")["drained"] is False
    assert told(capsys, "offer", "one", "0", "--wait")["leases"] == 0
    assert "0 of 0 (keeps 1)" in said(capsys, "status")
    assert said(capsys, "offer", "one", "1") == "one lends 1 of its devices\n"
    document = json.loads(said(capsys, "replay", str(tmp_path / "state"), "--policy", "fifo", "--json", "-"))
    assert (document["jobs_total"], document["jobs_completed"]) == (1, 1)
    recorded = document["recorded"]
    assert (recorded["jobs_completed"], recorded["jobs_cancelled"]) == (1, 2)
    assert document["makespan_s"] == 0.5 < recorded["makespan_s"]
    other = ["--cluster", "k80=1", "--prices", "k80=3600"]
    slower = json.loads(said(capsys, "replay", str(tmp_path / "state"), "--policy", "fifo", *other, "--json", "-"))
    assert (slower["makespan_s"], slower["cost_usd"]) == (1.0, pytest.approx(1.0))
    newer = ["--cluster", "h100=1", "--prices", "h100=3600"]
    faster = json.loads(said(capsys, "replay", str(tmp_path / "state"), "--policy", "fifo", *newer, "--json", "-"))
    assert faster["makespan_s"] < 0.5
    assert [row["estimated"] for row in faster["speeds"]] == [1]
    low, high = faster["intervals"]["makespan_s"]
    assert low < faster["makespan_s"] < high and faster["speed_samples"] == 19
    once = ["replay", str(tmp_path / "state"), "--policy", "fifo", *newer, "--speed-samples", "0", "--json", "-"]
    assert faster["makespan_s"] == (alone := json.loads(said(capsys, *once)))["makespan_s"]
    assert "intervals" not in alone and "intervals" not in slower
    assert "h100" in said(
        capsys, "replay", str(tmp_path / "state"), "--policy", "fifo", *newer, "--strict-speeds", code=2
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["submit", "--type", "nett", "--steps", "5", "--", "true"], "did you mean 'net'"),
        (["submit", "--type", "net", "--steps", "5", "--env", "x", "--", "true"], "--env: cannot read 'x'"),
        (
            ["submit", "--type", "net", "--steps", "5", "--speed", "a=b", "--", "true"],
            "--speed: 'b' on a is no number",
        ),
        (
            ["submit", "--type", "net", "--steps", "5", "--speed", "V100=1", "--speed", "v100=2", "--", "true"],
            "--speed: 'v100' is named twice",
        ),
        (
            ["submit", "--type", "net", "--steps", "5", "--preemptible", "maybe", "--", "true"],
            "--preemptible: 'maybe' is not known; expected auto, yes, no",
        ),
        (["explain", "77"], "no job has the id 77"),
        (["cancel", "77"], "no job has the id 77"),
        (["logs", "77"], "no job has the id 77"),
        (["drain", "nobody"], "no server is called 'nobody'"),
        (["offer", "nobody", "1"], "no server is called 'nobody'"),
        (["offer", "one", "9"], "9 devices: the server one has 1"),
        (["policy", "set", "fifoo"], "did you mean 'fifo'"),
        (["status", "--token-file", "/nowhere"], "cannot read /nowhere"),
        (["status", "--ca", "/nowhere"], "--ca: cannot read /nowhere"),
    ],
)
def test_a_users_mistake_is_one_message(
    service: Background, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    text = said(capsys, *arguments, code=2)
    assert message in text
    assert text.count("\n") == 1


def test_a_scheduler_out_of_reach_is_our_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot reach the scheduler" in said(capsys, "status", "--scheduler", "127.0.0.1:1", code=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "--listen", "0.0.0.0:0"], "can be reached from other machines"),
        (["serve", "--listen", "127.0.0.1:99999"], "cannot read the port"),
        (["serve", "--listen", "nonsense"], "--listen: cannot read 'nonsense'; expected HOST:PORT"),
        (["serve", "--valid-for", "1"], "leases of three heartbeats or more"),
        (["serve", "--policy", "fifoo", "--listen", "127.0.0.1:0"], "did you mean 'fifo'"),
        (["serve", "--tokens", "/nowhere"], "cannot be read as tokens (No such file or directory)"),
        (["serve", "--state", "nonsense://x"], "nonsense"),
        (["replay", "nowhere", "--policy", "fifo"], "there is no log"),
        (["token", "t.json", "--owner", "../x"], "--owner is '../x'"),
        (["token", "t.json", "--owner", "x", "--role", "king"], "no role is called 'king'"),
        (["serve", "--max-weight", "0.5"], "--max-weight: 0.5; expected 1 to 1e+12 for a job"),
        (["serve", "--max-weight", "nan"], "--max-weight: nan; expected 1 to 1e+12 for a job"),
        (["serve", "--protect-for", "-1"], "--protect-for: -1 s without preemption; expected 0 to 1e+09 seconds"),
        (["certs", "c", "--agent", "../x"], "--agent is '../x'"),
    ],
)
def test_what_cannot_be_served_is_said_before_anything_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in said(capsys, *arguments, code=2)


def test_a_job_says_whether_it_may_be_preempted(service: Background, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["submit", "--type", "net", "--steps", "1e6", "--preemptible", "no", "--", "true"]
    assert said(capsys, *options) == "0\n"
    document = explained_once_it_runs(capsys)
    assert (document["preemptible"], document["protected"], document["lost_s"]) == ("no", True, 0.0)
    assert "it is not preempted, as was asked for" in document["why"]
    assert "work lost" in said(capsys, "explain", "0")
    assert told(capsys, "status")["jobs"][0]["protected"] is True


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:70700", "127.0.0.1:http"])
def test_an_address_without_a_port_is_refused(capsys: pytest.CaptureFixture[str], address: str) -> None:
    told = said(capsys, "status", "--scheduler", address, code=2)
    assert f"--scheduler: cannot read '{address}'; expected HOST:PORT" in told


@pytest.mark.parametrize("content", [b"", b"two words\n", b"\xff\xfe", "t\u00f6ken".encode()])
def test_a_file_without_a_token_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    file.chmod(0o600)
    told = said(capsys, "status", "--token-file", str(file), code=2)
    assert (
        told
        == f"gavelx: --token-file {file}: this is no token; expected one word, as gavelx token --out writes it\n"
    )
    monkeypatch.setenv("GAVELX_TOKEN", "two words")
    assert "gavelx: GAVELX_TOKEN: this is no token" in said(capsys, "status", code=2)
    file.write_text("token")
    told = said(capsys, "status", "--token-file", str(file), "--ca", str(file), code=2)
    assert told == f"gavelx: --ca: {file} holds no certificate or key; expected a PEM file\n"


def test_options_that_would_count_for_nothing_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--weight: a weight of 0; expected a number above 0" in said(
        capsys, "submit", "--weight", "0", "--", "true", code=2
    )
    assert "Try: --slo 2 --duration SECONDS" in said(capsys, "submit", "--slo", "2", "--", "true", code=2)


def test_servers_of_a_log_are_as_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["replay", "state", "--policy", "fifo", "--devices-per-server", "8"]
    assert "--devices-per-server: the servers are those of the log" in said(capsys, *words, code=2)


def test_words_in_another_encoding_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    latin = os.fsdecode(b"tr\xe4in.py")
    for words in (["--", "python", latin], ["--env", f"A={latin}", "--", "true"]):
        assert r"tr\xe4in.py' is no UTF-8" in said(capsys, "submit", *words, code=2)


def test_a_job_is_submitted_in_parts(service: Background, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["submit", "--type", "net", "--steps", "1e6", "--workers", "1:4", "--parts", "6", "--", "true"]
    assert said(capsys, *options) == "0\n"
    (job,) = told(capsys, "status", "0")["jobs"]
    assert (job["elasticity"], job["determinism"], job["order"]) == ("workers:1-4/6", "", "")
    document = explained_once_it_runs(capsys)
    assert document["size"] == {"devices": 1, "batch": 0}
    assert [size["devices"] for size in document["sizes"]] == [1]
    (size,) = told(capsys, "status", "0")["jobs"][0]["sizes"]
    assert (size["devices"], size["batch"], size["accelerator"]) == (1, 0, document["sizes"][0]["accelerator"])
    assert size["share"] == pytest.approx(document["sizes"][0]["share"])
    words = said(capsys, "explain", "0")
    assert "size now" in words and "1 device" in words
    assert "the policy keeps to the sizes as submitted" in " ".join(words.split())
    options[options.index("6")] = "3"
    assert "--parts: 3 parts for 4 devices" in said(capsys, *options, code=2)


def test_other_rules_than_the_logs_are_refused(
    service: Background, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service.close()
    service.close = lambda: None  # type: ignore[method-assign]
    text = said(
        capsys, "serve", "--state", str(tmp_path / "state"), "--round", "7", "--listen", "127.0.0.1:0", code=2
    )
    assert "round_s is 1.0, not 7.0" in text


@pytest.mark.slow
def test_help_and_simulations_load_neither_grpc_nor_an_estimator() -> None:
    code = (
        "import sys\nfrom gavelx.cli import main\n"
        "try:\n    main(['simulate', '--policy', 'fifo', '--cluster', 'v100=1', '--jobs', '1'])\n"
        "except SystemExit: pass\n"
        "try:\n    main(['serve', '--help'])\nexcept SystemExit: pass\n"
        "heavy = {'grpc', 'sqlalchemy', 'google', 'cryptography', 'prometheus_client'}\n"
        "print(sorted((heavy | {'gavelx.estimator.completion'}) & sys.modules.keys()))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("command", [["serve"], ["status"], ["certs", "x"], ["replay", "x", "--policy", "fifo"]])
def test_without_the_extra_the_message_names_it(command: list[str]) -> None:
    code = (
        "import sys\nfor name in ('grpc', 'sqlalchemy', 'google.protobuf', 'cryptography'):\n"
        "    sys.modules[name] = None\n"
        f"from gavelx.cli import main\nmain({command!r})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 2, run.stderr
    assert "pip install 'gavelx[service]'" in run.stderr


def test_certificates_that_are_there_are_said_to_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "certs")
    assert "stays as it is" not in said(capsys, "certs", folder, "--agent", "one")
    assert said(capsys, "certs", folder, "--agent", "one", "--agent", "two").count("stays as it is") == 3
    made = {name: each["made"] for name, each in told(capsys, "certs", folder, "--agent", "three").items()}
    assert made == {"ca": False, "server": False, "three": True}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_every_command_has_an_example_that_it_understands(name: str) -> None:
    """Options and arguments are checked by the command's own parser; nothing is run."""
    program, command, *words = shlex.split(EXAMPLES[name])
    assert (program, command) == ("gavelx", name)
    typer.main.get_command(app).commands[name].make_context(name, words)  # type: ignore[attr-defined]


def test_a_name_of_digits_is_a_name() -> None:
    job = wire.JobStatus(job_id=3, name="007", owner="42", servers=["12"], reason="1")
    document = _plain(wire.StatusReply(jobs=[job], rounds=5, servers=[wire.ServerStatus(server_id=2, name="12")]))
    (said,) = document["jobs"]
    seen = [said[name] for name in ("job_id", "name", "owner", "servers", "reason")]
    assert seen == [3, "007", "42", ["12"], "1"]
    (server,) = document["servers"]
    assert (document["rounds"], server["name"], server["server_id"]) == (5, "12", 2)


def test_any_reason_can_be_shown_as_json() -> None:
    assert _plain(wire.StatusReply(jobs=[wire.JobStatus(job_id=3, reason="²")]))["jobs"][0]["reason"] == "²"


def test_a_new_log_lets_jobs_be_resized_and_an_old_one_stays_as_it_was() -> None:
    configure, before = _configure(ServeOptions()), configuration()
    assert configure(None).rules.overheads.default.resize_s == 0.0
    assert configure(before).rules.overheads == before.rules.overheads
    asked = _configure(ServeOptions(overheads="restart=30,resize=2"))(before).rules.overheads.default
    assert (asked.restart_s, asked.resize_s) == (30.0, 2.0)


def test_a_scheduler_has_as_many_connections_as_it_may_have() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
        open_as_many_files_as_allowed()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_caller_who_left_is_no_line_in_the_log_and_a_mistake_is() -> None:
    """The first text is what gRPC 1.85 has logged in such a case."""
    left, failed = (
        logging.LogRecord("grpc._cython.cygrpc", logging.ERROR, "server.pyx", 1, words, (), None)
        for words in (
            "ExecuteBatchError raised in core by servicer method [/gavelx.v1.Scheduler/Logs]",
            "Unexpected [KeyError] raised by servicer method [/gavelx.v1.Scheduler/Logs]",
        )
    )
    assert (is_worth_a_line(left), is_worth_a_line(failed)) == (False, True)
