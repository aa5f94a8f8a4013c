"""The objects of a script that a checkpoint has: models, optimizers, schedulers, scalers, generators."""

from typing import Any

import torch

from gavelx.errors import UserError


def check(name: str, one: Any) -> None:
    """Raises :class:`UserError` for an object that cannot be saved."""
    if isinstance(one, torch.Generator) or (hasattr(one, "state_dict") and hasattr(one, "load_state_dict")):
        return
    raise UserError(
        f"a {type(one).__name__} has no state_dict() and load_state_dict()",
        where=f"Training({name}=...)",
        expected="a model, an optimizer, a scheduler, anything that has both, or a torch.Generator",
    )


def state_of(one: Any) -> Any:
    """As data for a checkpoint."""
    return one.get_state() if isinstance(one, torch.Generator) else one.state_dict()


def put_state(one: Any, state: Any) -> None:
    """The reverse of :func:`state_of`."""
    if isinstance(one, torch.Generator):
        one.set_state(state)
    else:
        one.load_state_dict(state)
    if isinstance(one, torch.optim.Optimizer):
        if type(one).load_state_dict is torch.optim.Optimizer.load_state_dict:
            _put_dtypes(one, state)
        # without this, schedulers warn that their first step comes before the optimizer's
        one._opt_called = True  # type: ignore[attr-defined]


def _put_dtypes(optimizer: torch.optim.Optimizer, state: Any) -> None:
    """Values as precise as they were: torch rounds all but ``step`` to the dtype of their parameter.

    (``mu_product`` of NAdam and ``eta`` of ASGD are float32 for any parameter, and a master copy is as well.)
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, values in state["state"].items():
        own = optimizer.state[parameters[number]]
        for key, value in values.items():
            if isinstance(value, torch.Tensor):
                own[key] = own[key] if own[key].dtype == value.dtype else value.to(own[key].device)
