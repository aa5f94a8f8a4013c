"""Terminals that cannot show every letter, sites with a proxy, and output that would act on a terminal."""

import os
import re
import subprocess
import sys

import pytest

from gavelx.cli import clients
from gavelx.cli.clients import shown
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.channels import USE_PROXY, Access, _options


@pytest.mark.parametrize(
    "told",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        *({"PYTHONIOENCODING": name} for name in ("latin-1", "ascii", "latin-1:strict")),
    ],
)
def test_tables_survive_a_terminal_without_unicode(told: dict[str, str]) -> None:
    code = (
        "import sys; from gavelx.cli import main; import gavelx.cli.commands as c\n"
        "@c.app.command('letters')\n"
        "def letters() -> None:\n"
        "    from gavelx.cli.output import stdout, stderr; from gavelx.cli.tables import print_rows\n"
        "    print_rows('\u2026', ['\u00f7', 'x'], [['\u2581', '\u2500 \u65e5']], stdout()); print('\u2588')\n"
        "    stderr().print('\u2026')\n"
        "main(['letters'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code.encode("ascii", "backslashreplace").decode()],
        env=os.environ | told,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, b"Error" in done.stderr) == (0, False), done.stderr
    assert b"?" in done.stdout


def test_connections_are_direct_unless_a_proxy_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(USE_PROXY, raising=False)
    assert dict(_options())["grpc.enable_http_proxy"] == 0
    monkeypatch.setenv(USE_PROXY, "1")
    assert dict(_options())["grpc.enable_http_proxy"] == 1


def test_output_of_a_job_has_no_power_over_a_terminal() -> None:
    assert shown(b"\x1b]0;title\x07 \x1b[2J\x9b \xc2\x9b2J\x00") == b"?]0;title? ?[2J\x9b ?2J?"
    plain = "10 %\r20 %\b\tähnlich 日\n".encode() + b"\x1b[1;31mred\x1b[0m"
    assert shown(plain) == plain


def test_each_line_of_a_log_has_its_time() -> None:
    code = "import logging; from gavelx.cli.output import log_with_times as go; go(); logging.info('serving')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO serving\n", done.stderr)


@pytest.mark.parametrize(
    ("text", "removed", "said"),
    [
        (b"", "was removed after 30 days", "job 7: its output on one was removed after 30 days"),
        (b"hi", "was removed after 30 days", "job 7: some of its output on one was removed after 30 days"),
        (b"hi", "", ""),
        (b"", "", "job 7 has printed nothing so far"),
    ],
)
def test_logs_say_whether_output_was_removed(
    text: bytes,
    removed: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    chunks = [wire.LogChunk(server="one", removed=removed)] if removed else []
    chunks += [wire.LogChunk(server="one", text=text)] if text else []
    monkeypatch.setattr(clients, "stream", lambda *_: iter(chunks))
    clients.run_logs(Access("127.0.0.1:1"), 7, follow=False, raw=False, as_json=False)
    assert capfd.readouterr().err.strip() == said
