"""Memory and use of devices, of the lease's processes alone."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from gavelx.worker.usage import Gpus, Measured, Meter


def test_cpu_slots_are_measured_by_processor_time_and_resident_memory() -> None:
    code = "x = bytearray(64 << 20)\nprint(1, flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as busy:
        assert busy.stdout is not None
        busy.stdout.readline()
        meter, none = Meter(lambda: {1: Measured(os.getpid(), ("",), 1)}), Gpus(None)
        meter.measure(none)
        first = meter._uses[1]
        while meter._uses[1].device_use <= 0.0:
            meter.measure(none)
        busy.kill()
    assert first.device_use == -1.0
    assert first.memory_bytes >= 64 << 20
    assert 0.0 < meter._uses[1].device_use <= 1.0


class Driver:
    """Two GPUs: on the first, process 10 and a stranger."""

    class NVMLError(Exception):
        pass

    knows_processes = True

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, index: int) -> str:
        return f"GPU-{index}"

    def nvmlDeviceGetComputeRunningProcesses(self, index: int) -> list[Any]:
        processes = [SimpleNamespace(pid=10, usedGpuMemory=3), SimpleNamespace(pid=11, usedGpuMemory=5)]
        return processes if index == 0 else []

    def nvmlDeviceGetMemoryInfo(self, index: int) -> Any:
        return SimpleNamespace(used=100)

    def nvmlDeviceGetProcessUtilization(self, index: int, since_us: int) -> list[Any]:
        if not self.knows_processes:
            raise self.NVMLError
        return [SimpleNamespace(pid=10, smUtil=40), SimpleNamespace(pid=10, smUtil=60)]

    def nvmlDeviceGetUtilizationRates(self, index: int) -> Any:
        return SimpleNamespace(gpu=80)


@pytest.mark.parametrize(
    ("knows", "pids", "expected"), [(True, {10}, (3, 0.5)), (False, {10}, (3, 0.8)), (True, {99}, (100, 0.8))]
)
def test_gpus_are_asked_by_process_where_they_tell(
    knows: bool, pids: set[int], expected: tuple[int, float]
) -> None:
    driver = Driver()
    driver.knows_processes = knows
    use = Gpus(driver).use(("GPU-0",), pids)
    assert (use.memory_bytes, use.device_use) == expected
