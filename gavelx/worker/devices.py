"""The devices of a machine: of one accelerator type, found with NVML or declared by the user."""

import contextlib
import functools
import logging
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

from gavelx.errors import OptionError
from gavelx.files.data_sheets import device_of, load_data_sheets

_log = logging.getLogger(__name__)
DEVICES_MAX = 1024
_FORM = "TYPE=COUNT, for example v100=2 or cpu=4"
DRIVER_KEEPS = 0.12
"""Part of its memory that a driver may not show: a T4 of 16 GB has 14.7 GiB. Cards of one name differ by more."""
_SAY_NOTHING = {"generation", "edition", "blackwell", "gpu", "with", "design"}
"""Words of the names of cards without which they are still distinct."""


@dataclass(frozen=True)
class Devices:
    """Slots that can be leased, all of one type.

    ``ids`` are the names of the slots' devices in CUDA_VISIBLE_DEVICES; for slots without a GPU, they are
    arbitrary numbers.
    """

    accelerator: str
    ids: tuple[str, ...]

    def of(self, slots: Sequence[int]) -> tuple[str, ...]:
        """The devices of these slots; several slots may be one device."""
        return tuple(dict.fromkeys(self.ids[slot] for slot in slots))


def find_devices(declared: str | None) -> Devices:
    """The declared devices (``v100=2``), or all GPUs of this machine. Raises :class:`OptionError`."""
    gpus, lost = _gpus()
    if declared is None:
        return _of_one_type(gpus)
    accelerator, count = _parse(declared)
    same = [gpu_id for kind, gpu_id in gpus if _is(kind, accelerator)]
    if accelerator == "cpu":
        return Devices("cpu", ("",) * count)
    if lost and same and len(same) < count <= len(same) + lost:
        return Devices(accelerator, tuple(same))
    if same and count > len(same) and all(gpu_id.startswith("MIG-") for gpu_id in same):
        raise OptionError(
            f"{count} slices of type {accelerator}, and {len(same)} are here",
            where="--devices",
            expected=f"at most {accelerator}={len(same)}: a slice is for one job",
        )
    # A type that is not here by that name may be a declared speed of what is: several agents may share a GPU.
    ids = same or [gpu_id for _, gpu_id in gpus] or visible_ids() or []
    return Devices(accelerator, tuple(ids[slot % len(ids)] if ids else str(slot) for slot in range(count)))


def _is(kind: str, declared: str) -> bool:
    """Whether a GPU is of the declared type, which may lack the memory in the name of an unknown one."""
    if device_of(kind) == device_of(declared):
        return True
    return not load_data_sheets().has(kind) and re.fullmatch(rf"{re.escape(declared)}-\d+gb", kind) is not None


def _parse(text: str) -> tuple[str, int]:
    name, _, count = (part.strip() for part in text.partition("="))
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name) or not (count.isascii() and count.isdigit()):
        raise OptionError(f"cannot read {text!r}", where="--devices", expected=_FORM)
    if len(count) > 6 or not 1 <= int(count) <= DEVICES_MAX:
        raise OptionError(f"{count} devices", where="--devices", expected=f"1 to {DEVICES_MAX}")
    return name.lower(), int(count)


def _of_one_type(gpus: list[tuple[str, str]]) -> Devices:
    kinds = Counter(kind for kind, _ in gpus)
    if not kinds:
        raise OptionError(
            "no GPU is found on this machine (or nvidia-ml-py or the driver is missing)",
            where="--devices",
            hint="--devices cpu=4 for CPU slots, or --devices TYPE=COUNT to declare what is there",
        )
    if len(kinds) > 1:
        most, count = kinds.most_common(1)[0]
        seen = ", ".join(f"{kind}={n}" for kind, n in sorted(kinds.items()))
        raise OptionError(
            f"this machine has several types of GPU: {seen}",
            where="--devices",
            expected="one type for each agent",
            hint=f"one agent for each, the first with --devices {most}={count}",
        )
    return Devices(gpus[0][0], tuple(gpu_id for _, gpu_id in gpus))


def type_of(product: str, memory_gb: float | None = None) -> str:
    """The accelerator type of a product: its shortest name that tables and prices take for no other device.

    ``memory_gb`` is what the driver says, in GiB. Products of one name may differ in it.

    >>> [type_of(name) for name in ("Tesla K80", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB MIG 1g.5gb")]
    ['k80', 'a100-80gb', 'a100-1g.5gb']
    >>> type_of("NVIDIA GeForce RTX 4060 Ti", 8.0), type_of("NVIDIA GeForce RTX 4060 Ti", 15.99)
    ('rtx4060ti', 'rtx4060ti-16gb')
    """
    if memory_gb is not None:
        product = _with_memory(product, memory_gb)
    if not load_data_sheets().has(product):
        short = _short_name(product)
        return _plain(product) if load_data_sheets().has(short) else short
    device = device_of(product)
    chip, *more = device.split("-")
    names = ("-".join((chip, *some)) for count in range(len(more) + 1) for some in combinations(more, count))
    return next(name for name in names if device_of(name) == device)


def _with_memory(product: str, memory_gb: float) -> str:
    """A product with its memory in its name, unless the name says it, or the data sheet of this name does."""
    size = f"{memory_gb:.0f}gb"
    if re.search(r"\b\d+ ?gb?\b|-\d+[abcq]\b", product.lower()) or " mig " in product.lower():
        return product
    if not load_data_sheets().has(product):
        return f"{product} {size}"
    if math.isclose(memory_gb, load_data_sheets().find(product).memory_gb, rel_tol=DRIVER_KEEPS):
        return product
    chip, *more = device_of(product).split("-")
    return "-".join((chip, size, *(word for word in more if not word.endswith("gb"))))


def _short_name(product: str) -> str:
    """A name for a product without a data sheet, of which there may be slices."""
    whole, _, part = _plain(product).partition("-mig-")
    short = whole
    if re.match("rtx|gtx|titan", whole):
        words = (word for word in whole.split("-") if word not in _SAY_NOTHING)
        short = "".join(f"-{word}" if word.endswith("gb") else word for word in words)
    return f"{short}-{part}" if part else short


def _plain(product: str) -> str:
    """A product in lower case without its maker: words and dashes."""
    words = re.sub(r"\b(nvidia|tesla|geforce|quadro|graphics device)\b", " ", product.lower())
    return re.sub(r"[^a-z0-9.]+", "-", words).strip("-.") or "gpu"


class Gpu(NamedTuple):
    """A GPU in NVML, or a slice of one (MIG), which works like a GPU. ``whole`` is the number of the whole GPU."""

    handle: Any
    whole: int
    uuid: str


def gpus_of(library: Any) -> Iterator[Gpu]:
    """All GPUs of this machine; slices in the place of a GPU that is cut into slices.

    One of which NVML says nothing, such as a lost one, is left out with a warning.
    """
    for index in range(library.nvmlDeviceGetCount()):
        try:
            whole = library.nvmlDeviceGetHandleByIndex(index)
            handles = _slices(library, whole) if _is_cut(library, whole) else [whole]
            found = [Gpu(handle, index, text_of(library.nvmlDeviceGetUUID(handle))) for handle in handles]
        except library.NVMLError as error:
            _leave_out(index, error)
            continue
        yield from found


def _leave_out(index: int, error: Exception) -> None:
    """Say which GPU is not used, and why in NVML's words."""
    _tell_once(index, words_of(error))


@functools.cache
def _tell_once(index: int, words: str) -> None:
    _log.warning("GPU %d is left out: NVML says: %s", index, words)


def words_of(error: Exception) -> str:
    """The words of an error of NVML, or its name if it has none."""
    return str(error) or type(error).__name__


def _is_cut(library: Any, gpu: Any) -> bool:
    try:
        now, _after_reset = library.nvmlDeviceGetMigMode(gpu)
    except library.NVMLError:  # as all but the largest say
        return False
    return bool(now)


def _slices(library: Any, gpu: Any) -> Iterator[Any]:
    for place in range(library.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        with contextlib.suppress(library.NVMLError):  # nothing is there
            yield library.nvmlDeviceGetMigDeviceHandleByIndex(gpu, place)


def _gpus() -> tuple[list[tuple[str, str]], int]:
    """Type and UUID of each GPU that we may use, and how many are lost; none without a driver."""
    with nvml() as library:
        if library is None:
            return [], 0
        found = list(gpus_of(library))
        seen = [gpu for gpu in found if _may_see(gpu.whole, gpu.uuid)]
        kinds, good = list[tuple[str, str]](), {gpu.whole for gpu in found}
        for gpu in seen:
            try:
                kinds.append((_type_in(library, gpu.handle), gpu.uuid))
            except library.NVMLError as error:
                good.discard(gpu.whole)
                _leave_out(gpu.whole, error)
        return kinds, library.nvmlDeviceGetCount() - len(good)


def _type_in(library: Any, handle: Any) -> str:
    try:
        memory_gb = library.nvmlDeviceGetMemoryInfo(handle).total / 2**30
    except library.NVMLError:  # of a GPU that shares the processor's memory
        memory_gb = None
    return type_of(text_of(library.nvmlDeviceGetName(handle)), memory_gb)


def _may_see(index: int, uuid: str) -> bool:
    """Whether CUDA_VISIBLE_DEVICES (set by Slurm, for example) allows this GPU."""
    allowed = visible_ids()
    return allowed is None or any(one == str(index) or (one and uuid.startswith(one)) for one in allowed)


def visible_ids() -> list[str] | None:
    """The devices in CUDA_VISIBLE_DEVICES, or HIP_VISIBLE_DEVICES of ROCm; None if neither is set."""
    value = os.environ.get("CUDA_VISIBLE_DEVICES", os.environ.get("HIP_VISIBLE_DEVICES"))
    return None if value is None else [part.strip() for part in value.split(",") if part.strip()]


@contextlib.contextmanager
def nvml() -> Iterator[Any]:
    """NVML, initialized; None without a driver, a GPU, or nvidia-ml-py."""
    try:
        import pynvml  # noqa: PLC0415  (an extra)

        pynvml.nvmlInit()
    except ImportError:
        yield None
        return
    except pynvml.NVMLError as error:  # NVMLError_LibraryNotFound without a driver
        if type(error).__name__ != "NVMLError_LibraryNotFound":
            _log.warning("no GPU is used: NVML says: %s", words_of(error))
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def text_of(value: str | bytes) -> str:
    """A string of NVML, which was bytes in older versions."""
    return value.decode() if isinstance(value, bytes) else value
