"""Free ports of this machine, which stay free until they are used."""

import itertools
import os
import socket
import sys

FIRST, PORTS = 10_000, 10_000
"""The range of ports: below those of gangs (from 20000) and those of outgoing connections (from 32768)."""
_next = itertools.count(499 * os.getpid())


def free_port() -> int:
    """A free port of loopback: another one at each call, also of other processes as long as they live."""
    while True:
        port = FIRST + next(_next) % PORTS
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) and _claim(port):
                return port


def _claim(port: int) -> bool:
    """Whether the port is this process's now: no other living process of gavelx has claimed it.

    A claim is an abstract socket that is never closed, so the system drops it when the process ends. Only Linux
    has these; elsewhere every claim succeeds.
    """
    if not sys.platform.startswith("linux"):
        return True
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0gavelx-port-{port}")
    except OSError:
        name.close()
        return False
    name.detach()
    return True
