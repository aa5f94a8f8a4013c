"""A driver for tests: NVML for GPUs that are not here."""

from types import SimpleNamespace
from typing import Any

from gavelx.files.data_sheets import load_data_sheets


class Driver:
    """GPUs of these products, some of which may be cut into slices. Process 10 and a stranger are on the first.

    Each has the memory of its data sheet, or as much as ``memory_gb`` says. A handle is (index,) of a GPU, and
    (index, place) of a slice, of which every second place is empty.
    """

    class NVMLError(Exception):
        pass

    def __init__(
        self,
        *products: str,
        slices: dict[int, list[str]] | None = None,
        memory_gb: dict[int, float] | None = None,
    ) -> None:
        self.products, self.slices, self.memory_gb = products, slices or {}, memory_gb or {}
        self.knows_processes = True

    def nvmlDeviceGetCount(self) -> int:
        return len(self.products)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> tuple[int, ...]:
        return (index,)

    def nvmlDeviceGetName(self, handle: tuple[int, ...]) -> bytes:
        index, *place = handle
        name = self.products[index]
        return f"{name} MIG {self.slices[index][place[0] // 2]}".encode() if place else name.encode()

    def nvmlDeviceGetUUID(self, handle: tuple[int, ...]) -> str:
        index, *place = handle
        return f"MIG-{index}{'abcdefg'[place[0]]}" if place else f"GPU-{index}abc"

    def nvmlDeviceGetMigMode(self, handle: tuple[int, ...]) -> list[int]:
        if "A100" not in self.products[handle[0]]:
            raise self.NVMLError("Not Supported")
        return [int(handle[0] in self.slices), 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: tuple[int, ...]) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: tuple[int, ...], place: int) -> tuple[int, ...]:
        if place % 2 or place // 2 >= len(self.slices[handle[0]]):
            raise self.NVMLError("Not Found")
        return (*handle, place)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: tuple[int, ...]) -> list[Any]:
        processes = [SimpleNamespace(pid=10, usedGpuMemory=3), SimpleNamespace(pid=11, usedGpuMemory=5)]
        return processes if handle[0] == 0 else []

    def nvmlDeviceGetMemoryInfo(self, handle: tuple[int, ...]) -> Any:
        sheets, product = load_data_sheets(), self.products[handle[0]]
        has_gb = sheets.find(product).memory_gb if sheets.has(product) else 0.0
        return SimpleNamespace(used=100, total=int(self.memory_gb.get(handle[0], has_gb) * 2**30))

    def nvmlDeviceGetProcessUtilization(self, handle: tuple[int, ...], since_us: int) -> list[Any]:
        if not self.knows_processes or len(handle) > 1:
            raise self.NVMLError
        return [SimpleNamespace(pid=10, smUtil=40), SimpleNamespace(pid=10, smUtil=60)]

    def nvmlDeviceGetUtilizationRates(self, handle: tuple[int, ...]) -> Any:
        if len(handle) > 1:
            raise self.NVMLError("Not Supported")
        return SimpleNamespace(gpu=80)
