"""A device is found under whatever somebody calls it."""

import math

import pytest

from gavelx.accelerators import UNSPECIFIED
from gavelx.files.data_sheets import load_data_sheets


@pytest.mark.parametrize(("name", "memory_gb"), [
    ("V100", 16), ("v100-32gb", 32), ("Tesla V100-SXM2-16GB", 16), ("NVIDIA A100-SXM4-80GB", 80),
    ("NVIDIA GeForce RTX 3090", 24), ("a100_40gb", 40), ("h100", 80), ("T4", 16), ("mi300x", 192),
])  # fmt: skip
def test_memory(name: str, memory_gb: float) -> None:
    assert load_data_sheets().find(name).memory_gb == pytest.approx(memory_gb)


def test_several_forms_are_averaged() -> None:
    sheets = load_data_sheets()
    some, forms = sheets.find("a100"), ("a100-40gb-pcie", "a100-40gb-sxm", "a100-80gb-pcie", "a100-80gb-sxm")
    bandwidths = [sheets.find(form).bandwidth_gb_s for form in forms]
    assert some.bandwidth_gb_s == pytest.approx(math.prod(bandwidths) ** 0.25)


@pytest.mark.parametrize("name", ["", "cpu", "rtx", "80gb", "titan of tomorrow"])
def test_nobody_knows_it(name: str) -> None:
    assert load_data_sheets().find(name) is UNSPECIFIED
