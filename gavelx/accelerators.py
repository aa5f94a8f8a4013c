"""Data sheets of accelerator types: the figures that say most about speed."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

_MAKERS = {"nvidia", "tesla", "geforce", "quadro", "amd", "instinct", "radeon", "google", "aws", "gpu", "cloud"}


class Specification(NamedTuple):
    """A data sheet: memory (GB), its bandwidth (GB/s), and dense TFLOP/s in fp32 and on tensor cores.

    NaN for an unknown figure.
    """

    memory_gb: float = math.nan
    bandwidth_gb_s: float = math.nan
    fp32_tflops: float = math.nan
    tensor_tflops: float = math.nan


UNSPECIFIED = Specification()


@dataclass(frozen=True)
class DataSheets:
    """Specifications by accelerator name, in any usual spelling.

    ``a100``, ``A100_80GB`` and ``NVIDIA A100-SXM4-80GB`` are looked up word by word. Every device whose chip is
    in the name is a candidate; those that share most of the other words (memory, form) remain. If several remain,
    each figure is their geometric mean.
    """

    by_name: Mapping[str, Specification]
    aliases: Mapping[str, str]

    def find(self, name: str) -> Specification:
        """The specification of a device; :data:`UNSPECIFIED` for an unknown name."""
        key = name.strip().lower()
        key = self.aliases.get(key, key)
        if key in self.by_name:
            return self.by_name[key]
        words = [word for word in re.split(r"[^a-z0-9]+", key) if word and word not in _MAKERS]
        spelled = {*words, *map("".join, pairwise(words))}
        shared = {other: _shared_words(other, spelled) for other in self.by_name}
        best = max(shared.values(), default=0)
        return (
            _mean([self.by_name[other] for other, count in shared.items() if count == best])
            if best
            else UNSPECIFIED
        )

    def has(self, name: str) -> bool:
        """Whether there is a data sheet for this device."""
        return self.find(name) is not UNSPECIFIED


NO_DATA_SHEETS = DataSheets({}, {})


def _shared_words(device: str, spelled: set[str]) -> int:
    """Number of a device name's words in the spelling, also in forms such as sxm4 for sxm; 0 without its chip."""
    chip, *others = device.split("-")
    if chip not in spelled:
        return 0
    return 1 + sum(any(word.startswith(other) for word in spelled) for other in others)


def _mean(found: list[Specification]) -> Specification:
    """The geometric mean of each figure, over the data sheets that have it."""
    columns = ([value for value in figures if value > 0] for figures in zip(*found, strict=True))
    return Specification(
        *(math.exp(sum(map(math.log, known)) / len(known)) if known else math.nan for known in columns)
    )
