"""Free ports of this machine, which stay free until they are used."""

import itertools
import os
import socket

FIRST, PORTS = 10_000, 10_000
"""The range of ports: below those of gangs (from 20000) and those of outgoing connections (from 32768)."""
_next = itertools.count(499 * os.getpid())


def free_port() -> int:
    """A free port of loopback: another one at each call, and in each process."""
    while True:
        port = FIRST + next(_next) % PORTS
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
