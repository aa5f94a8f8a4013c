"""What a machine offers."""

import contextlib
from collections.abc import Iterator
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
        ("Tesla V100-SXM2-16GB", "v100"),
        ("Tesla V100-SXM2-32GB", "v100-32gb"),
        ("Tesla V100-PCIE-32GB", "v100-32gb-pcie"),
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
        ("NVIDIA H200", "h200"),
        ("NVIDIA H200 NVL", "h200-nvl"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA GH200 480GB MIG 1g.12gb", "gh200-1g.12gb"),
        ("NVIDIA GH200 144G HBM3e", "gh200-144gb"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA GB300", "gb300"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("NVIDIA GeForce GTX 1080 Ti", "gtx1080ti"),
        ("NVIDIA RTX A6000", "a6000"),
        ("NVIDIA RTX A5000", "a5000"),
        ("Quadro RTX 6000", "rtx6000"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx6000-ada"),
        ("NVIDIA RTX 5000 Ada Generation", "rtx5000ada"),
        ("Quadro RTX 5000", "rtx5000"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtxpro6000"),
        ("NVIDIA RTX PRO 4500 Blackwell", "rtxpro4500"),
        ("NVIDIA RTX A2000 12GB", "rtxa2000-12gb"),
        ("NVIDIA GeForce RTX 3080 12GB", "rtx3080-12gb"),
        ("NVIDIA GeForce RTX 4080", "rtx4080"),
        ("NVIDIA GeForce RTX 4080 SUPER", "rtx4080super"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "rtx4070tisuper"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx4090laptop"),
        ("NVIDIA GeForce RTX 4090 D", "rtx4090d"),
        ("Quadro RTX 6000 with Max-Q Design", "rtx6000maxq"),
        ("Tesla P100-PCIE-12GB", "p100-pcie-12gb"),
        ("NVIDIA A100-SXM-64GB", "a100-sxm-64gb"),
        ("NVIDIA H100 64GB HBM2", "h100-64gb-hbm2"),
        ("NVIDIA H20 MIG 1g.12gb", "h20-1g.12gb"),
        ("NVIDIA A100-SXM4-40GB MIG 1c.2g.10gb", "a100-1c.2g.10gb"),
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


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install a driver, or none."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def give(*products: str, slices: dict[int, list[str]] | None = None) -> None:
        @contextlib.contextmanager
        def library() -> Iterator[Any]:
            yield Driver(*products, slices=slices) if products else None

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
