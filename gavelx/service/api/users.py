"""What users and operators may ask for: each method with the role that it takes and the function that answers."""

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from gavelx.rpc.tokens import Role
from gavelx.service.api.calls import Desk, answers, streams
from gavelx.service.api.cancel import cancel
from gavelx.service.api.explain import explain
from gavelx.service.api.logs import logs
from gavelx.service.api.operators import drain, offer, set_policy
from gavelx.service.api.speeds import speeds
from gavelx.service.api.status import status
from gavelx.service.api.submit import submit

METHODS: dict[str, tuple[Role, Callable[[Any, Any], Any]]] = {
    "Submit": ("user", submit),
    "Status": ("user", status),
    "Explain": ("user", explain),
    "Logs": ("user", logs),
    "Cancel": ("user", cancel),
    "Drain": ("operator", drain),
    "Offer": ("operator", offer),
    "SetPolicy": ("operator", set_policy),
    "Speeds": ("user", speeds),
}


def users(desk: Desk) -> SimpleNamespace:
    """The ``Scheduler`` service of wire.proto; one that lacks a method does not start."""
    made = {}
    for name, (role, answer) in METHODS.items():
        kind = streams if inspect.isasyncgenfunction(answer) else answers
        made[name] = kind(name, role, answer, desk)
    return SimpleNamespace(**made)
