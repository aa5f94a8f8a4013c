"""Free ports of this machine, which stay free until they are used."""

import itertools
import os
import socket
import sys

FIRST, PORTS = 10_000, 10_000
"""The range of ports: below those of gangs (from 20000) and those of outgoing connections (from 32768)."""
_next = itertools.count(499 * os.getpid())
_claims: list[socket.socket] = []
"""Names of sockets that say to other processes of ours, until this one ends, which ports it has asked for."""


def free_port() -> int:
    """A free port of loopback: another one at each call, and in each process that has asked for one and lives."""
    while True:
        port = FIRST + next(_next) % PORTS
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) and _claim(port):
                return port


def _claim(port: int) -> bool:
    """Whether no other process has asked for this port, where the system has names that end with their process."""
    if not sys.platform.startswith("linux"):
        return True
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0gavelx-port-{port}")
    except OSError:
        name.close()
        return False
    _claims.append(name)
    return True
