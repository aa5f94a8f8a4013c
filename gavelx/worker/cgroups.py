"""A cgroup for each lease, if we may make one: then all of its processes are known, and can be killed at once."""

import contextlib
import os
from pathlib import Path

PREFERRED = ("cgroup2", "freezer")
"""Version 2, or the freezer of version 1, which groups processes and limits nothing."""


def writable_cgroup() -> Path | None:
    """Our own cgroup, if we may make others below it; otherwise None."""
    ours = _memberships()
    mounts = _mounts()
    for kind in PREFERRED:
        if kind in ours and kind in mounts:
            root, mount = mounts[kind]
            path = mount / os.path.relpath(ours[kind], root)
            if _can_make_one(path):
                return path
    return None


def _memberships() -> dict[str, str]:
    """Our cgroup by kind, from lines such as ``0::/user.slice`` and ``6:freezer:/``."""
    found = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            found[controllers or "cgroup2"] = path
    return found


def _mounts() -> dict[str, tuple[str, Path]]:
    """The root and the mount point of each kind."""
    found = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
            before, _, after = line.partition(" - ")
            kind, _, options = after.split(" ", 2)
            root, mount = before.split(" ")[3:5]
            if kind == "cgroup2":
                found["cgroup2"] = (root, Path(mount))
            elif kind == "cgroup" and "freezer" in options.split(","):
                found["freezer"] = (root, Path(mount))
    return found


def _can_make_one(path: Path) -> bool:
    probe = path / f"gavelx-probe-{os.getpid()}"
    try:
        probe.mkdir()
        writable = os.access(probe / "cgroup.procs", os.W_OK)
        probe.rmdir()
    except OSError:
        return False
    return writable
