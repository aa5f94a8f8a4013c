"""A device is found by whatever it is called."""

import math
import random
import re
from collections.abc import Iterator
from itertools import permutations, product

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


DRIVERS_SAY = {
    "k80": "Tesla K80",
    "p100-pcie": "Tesla P100-PCIE-16GB",
    "p100-sxm": "Tesla P100-SXM2-16GB",
    "p100-12gb-pcie": "Tesla P100-PCIE-12GB",
    "m40-12gb": "Tesla M40",
    "m40-24gb": "Tesla M40 24GB",
    "v100-16gb-pcie": "Tesla V100-PCIE-16GB",
    "v100-16gb-sxm": "Tesla V100-SXM2-16GB",
    "v100-16gb-fhhl": "Tesla V100-FHHL-16GB",
    "v100-32gb-sxm": "Tesla V100-SXM2-32GB, Tesla V100-SXM3-32GB, Tesla V100-SXM3-32GB-H, Tesla V100-DGXS-32GB",
    "v100-32gb-pcie": "Tesla V100-PCIE-32GB",
    "v100s-32gb-pcie": "Tesla V100S-PCIE-32GB",
    "gtx1080": "NVIDIA GeForce GTX 1080",
    "gtx1080ti": "NVIDIA GeForce GTX 1080 Ti, GeForce GTX 1080 Ti",
    "titanxp": "NVIDIA TITAN Xp, TITAN Xp",
    "titanv": "NVIDIA TITAN V, TITAN V",
    "titanrtx": "NVIDIA TITAN RTX, TITAN RTX",
    "rtx4000": "Quadro RTX 4000",
    "rtx5000": "Quadro RTX 5000",
    "rtx6000": "Quadro RTX 6000",
    "rtx8000": "Quadro RTX 8000",
    "a100-40gb-pcie": "NVIDIA A100-PCIE-40GB",
    "a100-40gb-sxm": "NVIDIA A100-SXM4-40GB",
    "a100-64gb-sxm": "NVIDIA A100-SXM-64GB",
    "a100-80gb-pcie": "NVIDIA A100 80GB PCIe",
    "a100-80gb-sxm": "NVIDIA A100-SXM4-80GB",
    "a800-40gb-pcie": "NVIDIA A800-PCIE-40GB, NVIDIA A800 40GB Active",
    "a800-80gb-pcie": "NVIDIA A800 80GB PCIe",
    "a800-80gb-sxm": "NVIDIA A800-SXM4-80GB",
    "rtx3060-12gb": "NVIDIA GeForce RTX 3060",
    "rtx3080-12gb": "NVIDIA GeForce RTX 3080 12GB",
    "rtx4060ti-8gb": "NVIDIA GeForce RTX 4060 Ti",
    "rtx5060ti-8gb": "NVIDIA GeForce RTX 5060 Ti",
    "rtx2000-ada": "NVIDIA RTX 2000 Ada Generation",
    "rtx4000-ada": "NVIDIA RTX 4000 Ada Generation",
    "rtx4000-ada-sff": "NVIDIA RTX 4000 SFF Ada Generation",
    "rtx4500-ada": "NVIDIA RTX 4500 Ada Generation",
    "rtx5000-ada": "NVIDIA RTX 5000 Ada Generation",
    "rtx5880-ada": "NVIDIA RTX 5880 Ada Generation",
    "rtx6000-ada": "NVIDIA RTX 6000 Ada Generation",
    "rtxpro4000-sff": "NVIDIA RTX PRO 4000 Blackwell SFF Edition",
    "rtxpro5000-48gb": "NVIDIA RTX PRO 5000 Blackwell",
    "rtxpro5000-72gb": "NVIDIA RTX PRO 5000 72GB Blackwell",
    "rtxpro6000": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "rtxpro6000-workstation": "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
    "rtxpro6000-maxq": "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    "h100-80gb-pcie": "NVIDIA H100 PCIe",
    "h100-80gb-sxm": "NVIDIA H100 80GB HBM3",
    "h100-64gb-sxm": "NVIDIA H100 64GB HBM2",
    "h100-94gb-sxm": "NVIDIA H100 SXM5 94GB",
    "h100-96gb-sxm": "NVIDIA H100 96GB HBM3",
    "h100-94gb-nvl": "NVIDIA H100 NVL",
    "h800-80gb-pcie": "NVIDIA H800 PCIe",
    "h800-80gb-sxm": "NVIDIA H800",
    "h20-96gb": "NVIDIA H20",
    "h20-141gb-3e": "NVIDIA H20-3e",
    "h200-141gb-sxm": "NVIDIA H200",
    "h200-141gb-nvl": "NVIDIA H200 NVL",
    "gh200-96gb": "NVIDIA GH200 480GB, NVIDIA GH200 120GB",
    "gh200-144gb": "NVIDIA GH200 144G HBM3e",
    "b200-192gb-sxm": "NVIDIA B200",
    "b300-288gb-sxm": "NVIDIA B300 SXM6 AC",
    "mi50-16gb": "AMD Instinct MI50",
    "mi250x": "AMD Instinct MI250X, AMD Instinct MI250X / MI250",
    "mi300x": "AMD Instinct MI300X, AMD Instinct MI300X VF, AMD Instinct MI300X OAM",
    "v520": "AMD Radeon Pro V520",
    "w7900": "AMD Radeon PRO W7900",
    "rx7900xtx": "AMD Radeon RX 7900 XTX",
    "r9700": "AMD Radeon AI PRO R9700",
    "max1100": "Intel(R) Data Center GPU Max 1100",
    "max1550": "Intel(R) Data Center GPU Max 1550",
}
"""Drivers call the other cards NVIDIA and their name, in words: :func:`drivers_say`."""
ONLY_IN_TEXT = ("rtx3060-8gb", "rtx4060ti-16gb", "rtx5060ti-16gb", "mi50-32gb", "b100-192gb-sxm")
"""Cards that drivers call as another one, but for the memory; and one that drivers do not know."""


def drivers_say(device: str) -> list[str]:
    """What drivers print for a device: ``NVIDIA GeForce RTX 4070 Ti SUPER``, ``NVIDIA RTX A6000``."""
    if device in DRIVERS_SAY:
        return DRIVERS_SAY[device].split(", ")
    if match := re.fullmatch(r"rtx(\d0[5-9]0)(ti)?(super)?(d)?", device):
        number, ti, super_, d = match.groups()
        return [" ".join(filter(None, ("NVIDIA GeForce RTX", number, ti and "Ti", super_ and "SUPER", d and "D")))]
    if match := re.fullmatch(r"rtxpro(\d+)", device):
        return [f"NVIDIA RTX PRO {match[1]} Blackwell"]
    if re.fullmatch(r"a[456][05]00", device):
        return [f"NVIDIA RTX {device.upper()}"]
    return [f"AMD Instinct {device.upper()}" if device.startswith("mi") else f"NVIDIA {device.upper()}"]


def spelled(said: str) -> Iterator[str]:
    """The spellings of what a driver says, as clusters have them."""
    for name in (said, re.sub("^(NVIDIA|AMD|Tesla|Quadro) ", "", said), said.replace("GeForce ", "")):
        yield from (name, name.lower(), name.upper(), f" {name} ")
        yield from (name.replace(" ", "-"), f"{name.replace(' ', '-')}-SHARED")  # nvidia.com/gpu.product
        underscored = name.lower().replace(" ", "_")
        yield from (underscored, f"gpu:{underscored}", underscored.replace("-", "_"))  # gres of Slurm
        yield name.replace(" ", "_")  # amd.com/gpu.product-name


GPUS = [device for device in SHEETS.by_name if not device.startswith(("tpu", "gaudi", "trainium", "inferentia"))]


@pytest.mark.parametrize("device", [device for device in GPUS if device not in ONLY_IN_TEXT])
def test_what_drivers_slurm_and_kubernetes_say_means_this_card(device: str) -> None:
    for said in drivers_say(device):
        for name in spelled(said):
            assert device_of(name) == device, name


@pytest.mark.parametrize("device", GPUS)
def test_a_slice_is_of_the_card_that_is_named(device: str) -> None:
    memory_gb = SHEETS.by_name[device].memory_gb
    if device in ONLY_IN_TEXT or memory_gb < 24:
        return
    profile = f"1g.{memory_gb / 8:.0f}gb"
    for said in drivers_say(device):
        lower = said.lower().replace(" ", "_")
        for name in (f"{said} MIG {profile}", f"{said.replace(' ', '-')}-MIG-{profile}", f"{lower}_{profile}"):
            assert device_of(name) == f"{device}-{profile}", name


@pytest.mark.parametrize("device", SHEETS.by_name)
def test_a_name_of_the_table_means_its_device_however_it_is_written(device: str) -> None:
    """Memory as 80gb, 80g, 80 or 80GiB, a form of its own or run together, each order of words."""
    chip, *more = device.split("-")
    short = [[word, word[:-1], word[:-2], f"{word[:-1]}iB"] if word.endswith("gb") else [word] for word in more]
    for words in product(*short):
        for order in permutations(words):
            for separator in "-_ .:":
                name = separator.join((chip, *order))
                assert device_of(name) == device_of(f"gpu:{name.upper()}") == device, name
            forms = [word for word in order if word in ("sxm", "pcie", "nvl", "ada", "maxq", "workstation")]
            rest = [word for word in order if word not in forms]
            assert device_of("_".join((chip + "".join(forms), *rest))) == device


CATALOGUES = {  # names in the instance documents and catalogues of clouds, and in gres of Slurm clusters
    "a100-40gb-sxm": "nvidia-tesla-a100, gpu_1x_a100_sxm4, gpu_8x_a100, A100_SXM4, A100_NVLINK, a100-40",
    "a100-40gb-pcie": "A100_PCIE_40GB, Nvidia PCIe A100 GPU (40GB), A100_PCIE",
    "a100-80gb-sxm": "gpu_8x_a100_80gb_sxm4, A100-80GB-SXM, A100_NVLINK_80GB, a100_80, nvidia-a100-80gb",
    "a100-80gb-pcie": "NVIDIA A100 PCIe 80 GB, Nvidia PCIe A100 GPU (80GB)",
    "h100-80gb-sxm": "H100-SXM, gpu_8x_h100_sxm5, H100_NVLINK_80GB, nvidia-h100-mega-80gb, H100-MEGA, h100_80",
    "h100-80gb-pcie": "gpu_1x_h100_pcie, H100_PCIE, H100-PCIe",
    "h100-94gb-nvl": "H100-NVL, H100_NVL, NVIDIA H100 NVL GPU (94GB), h100_94, h100-94gb",
    "h100-96gb-sxm": "h100_96, gpu:h100-96",
    "h200-141gb-sxm": "H200-SXM, nvidia-h200-141gb, gpu:h200:141",
    "b200-192gb-sxm": "nvidia-b200, b200-180gb, gpu_8x_b200_sxm6, NVIDIA HGX B200, NVIDIA B200 GPU (179 GiB)",
    "b300-288gb-sxm": "nvidia-b300, b300-270gb, NVIDIA HGX B300, B300-SXM6-AC",
    "gb200": "GB200-186GB, nvidia-gb200, GB200-NVL72, gb200-nvl4",
    "gb300": "nvidia-gb300, GB300-NVL72",
    "gh200-96gb": "gpu_1x_gh200, GH200_480GB, NVIDIA-GH200-480GB, nvidia_gh200_120gb",
    "rtxpro6000": "NVIDIA RTX PRO Server 6000 GPU, rtx-pro-server-6000, nvidia-rtx-pro-6000, RTX_PRO_6000_S",
    "rtxpro6000-workstation": "RTX_PRO_6000_WS, RTX PRO 6000 Workstation",
    "rtx6000-ada": "RTX6000-Ada, RTX_6000Ada, rtx6000ada, rtx_6000_ada",
    "rtx4000-ada": "RTX4000-Ada, RTX_4000Ada",
    "a6000": "RTXA6000, rtxa6000, RTX_A6000, gpu_1x_a6000",
    "a5000": "RTXA5000, rtx_a5000",
    "a4500": "RTXA4500",
    "rtx3090": "3090, gpu:3090, geforce_rtx_3090, RTX-3090",
    "rtx2080ti": "2080ti, gpu:2080ti, 2080_ti, RTX2080Ti",
    "gtx1080ti": "1080ti, gtx_1080_ti, geforce_gtx_1080_ti",
    "rtx4070tisuper": "rtx4070ti_super, rtx_4070_ti_super, RTX4070TiSuper",
    "titanrtx": "titan_rtx, titan-rtx",
    "v100-32gb-sxm": "V100-32GB, v100_32, tesla_v100-sxm2-32gb, Tesla_V100_NVLINK_32GB",
    "v100-16gb-sxm": "gpu_8x_v100, TeslaV100, nvidia-tesla-v100",
    "p4": "nvidia-tesla-p4, P4",
    "t4g": "NVIDIA T4g GPU, T4g",
    "v520": "Radeon Pro V520, radeon-pro-v520",
    "gaudi1": "Habana Gaudi HL-205 GPU, Gaudi HL-205, gaudi-hl-205",
    "trainium1": "AWS Trainium accelerators, Trainium, trn1",
    "trainium2": "AWS Trainium2 accelerators, Trainium2, trn2",
    "inferentia2": "AWS Inferentia2 inference accelerator, Inferentia2",
    "tpu-v5e": "v5litepod-8, tpu-v5litepod-8, tpu-v5-lite-podslice, TPU v5 lite",
    "tpu-v5p": "v5p-8, tpu-v5p-8",
    "tpu-v6e": "v6e-8, tpu-v6e-slice, tpu-v6e-256",
    "tpu-v7": "tpu7x, TPU7x-8, tpu-v7",
    "mi300x": "AMD Instinct MI300X GPU (192GB), MI300X, AMD_Instinct_MI300X_OAM",
    "max1550": "gpu:max1550, intel_max_1550",
}


@pytest.mark.parametrize(
    ("device", "name"), [(d, name) for d, names in CATALOGUES.items() for name in names.split(", ")]
)
def test_a_name_of_a_catalogue_means_its_device(device: str, name: str) -> None:
    assert device_of(name) == device


@pytest.mark.parametrize("variant", ["laptop", "mobile", "max-q", "sff", "ti", "super", "d"])
def test_a_variant_is_no_card_of_the_same_number(variant: str) -> None:
    """But where the table has it."""
    for device in GPUS:
        for name in (f"{device} {variant}", f"{device}_{variant}".replace("-", "_")):
            found = device_of(name)
            assert found == name or variant.replace("-", "") in found, name


@pytest.mark.parametrize(
    "name",
    [
        *("", "cpu", "rtx", "80gb", "titan of tomorrow", "tpu", "gb", "x", "-", "1g.5gb", "mig", "a1000", "v1000"),
        *("a100-24gb", "h100-40gb", "NVIDIA GeForce RTX 4060", "RTX 4090 Laptop GPU", "t4-80gb"),
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
