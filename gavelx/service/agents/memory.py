"""Jobs that ran out of the memory of an accelerator, by their last words."""

import re
from collections.abc import Iterable

from gavelx.files.data_sheets import load_data_sheets

OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|(CUDA|HIP)( error:)? out of memory|(CUDA|HIP)_ERROR_OUT_OF_MEMORY|hipErrorOutOfMemory"
    r"|RESOURCE_EXHAUSTED|ResourceExhaustedError|CUBLAS_STATUS_ALLOC_FAILED",
    re.IGNORECASE,
)
"""What PyTorch, JAX and TensorFlow say when the memory of a device does not suffice."""


def types_too_small(accelerator: str, last_words: str, types: Iterable[str]) -> tuple[str, ...]:
    """The accelerator types in whose memory a job does not fit that failed on this one with these last words.

    These are the type itself, and of these ``types`` all whose data sheets say no more memory; none if the job
    failed otherwise.

    >>> types_too_small("v100", "torch.OutOfMemoryError: CUDA out of memory.", ["p100", "v100", "a100", "mine"])
    ('p100', 'v100')
    >>> types_too_small("v100", "exit code 1: no such file", ["v100"])
    ()
    """
    if accelerator == "cpu" or not OUT_OF_MEMORY.search(last_words):
        return ()
    sheets = load_data_sheets()
    most_gb = sheets.find(accelerator).memory_gb
    return tuple(name for name in types if name == accelerator or sheets.find(name).memory_gb <= most_gb)
