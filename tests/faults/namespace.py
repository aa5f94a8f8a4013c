"""A server behind a wire that can be pulled, in a network namespace: packets vanish, and nobody is told."""

import os
import shutil
import subprocess
from itertools import count

from tests.faults.proxy import Proxy

_numbers = count()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Wire(Proxy):
    """The way into the service at the near end of the wire; programs begun with ``prefix`` are at the far end.

    Raises CalledProcessError or FileNotFoundError where namespaces cannot be made.
    """

    def __init__(self, target: str) -> None:
        n = next(_numbers)
        self._name, self._near, self._far = (f"gvx{os.getpid()}{end}{n}" for end in "snf")
        network = f"198.18.{os.getpid() % 250}"  # for tests of networks, RFC 2544
        super().__init__(target, f"{network}.{4 * n + 1}")
        self.prefix = ["ip", "netns", "exec", self._name]
        _ip("netns", "add", self._name)
        try:
            _ip("link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self._name)
            _ip("address", "add", f"{self.host}/30", "dev", self._near)
            _ip("-n", self._name, "address", "add", f"{network}.{4 * n + 2}/30", "dev", self._far)
            _ip("-n", self._name, "link", "set", self._far, "up")
            _ip("link", "set", self._near, "up")
        except subprocess.CalledProcessError:
            _ip("netns", "delete", self._name)
            raise

    async def __aexit__(self, *_: object) -> None:
        await super().__aexit__()
        _ip("netns", "delete", self._name)  # and the wire with it

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
        return f"no network namespace can be made: {error.stderr.decode().strip()}"
    finally:
        for words in (("link", "delete", name), ("netns", "delete", name)):
            subprocess.run(["ip", *words], check=False, capture_output=True)
    return ""
