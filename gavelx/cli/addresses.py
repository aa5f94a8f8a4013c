"""The address of a scheduler, as typed."""

from gavelx.errors import OptionError


def parse_address(text: str) -> tuple[str, int]:
    """Read ``HOST:PORT`` (an IPv6 host in brackets). Raises :class:`OptionError`.

    >>> parse_address("localhost:7070")
    ('localhost', 7070)
    """
    host, colon, port = text.rpartition(":")
    plain = host.startswith("[") or ":" not in host
    if not (colon and host and plain and port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        raise OptionError(
            f"cannot read {text!r}", where="--scheduler", expected="HOST:PORT, such as 10.0.0.1:7070"
        )
    return host, int(port)
