"""Accelerator types: their data sheets, and which of them a name means, however it is spelled."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, product
from typing import NamedTuple

_SAY_NOTHING = {
    "nvidia",
    "tesla",
    "geforce",
    "quadro",
    "amd",
    "instinct",
    "radeon",
    "google",
    "aws",
    "gpu",
    "cloud",
    "intel",
    "habana",
    "server",
    "accelerator",
    "accelerators",
    "inference",
}
"""Makers, their series, and other words without which a name says the same."""
_LITE_TPU = re.compile(r"(tpu[-_ ]?)?v(\d)[-_ ]?lite(pod)?")
_REWRITTEN = (
    (_LITE_TPU, r"tpu v\2e "),
    (re.compile(r"\btpu[-_ ]?(?:v?7x?)\b"), "tpu v7 "),
    (re.compile(r"^v(\d[ep]?)-\d+$"), r"tpu v\1"),
    (re.compile(r"gh200[-_ ](?:120|240|480)gb?\b"), "gh200 96gb"),  # the memory of its processor
    (re.compile(r"(sxm|pcie|nvl|hbm|(?<=[\df])ada|laptop|mobile|maxq|sff|workstation)"), r" \1"),
    (re.compile(r"\b(tesla|quadro|geforce)(?=[a-z]*\d)"), r"\1 "),
    (re.compile(r"rtxa(?=\d)"), "rtx a"),
)
"""Other ways to write the same, as they are rewritten before a name is cut into words: ``v5litepod-4``, ``v6e-8``
(Google), ``gh200-480gb`` (drivers), ``a100sxm4``, ``rtx6000ada``, ``teslav100``, ``rtxa6000`` (Slurm)."""
_GEFORCE = re.compile(r"(?:(10[5-8]0)|[2-5]0[5-9]0)(?:ti|super|tisuper|d)?")
"""A number that only GeForce cards have: ``2080ti``, and ``rtx2080ti`` is the same."""
_MEMORY = re.compile(r"(\d{1,3})g(?:i?b)?")
_SLICE = re.compile(r"(\d)g\.(\d+)gb")
"""A MIG profile: compute slices and memory, 1g.5gb."""
_VARIANTS = ("ti", "super", "laptop", "mobile", "maxq", "sff", "d")
"""Words of other cards of the same number."""
_SHARE = re.compile(r"\d+[abcq]")
"""A part of a device of which no data sheet follows: a virtual GPU, A10-4Q, or a slice of a slice, 1c.2g.10gb."""
_MEANS = {"hbm3": "sxm", "hbm3e": "sxm", "ws": "workstation"}
"""Other words for a form: drivers say HBM3 of an H100 with SXM (the PCIe card has HBM2e)."""
MEMORY_ROUNDING = 0.08
"""Part by which a memory in a name may differ from a data sheet's: 141 or 144 GB."""


class Specification(NamedTuple):
    """A data sheet: memory (GB), its bandwidth (GB/s), dense TFLOP/s in fp32 and on tensor cores, and the link.

    ``link_gb_s`` is what a device sends to the others of its server, in one direction. NaN for an unknown figure.
    """

    memory_gb: float = math.nan
    bandwidth_gb_s: float = math.nan
    fp32_tflops: float = math.nan
    tensor_tflops: float = math.nan
    tdp_w: float = math.nan
    link_gb_s: float = math.nan


UNSPECIFIED = Specification()


class Slice(NamedTuple):
    """A part of a device that works as a device of its own (MIG): its compute slices and memory (GB)."""

    compute: int
    memory_gb: int

    def is_usual(self, whole: Specification) -> bool:
        """Whether a device of this memory has a profile with just these slices of memory."""
        return round(8 * self.memory_gb / whole.memory_gb) == {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}.get(self.compute)

    def of(self, whole: Specification) -> Specification:
        """The data sheet of this part of a device.

        A device has 7 slices of compute and 8 of memory with their bandwidth; one of 24 GB has 4 of compute.
        No slice has a link to others. Power is taken to be in proportion to compute, which no source says. Source:
        NVIDIA's Multi-Instance GPU User Guide, "Supported MIG Profiles".
        """
        compute = min(1.0, self.compute / (4 if whole.memory_gb <= 24 else 7))
        return Specification(
            memory_gb=float(self.memory_gb),
            bandwidth_gb_s=whole.bandwidth_gb_s * min(8, round(8 * self.memory_gb / whole.memory_gb)) / 8,
            fp32_tflops=whole.fp32_tflops * compute,
            tensor_tflops=whole.tensor_tflops * compute,
            tdp_w=whole.tdp_w * compute,
        )


@dataclass(frozen=True, eq=False)
class DataSheets:
    """Specifications by the name of a device, which is found in any usual spelling.

    Clouds, Slurm, drivers and people spell one device in many ways: ``a100_80g``, ``NVIDIA A100-SXM4-80GB``,
    ``nvidia-h100-80gb``, ``gpu:a100``, ``tpu-v5-lite-podslice``, ``NVIDIA-A100-SXM4-40GB-MIG-1g.5gb``. A name
    means the device whose chip it has among its words, and of several forms of a chip (memory, SXM or PCIe) the
    one that shares most words, the memory counting most. Where the name leaves that open it is the one that
    ``aliases`` has for the chip alone, or SXM, or the first in the table. A memory that no form has is no device
    that we know.
    """

    by_name: Mapping[str, Specification]
    aliases: Mapping[str, str]

    def find(self, name: str) -> Specification:
        """The specification of a device; :data:`UNSPECIFIED` for an unknown name."""
        device, part = self._found(name.strip().lower())
        whole = self.by_name.get(device, UNSPECIFIED)
        return whole if part is None or not device else part.of(whole)

    def device(self, name: str) -> str:
        """The device that a name means, one text for all spellings; an unknown name in lower case.

        >>> sheets = DataSheets({"a100-80gb-sxm": Specification(80.0)}, {})
        >>> [sheets.device(name) for name in ("NVIDIA A100-SXM4-80GB", "a100_80g", "a100-80gb-mig-1g.10gb", "XPU")]
        ['a100-80gb-sxm', 'a100-80gb-sxm', 'a100-80gb-sxm-1g.10gb', 'xpu']
        """
        plain = name.strip().lower()
        device, part = self._found(plain)
        if not device:
            return plain
        return device if part is None else f"{device}-{part.compute}g.{part.memory_gb}gb"

    def _found(self, plain: str) -> tuple[str, Slice | None]:
        """The device, or an empty text; and the part of it that is meant, if not all."""
        if (profile := _SLICE.search(plain)) is None:
            return self._whole(plain, None), None
        part = Slice(int(profile[1]), int(profile[2]))
        return self._whole(_SLICE.sub(" ", plain).strip(" -_"), part), part

    def _whole(self, plain: str, part: Slice | None) -> str:
        words = set(_words(plain))
        named = next((self.aliases[name] for name in (plain, _joined(plain)) if name in self.aliases), plain)
        if named in self.by_name:
            return named
        scores = {device: self._score(device, words) for device in self.by_name}
        best = max(scores.values(), default=0)
        if best == 0:
            return ""
        left = [device for device, score in scores.items() if score == best]
        if part is not None:
            left = [device for device in left if part.is_usual(self.by_name[device])] or left
        short = accumulate(left[0].split("-"), "{}-{}".format)
        usual = next((self.aliases[name] for name in short if self.aliases.get(name) in left), None)
        return usual or min(left, key=lambda device: not device.endswith("sxm"))

    def _score(self, device: str, words: set[str]) -> int:
        """How well a device fits the words of a name; 0: it cannot be this one."""
        chip, *others = device.split("-")
        if chip not in words or (chip == "tpu" and not words & {*others}):
            return 0
        variant_of = (chip.lstrip("abcdefghijklmnopqrstuvwxyz").lstrip("0123456789"), *others)
        if any(variant in words and not any(variant in part for part in variant_of) for variant in _VARIANTS):
            return 0
        if any(_SHARE.fullmatch(word) for word in words):
            return 0
        for word in words:
            if (gb := _MEMORY.fullmatch(word)) and not math.isclose(
                int(gb[1]), self.by_name[device].memory_gb, rel_tol=MEMORY_ROUNDING
            ):
                return 0
        shared = (other for other in others if {other, other.removesuffix("gb")} & words)
        return 1 + sum(2 if _MEMORY.fullmatch(other) else 1 for other in shared)

    def has(self, name: str) -> bool:
        """Whether there is a data sheet for this device."""
        return self.find(name) is not UNSPECIFIED


NO_DATA_SHEETS = DataSheets({}, {})


def _plain_words(plain: str) -> list[str]:
    for pattern, instead in _REWRITTEN:
        plain = pattern.sub(instead, plain)
    return [word for word in re.split(r"[^a-z0-9]+", plain) if word and word not in _SAY_NOTHING]


def _joined(plain: str) -> str:
    """A name without words that say nothing, as aliases are written."""
    return "-".join(_plain_words(plain))


def _words(plain: str) -> Iterator[str]:
    """The words of a name, and two to four words together: ``rtx 4070 ti super`` is ``rtx4070tisuper`` too."""
    words = _plain_words(plain)
    for word in words:
        yield _MEANS.get(word, word.rstrip("0123456789") if word.startswith("sxm") else word)
        if gb := _MEMORY.fullmatch(word):
            yield f"{gb[1]}gb"
    for count, start in product(range(1, 5), range(len(words))):
        together = "".join(words[start : start + count])
        yield together
        if number := _GEFORCE.fullmatch(together):
            yield ("gtx" if number[1] else "rtx") + together
