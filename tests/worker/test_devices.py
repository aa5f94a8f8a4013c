"""What a machine offers."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from gavelx.errors import OptionError
from gavelx.files.data_sheets import device_of, load_data_sheets
from gavelx.worker import devices
from gavelx.worker.devices import Devices, find_devices, nvml, type_of
from tests.worker.driver import Driver


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("Tesla K80", "k80"),
        ("Tesla P100-PCIE-16GB", "p100"),
        ("Tesla P100-SXM2-16GB", "p100-sxm"),
        ("Tesla P100-PCIE-12GB", "p100-12gb"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("Tesla V100-SXM2-32GB", "v100-32gb"),
        ("Tesla V100-PCIE-32GB", "v100-32gb-pcie"),
        ("Tesla V100-FHHL-16GB", "v100-fhhl"),
        ("Tesla V100S-PCIE-32GB", "v100s"),
        ("Tesla T4", "t4"),
        ("NVIDIA A100-SXM4-40GB", "a100"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("NVIDIA A100 80GB PCIe", "a100-80gb-pcie"),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", "a100-1g.10gb"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.10gb", "a100-40gb-1g.10gb"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-94gb"),
        ("NVIDIA H100 SXM5 94GB", "h100-94gb-sxm"),
        ("NVIDIA H100 96GB HBM3", "h100-96gb"),
        ("NVIDIA H100 64GB HBM2", "h100-64gb"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA H20-3e", "h20-141gb"),
        ("NVIDIA H20 MIG 1g.12gb", "h20-1g.12gb"),
        ("NVIDIA H800", "h800"),
        ("NVIDIA H800 PCIe", "h800-pcie"),
        ("NVIDIA A800-SXM4-80GB", "a800"),
        ("NVIDIA A800 40GB Active", "a800-40gb"),
        ("NVIDIA A100-SXM-64GB", "a100-64gb"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA H200 NVL", "h200-nvl"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA GH200 480GB MIG 1g.12gb", "gh200-1g.12gb"),
        ("NVIDIA GH200 120GB", "gh200"),
        ("NVIDIA GH200 144G HBM3e", "gh200-144gb"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA GB300", "gb300"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("NVIDIA GeForce GTX 1080 Ti", "gtx1080ti"),
        ("NVIDIA RTX A6000", "a6000"),
        ("NVIDIA RTX A5000", "a5000"),
        ("Quadro RTX 6000", "rtx6000"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx6000-ada"),
        ("NVIDIA RTX 5000 Ada Generation", "rtx5000-ada"),
        ("NVIDIA RTX 5000 Ada Generation Laptop GPU", "rtx5000adalaptop"),
        ("NVIDIA RTX 4000 SFF Ada Generation", "rtx4000-sff"),
        ("Quadro RTX 5000", "rtx5000"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtxpro6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtxpro6000-workstation"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtxpro6000-maxq"),
        ("NVIDIA RTX PRO 5000 Blackwell", "rtxpro5000"),
        ("NVIDIA RTX PRO 5000 72GB Blackwell", "rtxpro5000-72gb"),
        ("NVIDIA RTX PRO 4500 Blackwell", "rtxpro4500"),
        ("NVIDIA RTX A2000 12GB", "rtxa2000-12gb"),
        ("NVIDIA GeForce RTX 3080 12GB", "rtx3080-12gb"),
        ("NVIDIA GeForce RTX 4080", "rtx4080"),
        ("NVIDIA GeForce RTX 4080 SUPER", "rtx4080super"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "rtx4070tisuper"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx4090laptop"),
        ("NVIDIA GeForce RTX 4090 D", "rtx4090d"),
        ("Quadro RTX 6000 with Max-Q Design", "rtx6000maxq"),
        ("NVIDIA H100-PCIE-40GB", "h100-pcie-40gb"),
        ("NVIDIA H21-SXM5-96GB MIG 1g.12gb", "h21-sxm5-96gb-1g.12gb"),
        ("NVIDIA PG506-232", "pg506-232"),
        ("NVIDIA T1000 8GB", "t1000-8gb"),
        ("NVIDIA A100-SXM4-40GB MIG 1c.2g.10gb", "a100-sxm4-40gb-1c.2g.10gb"),
        ("NVIDIA A10-4Q", "a10-4q"),
        ("GRID V100-8Q", "grid-v100-8q"),
        ("TITAN X (Pascal)", "titanxpascal"),
        ("NVIDIA Something New", "something-new"),
        ("", "gpu"),
    ],
)
def test_products_have_short_names_that_mean_no_other_device(product: str, name: str) -> None:
    assert type_of(product) == name
    sheets = load_data_sheets()
    assert device_of(name) == device_of(product) if sheets.has(product) else not sheets.has(name)


# What drivers call cards of which some have no data sheet, with the memory (GiB) that they show.
CARDS = [
    *[("NVIDIA GeForce RTX 3060", 12.0), ("NVIDIA GeForce RTX 3060", 8.0), ("NVIDIA GeForce RTX 4060", 7.996)],
    *[("NVIDIA GeForce RTX 3080", 10.0), ("NVIDIA GeForce RTX 3080", 12.0), ("NVIDIA GeForce RTX 3080", 20.0)],
    *[("NVIDIA GeForce RTX 4060 Ti", 8.0), ("NVIDIA GeForce RTX 4060 Ti", 15.996), ("Tesla K40m", 11.17)],
    *[("NVIDIA GeForce GTX 1060", 3.0), ("NVIDIA GeForce GTX 1060", 5.93), ("NVIDIA T1000", 4.0)],
    *[("NVIDIA T1000 8GB", 8.0), ("NVIDIA RTX A2000", 5.75), ("NVIDIA RTX A2000 12GB", 11.8)],
    *[("NVIDIA H100", 79.65), ("NVIDIA H100", 93.6), ("NVIDIA H100 80GB HBM3", 79.65), ("NVIDIA H100 NVL", 93.6)],
    *[("NVIDIA PG506-230", 23.7), ("NVIDIA PG506-232", 23.7), ("NVIDIA A100X", 80.0), ("NVIDIA L40G", 23.7)],
    *[("NVIDIA H21", 95.6), ("NVIDIA H21", 140.4), ("NVIDIA H21-3e", 140.4), ("NVIDIA H21 PCIe", 95.6)],
    *[("TITAN X (Pascal)", 11.9), ("NVIDIA GeForce GTX TITAN X", 11.9), ("GRID A100-10C", 10.0)],
    *[("NVIDIA RTX 5000 Ada Generation Laptop GPU", 16.0), ("NVIDIA GeForce RTX 4090 Laptop GPU", 16.0)],
]


def test_unlike_cards_have_different_types() -> None:
    """Also where no data sheet knows them, and where the driver has one name for two memories."""
    types = {card: type_of(*card) for card in CARDS}
    assert types.pop(("NVIDIA H100 80GB HBM3", 79.65)) == types["NVIDIA H100", 79.65] == "h100"
    assert len(set(types.values())) == len(types)
    assert types["NVIDIA H100", 93.6] == "h100-94gb-sxm" and types["NVIDIA H100 NVL", 93.6] == "h100-94gb"
    assert types["NVIDIA H21-3e", 140.4] == "h21-3e-140gb"


@pytest.mark.parametrize(
    ("product", "memory_gb"),
    [
        *[
            ("Tesla K80", 11.17),
            ("Tesla M60", 7.43),
            ("Tesla T4", 14.73),
            ("Tesla P40", 22.38),
            ("NVIDIA A10", 22.49),
        ],
        *[("NVIDIA L4", 22.49), ("NVIDIA L40S", 44.99), ("NVIDIA A2", 15.0), ("Quadro RTX 6000", 22.17)],
        *[
            ("Quadro RTX 8000", 44.49),
            ("NVIDIA RTX A6000", 47.99),
            ("NVIDIA H200", 140.4),
            ("NVIDIA B200", 179.06),
        ],
        *[("NVIDIA B300 SXM6 AC", 268.6), ("NVIDIA GB200", 184.9), ("NVIDIA GB300", 277.5), ("NVIDIA A30", 24.0)],
        *[("NVIDIA GH200 480GB", 95.58), ("NVIDIA GeForce RTX 2080 Ti", 10.76), ("NVIDIA H20", 95.58)],
        *[("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 9.5), ("NVIDIA GeForce RTX 5090", 31.84)],
    ],
)
def test_memory_that_a_driver_keeps_is_no_other_card(product: str, memory_gb: float) -> None:
    assert type_of(product, memory_gb) == type_of(product)


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install a driver, or none."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def give(*products: str, **more: Any) -> None:
        @contextlib.contextmanager
        def library() -> Iterator[Any]:
            yield Driver(*products, **more) if products else None

        monkeypatch.setattr(devices, "nvml", library)

    give()
    return give


def test_gpus_are_found(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-16GB", "Tesla V100-SXM2-16GB")
    assert find_devices(None) == Devices("v100", ("GPU-0abc", "GPU-1abc", "GPU-2abc"))
    assert find_devices("V100=2") == Devices("v100", ("GPU-0abc", "GPU-1abc"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-0")
    assert find_devices(None) == Devices("v100", ("GPU-0abc", "GPU-2abc"))


def test_one_agent_serves_one_type(install: Any) -> None:
    install("Tesla V100-SXM2-16GB", "Tesla K80", "Tesla K80")
    with pytest.raises(OptionError, match="several types of GPU: k80=2, v100=1"):
        find_devices(None)
    assert find_devices("k80=2") == Devices("k80", ("GPU-1abc", "GPU-2abc"))


def test_a_type_may_be_spelled_otherwise(install: Any) -> None:
    install("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB")
    assert find_devices("A100-80GB-SXM=1") == Devices("a100-80gb-sxm", ("GPU-1abc",))


def test_gpus_of_one_name_and_two_memories_are_two_types(install: Any) -> None:
    install("NVIDIA GeForce GTX 1060", "NVIDIA GeForce GTX 1060", "NVIDIA GB10", memory_gb={0: 3.0, 1: 5.93})
    with pytest.raises(OptionError, match="several types of GPU: gb10=1, gtx1060-3gb=1, gtx1060-6gb=1"):
        find_devices(None)
    assert find_devices("gtx1060-6gb=1") == Devices("gtx1060-6gb", ("GPU-1abc",))
    assert find_devices("gtx1060=2") == Devices("gtx1060", ("GPU-0abc", "GPU-1abc"))


def test_slices_are_in_the_place_of_their_gpu(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = {1: ["3g.40gb", "3g.40gb"], 2: []}
    install(*["NVIDIA A100-SXM4-80GB"] * 3, slices=cut)
    with pytest.raises(OptionError, match=r"a100-3g.40gb=2, a100-80gb=1"):
        find_devices(None)
    assert find_devices("a100-80gb=1") == Devices("a100-80gb", ("GPU-0abc",))
    assert find_devices("a100-3g.40gb=2") == Devices("a100-3g.40gb", ("MIG-1a", "MIG-1c"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1c")
    assert find_devices(None) == Devices("a100-3g.40gb", ("MIG-1c",))


def test_slots_may_share_a_gpu(install: Any) -> None:
    install("NVIDIA H200")
    shared = find_devices("v100=3")
    assert shared == Devices("v100", ("GPU-0abc",) * 3)
    assert shared.of([0, 2]) == ("GPU-0abc",)


def test_without_gpus_slots_are_declared(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match="no GPU is found"):
        find_devices(None)
    assert find_devices("cpu=2") == Devices("cpu", ("", ""))
    assert ",".join(find_devices("cpu=2").of([0, 1])) == ""
    assert find_devices("v100=2") == Devices("v100", ("0", "1"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")  # as Slurm says where there is no driver to ask
    assert find_devices("v100=2") == Devices("v100", ("2", "3"))


@pytest.mark.parametrize("text", ["", "v100", "v100=", "=2", "v100=x", "v100=-1", "v100=0", "v100=9999", "../x=1"])
def test_what_cannot_be_read_is_said(install: Any, text: str) -> None:
    with pytest.raises(OptionError, match="--devices"):
        find_devices(text)


def test_no_driver_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    pynvml = pytest.importorskip("pynvml")

    def missing() -> None:
        raise pynvml.NVMLError_LibraryNotFound

    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    with nvml() as library:
        assert library is None


def test_nvml_is_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    calls: list[str] = []
    fake = SimpleNamespace(
        nvmlInit=lambda: calls.append("in"), nvmlShutdown=lambda: calls.append("out"), NVMLError=Exception
    )
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    with nvml() as library:
        assert library is fake
        assert calls == ["in"]
    assert calls == ["in", "out"]


class NvmlWithALostGpu:
    """NVML on a machine with eight GPUs, of which it says nothing of number 3 when asked ``what``."""

    class NVMLError(Exception):
        pass

    def __init__(self, what: str) -> None:
        self.what = what

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Callable[..., Any]] = {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlDeviceGetCount": lambda: 8,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetUUID": lambda index: f"GPU-{index}",
            "nvmlDeviceGetName": lambda index: "NVIDIA A100-SXM4-80GB",
            "nvmlDeviceGetMemoryInfo": lambda index: SimpleNamespace(total=80 * 2**30),
            "nvmlDeviceGetMigMode": lambda index: (0, 0),
        }

        def ask(*index: int) -> Any:
            if name == self.what and index == (3,):
                raise self.NVMLError("GPU is lost")
            return answers[name](*index)

        return ask


@pytest.mark.parametrize("declared", [None, "a100-80gb=8"])
@pytest.mark.parametrize("what", ["HandleByIndex", "UUID", "Name"])
def test_a_lost_gpu_leaves_the_others_in_service(
    what: str, declared: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setitem(sys.modules, "pynvml", NvmlWithALostGpu(f"nvmlDeviceGet{what}"))
    devices._tell_once.cache_clear()
    found = devices.find_devices(declared)
    assert found.ids == tuple(f"GPU-{index}" for index in range(8) if index != 3)
    assert [record.getMessage() for record in caplog.records] == ["GPU 3 is left out: NVML says: GPU is lost"]


def test_the_hint_counts_devices_of_the_type_that_it_names(install: Any) -> None:
    install(*["NVIDIA A100-SXM4-80GB"] * 4, slices={0: ["1g.10gb", "1g.10gb"]})
    with pytest.raises(OptionError, match="the first with --devices a100-80gb=3"):
        find_devices(None)


def test_no_more_slices_are_taken_than_there_are(install: Any) -> None:
    install("NVIDIA A100-SXM4-80GB", slices={0: ["1g.10gb", "1g.10gb"]})
    assert len(find_devices("a100-1g.10gb=2").ids) == 2
    with pytest.raises(OptionError, match=r"7 slices of type .*, and 2 are here"):
        find_devices("a100-1g.10gb=7")
