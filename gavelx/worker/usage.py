"""Memory and device utilization of each lease, measured on a thread of its own.

On GPUs, NVML gives the figures: by process if the driver allows it, otherwise by device. On CPU slots it is the
resident memory of the lease's processes, and their processor time per slot. If a driver hangs, only the measuring
stops.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gavelx.worker.devices import gpus_of, nvml
from gavelx.worker.shim import descendants

EVERY_S = 5.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Use:
    """Usage of one lease. ``device_use`` is between 0 and 1, or -1 if unknown."""

    memory_bytes: int = 0
    device_use: float = -1.0


@dataclass(frozen=True)
class Measured:
    """A lease to measure: its shim, its devices (ids as in CUDA_VISIBLE_DEVICES) and its slots."""

    shim_pid: int
    device_ids: tuple[str, ...]
    slots: int


class Meter:
    """Measures periodically, on a thread of its own; ``of`` returns the latest figures."""

    def __init__(self, leases: Callable[[], Mapping[int, Measured]]) -> None:
        self._leases = leases
        self._uses: dict[int, Use] = {}
        self._cpu_s: dict[int, tuple[float, float]] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def of(self, lease_id: int) -> Use:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="gavelx-meter", daemon=True)
            self._thread.start()
        return self.last(lease_id)

    def last(self, lease_id: int) -> Use:
        """The same, for those who call :meth:`measure` themselves."""
        return self._uses.get(lease_id, Use())

    def close(self) -> None:
        self._closed.set()

    def _run(self) -> None:
        with nvml() as library:
            gpus = Gpus(library)
            while not self._closed.wait(EVERY_S):
                self.measure(gpus)

    def measure(self, gpus: "Gpus") -> None:
        """Measure every lease once."""
        self._uses = {lease_id: self._one(lease_id, lease, gpus) for lease_id, lease in self._leases().items()}

    def _one(self, lease_id: int, lease: Measured, gpus: "Gpus") -> Use:
        pids = descendants(lease.shim_pid)
        if any(device in gpus.handles for device in lease.device_ids):
            return gpus.use(lease.device_ids, set(pids))
        now_s, cpu_s = time.monotonic(), sum(map(cpu_seconds, pids))
        before = self._cpu_s.get(lease_id)
        self._cpu_s[lease_id] = now_s, cpu_s
        use = -1.0
        if before is not None and now_s > before[0]:
            use = max(0.0, min(1.0, (cpu_s - before[1]) / (now_s - before[0]) / max(1, lease.slots)))
        return Use(sum(map(resident_bytes, pids)), use)


def cpu_seconds(pid: int) -> float:
    """Processor time of a process, and of its children that have ended."""
    with contextlib.suppress(OSError, IndexError):
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return sum(map(int, stat[11:15])) / _TICKS_PER_S
    return 0.0


def resident_bytes(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
    return 0


class Gpus:
    """The GPUs of this machine in NVML; none without it."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.handles = {gpu.uuid: gpu.handle for gpu in gpus_of(library)} if library else {}

    def use(self, device_ids: tuple[str, ...], pids: set[int]) -> Use:
        handles = [self.handles[device] for device in device_ids if device in self.handles]
        memory = sum(_memory_bytes(self.library, handle, pids) for handle in handles)
        return Use(memory, sum(_device_use(self.library, handle, pids) for handle in handles) / len(handles))


def _memory_bytes(library: Any, handle: Any, pids: set[int]) -> int:
    """Memory of these processes, or of the whole device if the driver hides processes (as in a container)."""
    with contextlib.suppress(library.NVMLError):
        running = library.nvmlDeviceGetComputeRunningProcesses(handle)
        ours = [process.usedGpuMemory or 0 for process in running if process.pid in pids]
        return sum(ours) if ours or not running else int(library.nvmlDeviceGetMemoryInfo(handle).used)
    return 0


def _device_use(library: Any, handle: Any, pids: set[int]) -> float:
    """Utilization by these processes if the driver tells, otherwise of the whole device."""
    with contextlib.suppress(library.NVMLError):
        since_us = int((time.time() - EVERY_S) * 1e6)
        samples = library.nvmlDeviceGetProcessUtilization(handle, since_us)
        ours: dict[int, list[int]] = {}
        for sample in samples:
            if sample.pid in pids:
                ours.setdefault(sample.pid, []).append(sample.smUtil)
        if ours:
            return min(1.0, sum(sum(values) / len(values) for values in ours.values()) / 100.0)
    with contextlib.suppress(library.NVMLError):
        return float(library.nvmlDeviceGetUtilizationRates(handle).gpu) / 100.0
    return -1.0
