"""Optional packages that a command needs, with a one-line error if they are not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from gavelx.errors import OptionError

SERVICE = ("grpc", "google", "sqlalchemy", "prometheus_client", "cryptography", "psutil", "grpc_health")


@contextmanager
def service_installed() -> Iterator[None]:
    """Import packages of the extra ``service`` inside. Raises :class:`OptionError` if one is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in SERVICE:
            raise
        hint = "pip install 'gavelx[service]'"
        raise OptionError(f"this needs {error.name}, which is not installed", hint=hint) from None
