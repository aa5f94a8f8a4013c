"""The state of all random generators of a training script, as plain data for a checkpoint."""

import random
import sys
from collections.abc import Sequence
from typing import Any

import torch


def capture(generators: Sequence[torch.Generator] = (), *, own_device: bool = False) -> dict[str, Any]:
    """The state of ``generators``, and of those of Python, numpy (if it is in use) and torch on every device.

    ``own_device``: of the GPUs only the present one, so that the state can be restored on another.
    """
    numpy = numpy_in_use()
    return {
        "python": random.getstate(),
        "numpy": _numpy_state(numpy.random.get_state()) if numpy else None,
        "torch": torch.get_rng_state(),
        "cuda": _cuda_states(own_device),
        "own_device": own_device,
        "generators": [generator.get_state() for generator in generators],
    }


def restore(state: dict[str, Any], generators: Sequence[torch.Generator] = ()) -> None:
    """Restore a captured state. Devices that are not here are left out."""
    random.setstate(state["python"])
    if state["numpy"] is not None and (numpy := numpy_in_use()):
        name, key, *rest = state["numpy"]
        numpy.random.set_state((name, numpy.asarray(key, dtype="uint32"), *rest))
    torch.set_rng_state(state["torch"])
    if torch.cuda.is_available() and state.get("own_device"):
        for cuda in state["cuda"]:
            torch.cuda.set_rng_state(cuda)
    elif torch.cuda.is_available():
        for device, cuda in zip(range(torch.cuda.device_count()), state["cuda"], strict=False):
            torch.cuda.set_rng_state(cuda, device)
    for generator, one in zip(generators, state["generators"], strict=False):
        generator.set_state(one)


def numpy_in_use() -> Any:
    """numpy, if the script has imported it; None otherwise."""
    return sys.modules.get("numpy")


def _numpy_state(state: Any) -> tuple[Any, ...]:
    """numpy's own tuple, with a tensor in the place of the array, which checkpoints know."""
    name, key, *rest = state
    return (str(name), torch.from_numpy(key.astype("int64")), *rest)


def _cuda_states(own_device: bool) -> list[torch.Tensor]:
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return []
    return [torch.cuda.get_rng_state()] if own_device else torch.cuda.get_rng_state_all()
