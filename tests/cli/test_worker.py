"""``gavelx worker``: what is checked before anything is served."""

import subprocess
import sys
from pathlib import Path

import pytest

from gavelx.cli.addresses import parse_address
from gavelx.cli.worker import own_address, server_name
from gavelx.errors import OptionError
from tests.cli.running import Shell


@pytest.mark.parametrize("text", ["", "host", "host:", ":7070", "host:0", "host:65536", "host:x", "a:b:7", "h:-1"])
def test_addresses_that_cannot_be_read(text: str) -> None:
    with pytest.raises(OptionError, match="--scheduler"):
        parse_address(text)


def test_addresses() -> None:
    assert parse_address("localhost:7070") == ("localhost", 7070)
    assert parse_address("[::1]:7070") == ("[::1]", 7070)
    assert own_address("127.0.0.1", 7070) == "127.0.0.1"


@pytest.mark.parametrize("name", ["a/b", "../a", ".a", "a b", "ä", "x" * 65])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(OptionError, match="--name"):
        server_name(name)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--devices", "v100"], "--devices: cannot read 'v100'"),
        (["--devices", "cpu=1", "--name", "../etc"], "--name: '../etc' cannot be the name of a server"),
        (["--devices", "cpu=1", "--cert", "a.pem"], "belong together"),
        (["--devices", "cpu=1", "--token-file", "/no/such"], "--token-file /no/such: cannot be read"),
        (["--devices", "cpu=1", "--folder", "/dev/null/x"], "--folder"),
    ],
)
def test_mistakes_are_said_at_once(shell: Shell, arguments: list[str], says: str) -> None:
    code, _, error = shell("worker", "--scheduler", "127.0.0.1:9", *arguments)
    assert code == 2
    assert says in " ".join(error.split())


@pytest.mark.slow
def test_help_and_simulation_need_no_grpc() -> None:
    code = (
        "import sys; from gavelx.cli import main\n"
        "for arguments in (['worker', '--help'], ['policies', '--json']):\n"
        "    try: main(arguments)\n"
        "    except SystemExit: pass\n"
        "assert not {'grpc', 'google.protobuf'} & set(sys.modules), 'grpc was imported'"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=Path(__file__).parents[2])
