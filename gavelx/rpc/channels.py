"""Channels to the scheduler: keepalive, TLS, a bearer token, and refusals as our errors.

Without keepalive, a broken link goes unnoticed for half a minute or for ever; with it, for at most 15 s.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio

from gavelx.errors import GavelxError, OptionError, UserError
from gavelx.rpc import wire_pb2_grpc

KEEPALIVE_S, KEEPALIVE_TIMEOUT_S = 10, 5
MESSAGE_BYTES_MAX = 16 * 1024 * 1024
CALL_S = 60.0
OPTIONS = [
    ("grpc.keepalive_time_ms", KEEPALIVE_S * 1000),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_S * 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.use_local_subchannel_pool", 1),  # each channel its own connection, with a backoff of its own
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5000),
]
USE_PROXY = "GAVELX_USE_PROXY"
"""Set to 1, connections go through the proxy of http_proxy and the like. Else they are direct: a proxy of a site
is for the web, and does not reach a scheduler inside, not even one on 127.0.0.1."""
USERS_MISTAKES = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.OUT_OF_RANGE,
}
Answer = TypeVar("Answer")


class ServiceError(GavelxError):
    """The scheduler cannot be reached, or cannot do it now."""


@dataclass(frozen=True)
class Access:
    """Address of the scheduler and credentials: names of files, except the token itself."""

    scheduler: str
    token: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata of every call."""
        return () if self.token is None else (("authorization", f"Bearer {self.token}"),)

    def credentials(self) -> grpc.ChannelCredentials | None:
        """TLS, or None. Raises :class:`OptionError` for files that cannot be read."""
        if self.ca is None:
            if self.certificate is not None:
                raise OptionError(
                    "a certificate without --ca", where="--cert", expected="the CA's certificate too"
                )
            return None
        key = None if self.key is None else _bytes(self.key, "--key")
        certificate = None if self.certificate is None else _bytes(self.certificate, "--cert")
        return grpc.ssl_channel_credentials(_bytes(self.ca, "--ca"), key, certificate)


def channel(access: Access) -> grpc.Channel:
    """A blocking channel, for commands."""
    credentials = access.credentials()
    if credentials is None:
        return grpc.insecure_channel(access.scheduler, _options())
    return grpc.secure_channel(access.scheduler, credentials, _options())


def aio_channel(access: Access) -> grpc.aio.Channel:
    """A channel for asyncio, for agents."""
    credentials = access.credentials()
    if credentials is None:
        return grpc.aio.insecure_channel(access.scheduler, _options())
    return grpc.aio.secure_channel(access.scheduler, credentials, _options())


def _options() -> list[tuple[str, int]]:
    """``OPTIONS``, and whether to go through a proxy."""
    return [*OPTIONS, ("grpc.enable_http_proxy", int(os.environ.get(USE_PROXY) == "1"))]


def stub_of(opened: grpc.Channel) -> wire_pb2_grpc.SchedulerStub:
    """The scheduler's methods on a channel."""
    return wire_pb2_grpc.SchedulerStub(opened)  # type: ignore[no-untyped-call]


def call(access: Access, method: Callable[..., Answer], request: Any, timeout_s: float | None = CALL_S) -> Answer:
    """Make a call. Raises :class:`UserError` if it is refused, :class:`ServiceError` if it cannot be done."""
    try:
        return method(request, metadata=access.metadata, timeout=timeout_s)
    except grpc.RpcError as error:
        raise translated(error, access) from None


def stream(access: Access, method: Callable[..., Iterator[Answer]], request: Any) -> Iterator[Answer]:
    """Make a call with a stream of answers; errors as in :func:`call`."""
    try:
        yield from method(request, metadata=access.metadata)
    except grpc.RpcError as error:
        raise translated(error, access) from None


def translated(error: grpc.RpcError, access: Access) -> GavelxError:
    """A gRPC error as one of our errors."""
    code, details = error.code(), " ".join((error.details() or "").split())[:500]
    if code in USERS_MISTAKES:
        return UserError(details)
    if code is grpc.StatusCode.UNAVAILABLE and not details.startswith("the "):
        tls = "with --ca, if it speaks TLS" if access.ca is None else "without --ca, if it does not speak TLS"
        return ServiceError(
            f"cannot reach the scheduler at {access.scheduler} ({details}). Try: gavelx serve; {tls}"
        )
    return ServiceError(f"the scheduler at {access.scheduler} says {code.name}: {details}")


def _bytes(path: str, option: str) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise OptionError(f"cannot read {path} ({error.strerror})", where=option, expected="a PEM file") from None
    if b"-----BEGIN " not in content:
        raise OptionError(f"{path} holds no certificate or key", where=option, expected="a PEM file")
    return content
