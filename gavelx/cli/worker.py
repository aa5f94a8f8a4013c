"""``gavelx worker``: check the options, make an agent, and run it."""

import asyncio
import logging
import os
import re
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gavelx.cli.addresses import parse_address
from gavelx.cli.output import log_with_times
from gavelx.cli.secrets import token_in, warn_if_open
from gavelx.errors import InputFileError, OptionError
from gavelx.worker.devices import Devices, find_devices
from gavelx.worker.kept_output import KeepOutput

if TYPE_CHECKING:
    from gavelx.rpc.channels import Access
    from gavelx.worker.agent import Agent

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Security:
    """Files with the agent's credentials."""

    token_file: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None


@dataclass(frozen=True)
class WorkerOptions:
    """The options of ``worker``, as typed."""

    scheduler: str
    devices: str | None = None
    name: str | None = None
    address: str | None = None
    folder: str | None = None
    shared: str | None = None
    emulate: bool = False
    grace_s: float = 15.0
    security: Security = field(default_factory=Security)
    keep: KeepOutput = field(default_factory=KeepOutput)


def work(options: WorkerOptions) -> None:
    """Run the agent until a signal stops it. Raises :class:`OptionError` or :class:`InputFileError`."""
    host, port = parse_address(options.scheduler)
    devices = find_devices(options.devices)
    name = server_name(options.name)
    access = access_to(f"{host}:{port}", options.security)
    from gavelx.rpc.channels import aio_channel  # noqa: PLC0415  (needs grpc)
    from gavelx.worker.connection import serve  # noqa: PLC0415

    log_with_times()
    agent = _agent(options, name, options.address or own_address(host, port), devices)
    logging.getLogger("gavelx.worker").info(
        "%s serves %s with %d x %s", name, options.scheduler, len(devices.ids), devices.accelerator
    )
    asyncio.run(serve(agent, lambda: aio_channel(access), access.metadata))


def _agent(options: WorkerOptions, name: str, address: str, devices: Devices) -> "Agent":
    from gavelx.worker.agent import Agent  # noqa: PLC0415
    from gavelx.worker.emulation import sleeping_agent  # noqa: PLC0415
    from gavelx.worker.runner import ProcessRunner  # noqa: PLC0415
    from gavelx.worker.state import Folder  # noqa: PLC0415

    if options.emulate:
        return sleeping_agent(name, devices, address=address, grace_s=options.grace_s)
    folder = Folder(Path(options.folder) if options.folder else default_folder(name))
    shared = Path(options.shared) if options.shared else folder.path / "shared"
    return Agent(
        name, address, devices, ProcessRunner(folder, shared, devices, options.grace_s, keep=options.keep)
    )


def default_folder(name: str) -> Path:
    """Default folder for the agent's state, in the user's state folder."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "gavelx" / name


def server_name(typed: str | None) -> str:
    """The name that was typed, or the machine's."""
    name = typed or socket.gethostname()
    if not NAME.fullmatch(name):
        expected = "up to 64 letters, digits, dots, dashes and underscores"
        raise OptionError(f"{name[:80]!r} cannot be the name of a server", where="--name", expected=expected)
    return name


def own_address(host: str, port: int) -> str:
    """The address of this machine on the route to the scheduler; nothing is sent to find it."""
    try:
        kind, _, _, _, target = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError as error:
        problem = f"the host of {host}:{port} cannot be found ({error.strerror})"
        raise OptionError(problem, where="--scheduler", hint="its IP address") from None


def access_to(scheduler: str, security: Security) -> "Access":
    """Address and credentials of the scheduler; files are read at once, so that mistakes show at once."""
    try:
        from gavelx.rpc.channels import Access  # noqa: PLC0415
    except ImportError as error:
        problem = f"{error.name} is not installed"
        raise OptionError(problem, hint="pip install 'gavelx[service]'") from None
    ca, cert, key = security.ca, security.cert, security.key
    if (cert is None) != (key is None) or (cert and not ca):
        raise OptionError("--ca, --cert and --key belong together", expected="all three for mutual TLS")
    for option, file in (("--ca", ca), ("--cert", cert), ("--key", key)):
        if file is not None:
            _read(option, file)
    for option, file in (("--key", key), ("--token-file", security.token_file)):
        warn_if_open(option, file)
    file = security.token_file
    token = None if file is None else token_in(_read("--token-file", file), f"--token-file {file}")
    return Access(scheduler, token, ca, cert, key)


def _read(option: str, file: str) -> str:
    try:
        return Path(file).read_text(encoding="ascii")
    except OSError as error:
        raise InputFileError(f"cannot be read ({error.strerror})", where=f"{option} {file}") from None
    except ValueError:
        raise InputFileError("is not a text file", where=f"{option} {file}", expected="PEM, or a token") from None
