"""Where we may make a cgroup for each lease: then nothing that it starts can hide, and it is killed at once."""

import contextlib
import os
from pathlib import Path

PREFERRED = ("cgroup2", "freezer")
"""Version 2 anywhere; of version 1 the freezer, which is there for such things and limits nothing."""


def writable_cgroup() -> Path | None:
    """The cgroup that we are in, where we may make others below it; None where there is none."""
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
