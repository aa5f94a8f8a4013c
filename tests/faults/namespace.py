"""A server behind a wire that can be pulled, in a network namespace: packets vanish, and nobody is told."""

import os
import shutil
import socket
import subprocess
from ipaddress import IPv4Network
from itertools import count

from tests.faults.proxy import Proxy

NETWORKS = IPv4Network("198.18.0.0/15")
"""For tests of networks (RFC 2544); each wire has four addresses of it."""
_numbers = count()


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


def _claimed() -> tuple[IPv4Network, socket.socket]:
    """A network without users, and the socket that claims this network until it is closed.

    Several runs may go on at once, and one that was killed leaves its wire behind. Of two wires with the same
    addresses the second is deaf, and nothing says so.
    """
    for network in NETWORKS.subnets(new_prefix=30):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0gavelx-wire-{network}")
        except OSError:
            claim.close()
            continue
        if not _ip("-o", "address", "show", "to", str(network)):
            return network, claim
        claim.close()
    raise FileNotFoundError(f"all addresses of {NETWORKS} are taken")


class Wire(Proxy):
    """The way into the service at the near end of the wire; programs begun with ``prefix`` are at the far end.

    Raises CalledProcessError or FileNotFoundError where namespaces cannot be made.
    """

    def __init__(self, target: str) -> None:
        n = next(_numbers)
        self._name, self._near, self._far = (f"gvx{os.getpid()}{end}{n}" for end in "snf")
        network, self._claim = _claimed()
        near, far = network.hosts()
        super().__init__(target, str(near))
        self.prefix = ["ip", "netns", "exec", self._name]
        _ip("netns", "add", self._name)
        try:
            _ip("link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self._name)
            _ip("address", "add", f"{self.host}/30", "dev", self._near)
            _ip("-n", self._name, "address", "add", f"{far}/30", "dev", self._far)
            _ip("-n", self._name, "link", "set", self._far, "up")
            _ip("link", "set", self._near, "up")
        except subprocess.CalledProcessError:
            _ip("netns", "delete", self._name)
            raise

    async def __aexit__(self, *_: object) -> None:
        await super().__aexit__()
        _ip("netns", "delete", self._name)  # and the wire with it
        self._claim.close()

    def cut(self) -> None:
        _ip("link", "set", self._near, "down")

    def heal(self) -> None:
        super().heal()
        if self.address:
            _ip("link", "set", self._near, "up")


def why_not() -> str:
    """Why there can be no namespaces here; nothing, where they can be."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "network namespaces need root and iproute2"
    name = f"gvx{os.getpid()}"
    try:
        _ip("netns", "add", name)
        _ip("link", "add", name, "type", "veth", "peer", "name", f"{name}p")
    except subprocess.CalledProcessError as error:
        return f"no network namespace can be made: {error.stderr.strip()}"
    finally:
        for words in (("link", "delete", name), ("netns", "delete", name)):
            subprocess.run(["ip", *words], check=False, capture_output=True)
    return ""
