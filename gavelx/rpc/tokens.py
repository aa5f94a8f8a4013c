"""Tokens that authenticate users and agents at the scheduler. The file holds only their hashes.

A token is 32 random bytes, so a plain SHA-256 of it is as hard to guess as itself.

    {"tokens": [{"sha256": "...", "owner": "ada", "role": "user", "expires": "2027-01-01T00:00:00+00:00"}]}
"""

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, get_args

from gavelx.errors import InputFileError, OptionError, did_you_mean
from gavelx.files.atomic import write_atomically

Role = Literal["user", "operator", "agent"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True)
class Token:
    """A token in the file: its hash, owner, role and expiry (None: never)."""

    sha256: str
    owner: str
    role: Role
    expires: str | None = None

    def is_expired(self) -> bool:
        return self.expires is not None and datetime.now(UTC) >= datetime.fromisoformat(self.expires)


def digest(token: str) -> str:
    """The hash of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def new_token(owner: str, role: str, days: float | None) -> tuple[str, Token]:
    """A new token, to be shown once, and its entry in the file. Raises :class:`OptionError`."""
    if role not in ROLES:
        raise OptionError(f"no role is called {role!r}", where="--role", hint=did_you_mean(role, ROLES))
    expires = None if days is None else (datetime.now(UTC) + timedelta(days=days)).isoformat()
    text = "gavelx_" + secrets.token_urlsafe(32)
    return text, Token(digest(text), owner, role, expires)


def read_tokens(path: str | Path) -> dict[str, Token]:
    """Tokens by their hash. Raises :class:`InputFileError` naming the entry."""
    try:
        entries = list(json.loads(Path(path).read_text(encoding="utf-8"))["tokens"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        problem = f"cannot be read as tokens ({why})"
        raise InputFileError(problem, where=str(path), expected='{"tokens": [...]}', hint="gavelx token") from None
    return {token.sha256: token for token in (_token(entry, n, path) for n, entry in enumerate(entries))}


def _token(entry: object, n: int, path: str | Path) -> Token:
    try:
        assert isinstance(entry, dict)
        token = Token(**entry)
        assert token.role in ROLES and len(bytes.fromhex(token.sha256)) == 32
        assert isinstance(token.owner, str) and token.owner
        assert token.expires is None or datetime.fromisoformat(token.expires).tzinfo is not None
    except (AssertionError, TypeError, ValueError):
        expected = "sha256, owner, role (user, operator, agent) and, if wanted, expires with a time zone"
        raise InputFileError(f"token {n} cannot be used", where=str(path), expected=expected) from None
    return token


def add_token(path: str | Path, token: Token) -> None:
    """Add a token to the file, which other users cannot read; the file is made if there is none."""
    file = Path(path)
    with _alone_in(file.parent):
        is_new = not file.exists()
        tokens = [token] if is_new else [*read_tokens(file).values(), token]
        text = json.dumps({"tokens": [asdict(each) for each in tokens]}, indent=1) + "\n"
        write_atomically(file, text, private=is_new)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """No other process adds a token to a file in this folder meanwhile, where the system has such locks."""
    with ExitStack() as held:
        with suppress(ImportError, OSError):
            import fcntl  # noqa: PLC0415  (not on Windows)

            descriptor = os.open(folder, os.O_RDONLY)
            held.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
