"""A device is found by whatever it is called."""

import math
import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.accelerators import UNSPECIFIED
from gavelx.files.data_sheets import device_of, load_data_sheets
from gavelx.files.energy_tables import load_tdp_w
from gavelx.files.price_tables import load_prices

SHEETS = load_data_sheets()
SPELLED = {
    "k80": "K80, Tesla K80, nvidia-tesla-k80, tesla_k80, gpu:k80",
    "p100-pcie": "p100, Tesla P100-PCIE-16GB, nvidia-tesla-p100, P100-16GB",
    "v100-16gb-sxm": "v100, V100-16GB, Tesla V100-SXM2-16GB, nvidia-tesla-v100, tesla_v100-sxm2-16gb, gpu:v100",
    "v100-32gb-sxm": "v100-32gb, V100-32, Tesla V100-SXM2-32GB, v100_32g",
    "t4": "T4, Tesla T4, nvidia-tesla-t4, NVIDIA T4, t4-16gb",
    "l4": "L4, NVIDIA L4, nvidia-l4",
    "l40": "L40, NVIDIA L40",
    "l40s": "L40S, NVIDIA L40S, nvidia_l40s",
    "a10": "A10, NVIDIA A10",
    "a10g": "A10G, NVIDIA A10G",
    "a30": "A30, NVIDIA A30",
    "a40": "A40, NVIDIA A40",
    "a6000": "A6000, NVIDIA RTX A6000, rtx_a6000",
    "rtx6000": "Quadro RTX 6000, rtx6000",
    "rtx6000-ada": "NVIDIA RTX 6000 Ada Generation, rtx_6000_ada, RTX6000-Ada",
    "rtxpro6000": "NVIDIA RTX PRO 6000 Blackwell Server Edition, nvidia-rtx-pro-6000, RTXPRO6000",
    "rtx2080ti": "NVIDIA GeForce RTX 2080 Ti, rtx2080ti, RTX_2080_Ti",
    "rtx4090": "NVIDIA GeForce RTX 4090, rtx4090, RTX-4090",
    "a100-40gb-sxm": "a100, A100-40GB, NVIDIA A100-SXM4-40GB, a100_40g, gpu:a100, nvidia-tesla-a100",
    "a100-40gb-pcie": "NVIDIA A100-PCIE-40GB, a100-40gb-pcie",
    "a100-80gb-sxm": "a100-80gb, NVIDIA A100-SXM4-80GB, a100_80g, nvidia-a100-80gb, A100-80, A100-SXM-80GB",
    "a100-80gb-pcie": "NVIDIA A100 80GB PCIe, a100_pcie_80gb",
    "h100-80gb-sxm": "h100, NVIDIA H100 80GB HBM3, nvidia_h100_80gb_hbm3, h100sxm5, nvidia-h100-mega-80gb",
    "h100-80gb-pcie": "NVIDIA H100 PCIe, h100pcie",
    "h100-94gb-nvl": "NVIDIA H100 NVL, h100_nvl",
    "h200-141gb-sxm": "H200, NVIDIA H200, nvidia-h200-141gb",
    "h200-141gb-nvl": "NVIDIA H200 NVL, h200-nvl",
    "gh200-96gb": "GH200, gpu_1x_gh200, gh200-480gb, NVIDIA GH200 480GB, gh200 96gb",
    "gh200-144gb": "NVIDIA GH200 144G HBM3e, gh200-144gb",
    "gb200": "nvidia-gb200, gb200-186gb, GB200 NVL72",
    "gb300": "NVIDIA GB300, gb300-288gb",
    "mi355x": "AMD Instinct MI355X",
    "tpu-v7": "tpu7x, TPU v7",
    "gaudi3": "Intel Gaudi 3, gaudi-3",
    "b200-192gb-sxm": "B200, NVIDIA B200",
    "mi250x": "MI250X, AMD Instinct MI250X",
    "mi300x": "mi300x, AMD Instinct MI300X, AMD_Instinct_MI300X_OAM",
    "tpu-v4": "tpu-v4, TPU v4, tpu-v4-podslice",
    "tpu-v5e": "tpu-v5e, tpu-v5-lite-podslice, tpu-v5-lite-device, v5litepod-4, tpu-v5litepod",
    "tpu-v5p": "tpu-v5p, tpu-v5p-slice, TPU v5p",
    "tpu-v6e": "tpu-v6e-slice, TPU-V6E",
    "a100-40gb-sxm-1g.5gb": "NVIDIA A100-SXM4-40GB MIG 1g.5gb, a100-mig-1g.5gb, NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
    "a100-80gb-sxm-3g.40gb": "a100_3g.40gb, A100-80GB-3g.40gb, gpu:a100_3g.40gb",
    "h100-80gb-sxm-1g.10gb": "NVIDIA H100 80GB HBM3 MIG 1g.10gb, h100_1g.10gb",
}


@pytest.mark.parametrize(
    ("device", "name"), [(d, name) for d, names in SPELLED.items() for name in names.split(", ")]
)
def test_a_spelling_means_its_device(device: str, name: str) -> None:
    assert device_of(name) == device
    assert SHEETS.find(name).memory_gb > 0


def test_every_device_of_the_table_is_found_in_hundreds_of_spellings() -> None:
    """Makers before it, other separators, another case, words of its name in another order."""
    random.seed(4)
    for device, separator, maker in product(SHEETS.by_name, "-_ ", ("", "nvidia", "gpu")):
        words = device.split("-")
        tail = words[1:]
        random.shuffle(tail)
        name = separator.join(filter(None, (maker, words[0], *tail)))
        assert device_of(random.choice((name, name.upper(), name.title()))) == device


@pytest.mark.parametrize(
    "name",
    [
        *("", "cpu", "rtx", "80gb", "titan of tomorrow", "tpu", "gb", "x", "-", "1g.5gb", "mig", "a1000", "v1000"),
        *("a100-24gb", "h100-40gb", "NVIDIA GeForce RTX 3090 Ti", "RTX 4090 Laptop GPU", "t4-80gb"),
    ],
)
def test_an_unknown_name_stays_as_it_is(name: str) -> None:
    assert SHEETS.find(name) is UNSPECIFIED
    assert device_of(name) == name.lower()


@given(st.text(max_size=80))
def test_any_text_is_a_name(name: str) -> None:
    assert device_of(name) in {*SHEETS.by_name, name.strip().lower()} or "g." in name


def test_a_slice_has_its_part_of_the_device() -> None:
    whole, part = SHEETS.find("A100-SXM4-40GB"), SHEETS.find("A100-SXM4-40GB MIG 3g.20gb")
    assert (part.memory_gb, part.bandwidth_gb_s) == (20.0, whole.bandwidth_gb_s / 2)
    assert part.tensor_tflops == pytest.approx(whole.tensor_tflops * 3 / 7)
    assert SHEETS.find("a30-1g.6gb").fp32_tflops == pytest.approx(SHEETS.find("a30").fp32_tflops / 4)
    assert SHEETS.find("a100-7g.40gb").bandwidth_gb_s == whole.bandwidth_gb_s


def test_prices_and_power_are_found_under_any_spelling() -> None:
    cloud = load_prices("gcp", ["a100-80gb", "NVIDIA A100-SXM4-80GB", "nvidia-l4", "h100"])
    assert cloud.of("nvidia a100-sxm4-80gb") == cloud.of("a100-80gb") > 0
    assert cloud.of("h100") > cloud.of("nvidia-l4") > 0
    listed = load_prices("a100_80g=2.5", ["NVIDIA A100-SXM4-80GB"])
    assert listed.of("nvidia a100-sxm4-80gb") == 2.5
    assert load_tdp_w(["NVIDIA H100 80GB HBM3", "nobody's"]) == {"nvidia h100 80gb hbm3": 700.0}


def test_unknown_figures_are_no_numbers() -> None:
    assert all(map(math.isnan, UNSPECIFIED))
