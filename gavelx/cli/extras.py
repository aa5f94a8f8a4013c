"""Optional packages that a command needs, with a one-line error if they are not installed."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from gavelx.errors import OptionError

SERVICE = ("grpc", "google", "sqlalchemy", "prometheus_client", "cryptography", "psutil", "grpc_health")
TRAIN = ("torch",)


@contextmanager
def _installed(extra: str, packages: tuple[str, ...]) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in packages:
            raise
        hint = f"pip install 'gavelx[{extra}]'"
        raise OptionError(f"this needs {error.name}, which is not installed", hint=hint) from None


def service_installed() -> AbstractContextManager[None]:
    """Import packages of the extra ``service`` inside. Raises :class:`OptionError` if one is missing."""
    return _installed("service", SERVICE)


def training_installed() -> AbstractContextManager[None]:
    """The same for the extra ``train``."""
    return _installed("train", TRAIN)
