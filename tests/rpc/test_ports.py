"""``free_port`` gives a port to one caller only, also of several processes."""

import socket
import subprocess
import sys

import pytest

from gavelx.rpc import ports
from gavelx.rpc.ports import free_port

OTHER = "from gavelx.rpc import ports; ports._next = iter(range({first}, {first} + 100)); print(ports.free_port())"
"""Another process, which looks at the same numbers."""


def test_a_port_is_given_once() -> None:
    found = [free_port() for _ in range(50)]
    assert len(set(found)) == 50
    assert all(ports.FIRST <= port < ports.FIRST + ports.PORTS for port in found)


def test_a_port_that_somebody_listens_at_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listening:
        taken = free_port()
        listening.bind(("127.0.0.1", taken))
        listening.listen()
        monkeypatch.setattr(ports, "_next", iter(range(taken - ports.FIRST, taken - ports.FIRST + 100)))
        assert free_port() != taken


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names that end with their process are Linux's")
def test_a_port_that_another_process_has_asked_for_is_passed_over() -> None:
    mine = free_port()
    code = OTHER.format(first=mine - ports.FIRST)
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(said.stdout) != mine
