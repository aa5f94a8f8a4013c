"""The specifications of accelerator types that gavelx ships: ``throughputs/accelerators.csv`` and its aliases."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from gavelx.accelerators import DataSheets, Specification
from gavelx.files.csvs import Row, read_rows
from gavelx.files.locate import data_path


@cache
def load_data_sheets() -> DataSheets:
    """Every accelerator type of the shipped table, under its own name and its aliases."""
    rows = read_rows(data_path("throughputs", "accelerators"), ("accelerator", "memory_gb"))
    by_name = {row.text("accelerator").lower(): _specification(row) for row in rows}
    return DataSheets(by_name, accelerator_aliases())


@cache
def accelerator_aliases() -> dict[str, str]:
    """Short accelerator name -> the device in ``accelerators.csv`` that it stands for; all lower case."""
    rows = read_rows(data_path("throughputs", "accelerator_aliases"), ("name", "accelerator"))
    return {row.text("name").lower(): row.text("accelerator").lower() for row in rows}


def device_of(accelerator: str) -> str:
    """The device that a name of an accelerator type means: one text for all its spellings.

    >>> [device_of(name) for name in ("K80", "V100-16GB", "NVIDIA A100-SXM4-80GB", "my-asic")]
    ['k80', 'v100-16gb-sxm', 'a100-80gb-sxm', 'my-asic']
    """
    return _devices(accelerator)


@cache
def _devices(accelerator: str) -> str:
    return load_data_sheets().device(accelerator)


def meant_by(accelerators: Sequence[str]) -> Callable[[str], str | None]:
    """A function from a name to one of these types: the type of this name, or one that is the same device.

    >>> [meant_by(["v100", "k80"])(name) for name in ("K80", "V100-16GB", "a100")]
    ['k80', 'v100', None]
    """
    type_of = {device_of(name): name for name in accelerators} | {name: name for name in accelerators}

    def meant(name: str) -> str | None:
        return type_of.get(name.lower()) or type_of.get(device_of(name))

    return meant


def other_spellings(accelerators: Iterable[str], known: Sequence[str]) -> dict[str, str]:
    """Which of these types are known types under another name: ``tesla-v100-sxm2-16gb`` is ``v100``."""
    meant = meant_by(known)
    return {name: same for name in accelerators if name not in known and (same := meant(name)) is not None}


def _specification(row: Row) -> Specification:
    columns = (
        "memory_gb",
        "memory_bandwidth_gb_s",
        "tdp_w",
        "link_gb_s",
        "fp32_tflops",
        "fp16_dense_tflops",
        "tf32_dense_tflops",
    )
    memory, bandwidth, tdp_w, link, fp32, *others = (row.number(name, low=0, default=math.nan) for name in columns)
    arithmetic = [tflops for tflops in (fp32, *others) if tflops > 0]
    return Specification(memory, bandwidth, fp32, max(arithmetic, default=math.nan), tdp_w, link)
