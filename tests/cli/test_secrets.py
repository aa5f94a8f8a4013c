"""Tokens, keys and passwords: who can read them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gavelx.cli import main
from gavelx.rpc.tokens import digest, read_tokens
from gavelx.service.store.log import Log
from tests.service.test_log import wakes
from tests.waiting import PATIENCE_S

URL = "postgresql://ada:s3cretpw@127.0.0.1:1/gavelx"


def said(capsys: pytest.CaptureFixture[str], *arguments: Any, code: int = 0) -> tuple[str, str]:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    output = capsys.readouterr()
    assert (end.value.code or 0) == code, output
    return output.out, output.err


@pytest.fixture(autouse=True)
def usual_umask() -> Any:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize("there", [None, 0o644, 0o666])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_token_goes_into_a_file_that_only_its_owner_can_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], there: int | None, as_json: bool
) -> None:
    tokens, out = tmp_path / "tokens.json", tmp_path / "ada.token"
    if there is not None:
        out.write_text("old")
        out.chmod(there)
    words = ["token", tokens, "--owner", "ada", "--out", out, *(["--json"] if as_json else [])]
    printed, told = said(capsys, *words)
    text = out.read_text().strip()
    assert [token.owner for token in read_tokens(tokens).values()] == ["ada"]
    assert digest(text) in read_tokens(tokens)
    assert text not in printed and text not in told
    assert not as_json or json.loads(printed)["file"] == str(out)
    for file in (tokens, out):
        assert file.stat().st_mode & 0o777 == 0o600


def test_a_token_may_be_of_a_member_of_a_team(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens, owners = tmp_path / "tokens.json", ["ada", "ml/ann", "ml/vision/bob"]
    for owner in owners:
        said(capsys, "token", tokens, "--owner", owner)
    assert [token.owner for token in read_tokens(tokens).values()] == owners


@pytest.mark.parametrize(
    "owner", ["", "/ml", "ml/", "ml//ann", "ml/../ann", "ml/an n", "ml\\ann", "x/" * 200 + "x"]
)
def test_what_is_no_owner_gets_no_token(tmp_path: Path, capsys: pytest.CaptureFixture[str], owner: str) -> None:
    _, told = said(capsys, "token", tmp_path / "tokens.json", "--owner", owner, code=2)
    assert "--owner is" in told and "team/member" in told and not (tmp_path / "tokens.json").exists()


def test_a_file_that_cannot_be_written_costs_no_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokens = tmp_path / "tokens.json"
    _, told = said(capsys, "token", tokens, "--owner", "ada", "--out", tmp_path / "no" / "such", code=2)
    assert "there is no folder" in told and not tokens.exists()
    said(capsys, "token", tokens, "--owner", "ada")
    before = tokens.read_text()
    _, told = said(capsys, "token", tokens, "--owner", "ada", "--out", tokens, code=2)
    assert "would be lost" in told and tokens.read_text() == before


@pytest.mark.parametrize(("mode", "warned"), [(0o644, True), (0o600, False)])
def test_a_token_that_is_printed_into_an_open_file_is_warned_about(
    tmp_path: Path, mode: int, warned: bool
) -> None:
    out = tmp_path / "ada.token"
    out.touch()
    out.chmod(mode)
    words = [sys.executable, "-m", "gavelx", "token", str(tmp_path / "t.json"), "--owner", "ada"]
    with out.open("w") as file:
        ended = subprocess.run(
            words, stdout=file, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=True
        )
    assert ("others can read the file that this is written to" in ended.stderr) is warned
    assert digest(out.read_text().strip()) in read_tokens(tmp_path / "t.json")


@pytest.mark.parametrize(("mode", "warned"), [(0o644, True), (0o640, True), (0o604, True), (0o600, False)])
def test_a_token_that_others_can_read_is_warned_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: int, warned: bool
) -> None:
    token = tmp_path / "token"
    token.write_text("x")
    token.chmod(mode)
    line = f"--token-file: others can read {token}. Try: chmod go-rwx {token}"
    nowhere = ["--scheduler", "127.0.0.1:1", "--token-file", token]
    _, told = said(capsys, "status", *nowhere, code=1)
    assert (line in told) is warned
    key = ["serve", "--listen", "127.0.0.1:0", "--state", tmp_path, "--tokens", token, "--key", token]
    _, told = said(capsys, *key, code=2)
    assert (f"--key: others can read {token}" in told) is warned
    token.chmod(0o620)
    _, told = said(capsys, *key, code=2)
    assert f"--tokens: others can change {token}" in told


@pytest.mark.parametrize("words", [["serve", "--state"], ["replay", "--policy", "fifo"]])
@pytest.mark.parametrize("url", [URL, "postgresql://h/d?user=ada&password=s3cretpw"])
def test_a_password_on_the_command_line_is_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], url: str
) -> None:
    printed, told = said(capsys, *words, url, code=2)
    assert "every user of this machine can read command lines" in told and "GAVELX_STATE" in told
    assert "s3cretpw" not in printed + told


@pytest.mark.parametrize("words", [["serve", "--listen", "127.0.0.1:0"], ["replay", "--policy", "fifo"]])
@pytest.mark.parametrize(
    "url",
    [
        *(URL, "postgresql://ada:s3cretpw@127.0.0.1:x/d", "nosuch://ada:s3cretpw@h/d", "://ada:s3cretpw@h"),
        *("postgresql://ada:a%2Fs3cretpw@127.0.0.1:1/d", "postgresql://127.0.0.1:1/d?password=s3cretpw"),
        "sqlite://ada:s3cretpw@h/d",
    ],
)
def test_no_message_shows_a_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], url: str
) -> None:
    monkeypatch.setenv("GAVELX_STATE", url)
    printed, told = said(capsys, *words, code=2)
    assert told and "s3cretpw" not in printed + told and "mistake of ours" not in told


def test_the_state_may_be_named_by_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Log(str(tmp_path))
    log.append(wakes(1, 2))
    log.close()
    monkeypatch.setenv("GAVELX_STATE", str(tmp_path))
    _, told = said(capsys, "replay", "--policy", "fifo", code=2)
    assert f"log {tmp_path}: nothing was ever recorded" in told.replace("\n", " ")
