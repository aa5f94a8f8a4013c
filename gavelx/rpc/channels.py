"""Channels to the scheduler: kept alive, encrypted where certificates are given."""

from pathlib import Path

import grpc
import grpc.aio

OPTIONS = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),  # each channel its own connection, with a backoff of its own
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 5_000),
)


def agent_channel(
    address: str,
    *,
    ca: Path | None = None,
    cert: Path | None = None,
    key: Path | None = None,
) -> grpc.aio.Channel:
    """A channel for an agent: mutual TLS with ``ca``, ``cert`` and ``key``, plain without ``ca``."""
    if ca is None:
        return grpc.aio.insecure_channel(address, options=OPTIONS)
    credentials = grpc.ssl_channel_credentials(
        ca.read_bytes(), key.read_bytes() if key else None, cert.read_bytes() if cert else None
    )
    return grpc.aio.secure_channel(address, credentials, options=OPTIONS)
