"""Ports on loopback that are free, and stay so until a test uses them.

From 32768 on the kernel gives them to any program that connects, at any moment; from 20000 on gangs meet.
"""

import itertools
import os
import socket

FIRST, PORTS = 10_000, 10_000
_next = itertools.count(499 * os.getpid())


def free_port() -> int:
    """Another one at each call, and in each process."""
    while True:
        port = FIRST + next(_next) % PORTS
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if probe.connect_ex(("127.0.0.1", port)):  # nobody listens there
                return port
