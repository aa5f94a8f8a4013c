"""Callers, and what they may do. Beyond loopback no caller gets in without TLS and a token.

``user``: submits jobs, sees and cancels their own. ``operator``: everything. ``agent``: takes part as a server;
where a CA for agents is given, with a certificate of that name instead.
"""

import ipaddress
import logging
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from gavelx.errors import OptionError, UserError
from gavelx.rpc.refused import RefusedError
from gavelx.rpc.tokens import Role, Token, digest, read_tokens

_log = logging.getLogger(__name__)
LOOK_S = 2.0
"""How often the file of tokens is looked at, so that a token can be taken back while the service runs."""


@dataclass(frozen=True)
class Caller:
    """A caller: a name and a role."""

    owner: str
    role: Role

    def may_see(self, owner: str) -> bool:
        """Their own jobs; an operator, all jobs."""
        return self.role == "operator" or self.owner == owner


LOCAL = Caller("local", "operator")
"""Who calls a service on loopback that has no tokens."""


@dataclass
class Guard:
    """Knows tokens, and how many calls each caller has made lately; without tokens every caller is ``LOCAL``."""

    tokens_file: str | None = None
    calls_per_s: float = 200.0
    burst: float = 400.0
    _tokens: dict[str, Token] = field(default_factory=dict)
    _seen: tuple[int, int] = (0, 0)
    _looked_s: float = float("-inf")
    _problem: str = ""
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.tokens_file is not None:
            self._tokens = read_tokens(self.tokens_file)

    def enter(self, context: Any) -> Caller:
        """Who calls, once for each call. Raises :class:`RefusedError`: not known, or too often."""
        caller = self._known(context)
        self._count(caller.owner)
        return caller

    def caller(self, context: Any, *roles: Role) -> Caller:
        """Who calls. Raises :class:`RefusedError`: not known any more, or not allowed."""
        caller = self._known(context)
        if roles and caller.role not in (*roles, "operator"):
            wanted = " or ".join(roles)
            raise RefusedError(
                grpc.StatusCode.PERMISSION_DENIED, f"a token of role {wanted} is needed, not {caller.role}"
            )
        return caller

    def certified(self, context: Any) -> str:
        """The names in the certificate of an agent. Raises :class:`RefusedError` where it shows none."""
        if not (names := peer_names(context.auth_context())):
            problem = "an agent shows a certificate here, at the address for agents"
            raise RefusedError(grpc.StatusCode.UNAUTHENTICATED, problem)
        return ", ".join(sorted(names))

    def accounts(self) -> frozenset[str]:
        """The owners that may submit jobs."""
        if self.tokens_file is None:
            return frozenset((LOCAL.owner,))
        return frozenset(token.owner for token in self._tokens.values() if token.role != "agent")

    def agent(self, context: Any, name: str, *, certified: bool) -> None:
        """An agent of this name may take part; ``certified``: by its certificate alone."""
        if not certified:
            self.caller(context, "agent")
            return
        names = peer_names(context.auth_context())
        if name not in names:
            problem = (
                f"the certificate is for {', '.join(sorted(names)) or 'nobody'}, and the agent says it is {name}"
            )
            raise RefusedError(grpc.StatusCode.UNAUTHENTICATED, problem)

    def _known(self, context: Any) -> Caller:
        if self.tokens_file is None:
            return LOCAL
        self._look()
        text = next((value for key, value in context.invocation_metadata() or () if key == "authorization"), "")
        token = self._tokens.get(digest(text.removeprefix("Bearer "))) if isinstance(text, str) else None
        if token is None or token.is_expired():
            problem = "the token has expired" if token else "no token, or one that is not known"
            raise RefusedError(grpc.StatusCode.UNAUTHENTICATED, f"{problem}; gavelx token makes one")
        return Caller(token.owner, token.role)

    def _look(self) -> None:
        """Read the tokens again where the file changed; one that cannot be read changes nothing."""
        assert self.tokens_file is not None
        if (now_s := time.monotonic()) - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        try:
            status = Path(self.tokens_file).stat()
            if (seen := (status.st_mtime_ns, status.st_size)) != self._seen:
                self._tokens, self._seen, self._problem = read_tokens(self.tokens_file), seen, ""
        except (OSError, UserError) as error:
            if (problem := str(error)) != self._problem:
                self._problem = problem
                _log.warning("%s; the tokens that were read before stay good", problem)

    def _count(self, owner: str) -> None:
        """A bucket of calls for each caller, which fills again as time goes by."""
        now_s = time.monotonic()
        left, then_s = self._left.get(owner, (self.burst, now_s))
        left = min(self.burst, left + (now_s - then_s) * self.calls_per_s)
        if left < 1.0:
            problem = f"more than {self.calls_per_s:g} calls/s; several jobs can go into one call"
            raise RefusedError(grpc.StatusCode.RESOURCE_EXHAUSTED, problem)
        self._left[owner] = left - 1.0, now_s


def peer_names(context: dict[str, Any]) -> set[str]:
    """The names in the certificate of who calls; none without one."""
    entries = [*context.get("x509_common_name", ()), *context.get("x509_subject_alternative_name", ())]
    return {entry.decode(errors="replace") if isinstance(entry, bytes) else str(entry) for entry in entries}


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches a HOST:PORT."""
    host = re.sub(r":\d+$", "", address).strip("[]")
    if host == "localhost" or address.startswith("unix:"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_exposure(address: str, *, tls: bool, tokens: bool) -> None:
    """Raises :class:`OptionError` for an address beyond loopback without TLS and tokens, or none at all."""
    if not re.search(r":\d+$", address):
        raise OptionError(
            f"cannot read {address!r}", where="--listen", expected="HOST:PORT, such as 127.0.0.1:7070"
        )
    if is_loopback(address) or (tls and tokens):
        return
    missing = " and ".join(["TLS (--cert, --key)"] * (not tls) + ["tokens (--tokens)"] * (not tokens))
    hint = "gavelx certs and gavelx token, or --listen 127.0.0.1:7070"
    problem = f"{address} can be reached from other machines"
    raise OptionError(problem, where="--listen", expected=missing, hint=hint)
