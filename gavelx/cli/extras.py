"""What a command needs beyond the core: said in one line where it is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager

from gavelx.errors import OptionError

SERVICE = ("grpc", "google", "sqlalchemy", "prometheus_client", "cryptography", "psutil", "grpc_health")


@contextmanager
def service_installed() -> Iterator[None]:
    """Imports inside need the extra ``service``. Raises :class:`OptionError` where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in SERVICE:
            raise
        hint = "pip install 'gavelx[service]'"
        raise OptionError(f"this needs {error.name}, which is not installed", hint=hint) from None
