"""Ports of this machine that are free, and stay so until they are used."""

import itertools
import os
import socket

FIRST, PORTS = 10_000, 10_000
"""From 20000 on the gangs of a cluster meet; from 32768 on the kernel gives ports to any program that connects."""
_next = itertools.count(499 * os.getpid())


def free_port() -> int:
    """A port of loopback at which nobody listens: another one at each call, and in each process."""
    while True:
        port = FIRST + next(_next) % PORTS
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
