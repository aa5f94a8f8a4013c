"""Memory and use of devices, of the lease's processes alone."""

import os
import subprocess
import sys

import pytest

from gavelx.worker.usage import Gpus, Measured, Meter
from tests.worker.driver import Driver


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


@pytest.mark.parametrize(
    ("knows", "pids", "expected"), [(True, {10}, (3, 0.5)), (False, {10}, (3, 0.8)), (True, {99}, (100, 0.8))]
)
def test_gpus_are_asked_by_process_where_they_tell(
    knows: bool, pids: set[int], expected: tuple[int, float]
) -> None:
    driver = Driver("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-16GB")
    driver.knows_processes = knows
    use = Gpus(driver).use(("GPU-0abc",), pids)
    assert (use.memory_bytes, use.device_use) == expected


def test_of_a_slice_memory_is_known_and_no_use() -> None:
    driver = Driver("NVIDIA A100-SXM4-80GB", slices={0: ["1g.10gb", "1g.10gb"]})
    use = Gpus(driver).use(("MIG-0c",), {10})
    assert (use.memory_bytes, use.device_use) == (3, -1.0)
