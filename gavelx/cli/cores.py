"""How many cores this process may use, which on a shared node are fewer than the node has."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")


def cores(root: Path = ROOT, own: Path = Path("/proc/self/cgroup")) -> int:
    """The least that affinity, a cgroup's quota and Slurm allow; at least 1."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    slurm = os.environ.get("SLURM_CPUS_PER_TASK", "")
    told = [int(slurm)] if slurm.isdecimal() and int(slurm) else []
    quotas = [max(1, math.ceil(quota)) for quota in _quotas(root, own)]
    return min([affinity, *told, *quotas])


def _quotas(root: Path, own: Path) -> Iterator[float]:
    """The cores that our cgroup and those above it may use, of version 2 and of version 1."""
    for line in _text(own).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / controllers if controllers and (root / controllers).is_dir() else root
        top = top / "cpu" if controllers and top == root else top
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            folder = top.joinpath(*parts[:depth])
            quota = _text(folder / "cpu.max").split() or [
                *_text(folder / "cpu.cfs_quota_us").split(),
                *_text(folder / "cpu.cfs_period_us").split(),
            ]
            if len(quota) == 2 and all(part.isdecimal() and int(part) for part in quota):
                yield int(quota[0]) / int(quota[1])


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
