"""Free ports of this machine, which stay free until they are used."""

import itertools
import os
import socket
import sys

FIRST, PORTS = 10_000, 10_000
"""The range of ports: below those of gangs (from 20000) and those of outgoing connections (from 32768)."""
_next = itertools.count(499 * os.getpid())


def free_port() -> int:
    """A free port of loopback: another one at each call, and in each process that has asked for one and lives."""
    while True:
        port = FIRST + next(_next) % PORTS
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) and _claim(port):
                return port


def _claim(port: int) -> bool:
    """Whether no other process of ours that lives has asked for this port; a name of a socket says so.

    It is never closed, so it is there until this process ends. Other systems than Linux have no such names.
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
