"""The objects of a script that a checkpoint has: models, optimizers, schedulers, scalers, generators."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from gavelx.errors import UserError


def check(name: str, one: Any) -> None:
    """Raises :class:`UserError` for an object that cannot be saved."""
    if isinstance(one, torch.Generator) or (hasattr(one, "state_dict") and hasattr(one, "load_state_dict")):
        return _refuse_shards(name, one)
    raise UserError(
        f"a {type(one).__name__} has no state_dict() and load_state_dict()",
        where=f"Training({name}=...)",
        expected="a model, an optimizer, a scheduler, anything that has both, or a torch.Generator",
    )


def state_of(name: str, one: Any) -> Any:
    """As data for a checkpoint. Raises :class:`UserError` for a tensor of which this process has only a part."""
    if isinstance(one, torch.Generator):
        return one.get_state()
    state = one.state_dict()
    for where, value in _tensors(state, name):
        if type(value).__name__ in SHARDED:
            raise _sharded(name, f"{where} is a {type(value).__name__}")
    return state


SHARDED = frozenset({"DTensor", "ShardedTensor"})
"""Tensors of which each process has a part: of FSDP2, tensor parallelism and torch's own sharding."""
WRAPPERS = frozenset({"FullyShardedDataParallel", "DeepSpeedEngine"})
"""Modules whose parameters are parts, though they look like ordinary tensors."""


def _refuse_shards(name: str, one: Any) -> None:
    """One process saves for all, so what it has must be the whole."""
    if isinstance(one, torch.nn.Module):
        for path, module in one.named_modules():
            if type(module).__name__ in WRAPPERS:
                raise _sharded(name, f"{path or name} is a {type(module).__name__}")
        tensors: Any = {**dict(one.named_parameters()), **dict(one.named_buffers())}
    elif isinstance(one, torch.optim.Optimizer):
        tensors = {"param_groups": [group["params"] for group in one.param_groups], "state": dict(one.state)}
    else:
        return
    for where, value in _tensors(tensors, name):
        if type(value).__name__ in SHARDED:
            raise _sharded(name, f"{where} is a {type(value).__name__}")


def _tensors(state: Any, where: str) -> Iterator[tuple[str, Any]]:
    """All tensors in nested state, with their names."""
    if isinstance(state, Mapping):
        for key, value in state.items():
            yield from _tensors(value, f"{where}.{key}" if isinstance(key, str) else where)
    elif isinstance(state, (list, tuple)):
        for n, value in enumerate(state):
            yield from _tensors(value, f"{where}.{n}")
    elif isinstance(state, torch.Tensor) or type(state).__name__ in SHARDED:
        yield where, state


def _sharded(name: str, problem: str) -> UserError:
    return UserError(
        f"{problem}: this process has a part of it, and a checkpoint would hold that part alone",
        where=f"Training({name}=...)",
        expected="whole tensors in every process, as in DistributedDataParallel",
        hint="save sharded models in the script itself (torch.distributed.checkpoint), and submit it as a command",
    )


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
