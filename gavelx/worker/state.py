"""The agent's folder: the state that must survive kill -9.

    FOLDER/identity.json        id of the agent (a new folder is another agent), and of the scheduler's log
    FOLDER/lock                 held by the one agent that uses it
    FOLDER/removed/             notes of output that was removed (kept_output)
    FOLDER/leases/LEASE_ID/     launch.json lease.json report.json exit.json shim.json sizes.json out.*.log, and
                                ended.json until the scheduler has acknowledged it, acknowledged.json from then on

All of it is private (0700), and named by numbers only.
"""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gavelx.errors import OptionError
from gavelx.worker.outcome import is_exit
from gavelx.worker.shim import (
    EXIT,
    LAUNCH,
    LEASE,
    REPORT,
    SHIM,
    SIZES,
    boot_id,
    folder_of,
    overwrite_json,
    read_json,
    write_json,
)

IDENTITY, LOCK = "identity.json", "lock"
ENDED, ACKNOWLEDGED = "ended.json", "acknowledged.json"
LEASE_BYTES = 1024
Json = dict[str, Any]


class LockedError(Exception):
    """Another process holds the lock."""


def lock(path: Path) -> int:
    """A lock that is held while any process has this file descriptor open. Raises :class:`LockedError`."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise LockedError(str(path)) from None
    return descriptor


@dataclass(frozen=True)
class LeaseFolder:
    """The folder of one lease."""

    path: Path

    @property
    def lease_id(self) -> int:
        return int(self.path.name)

    @property
    def lease_file(self) -> Path:
        return self.path / LEASE

    @property
    def report_file(self) -> Path:
        return self.path / REPORT

    def launch(self) -> Json | None:
        return read_json(self.path / LAUNCH)

    def write_launch(self, launch: Json) -> None:
        write_json(self.path / LAUNCH, launch, durable=True)

    def write_lease(self, lease: Json) -> None:
        """Replace the lease, also on a full disk, so that jobs continue."""
        overwrite_json(self.lease_file, lease, LEASE_BYTES)

    def lease(self) -> Json | None:
        return read_json(self.lease_file)

    def exit(self) -> Json | None:
        """The exit file of the shim; None if it is missing or not of the form that a shim writes."""
        exit = read_json(self.path / EXIT)
        return exit if exit is not None and is_exit(exit) else None

    def shim(self) -> Json | None:
        return read_json(self.path / SHIM)

    def report(self) -> Json | None:
        """The latest report of rank 0. The job writes it, so it may contain anything."""
        return read_json(self.report_file)

    def sizes(self) -> Json | None:
        """What has changed since the launch of a job that was resized."""
        return read_json(self.path / SIZES)

    def write_sizes(self, sizes: Json) -> None:
        write_json(self.path / SIZES, sizes, durable=True)

    def lock_for_shim(self) -> int:
        """Take the lock before the shim starts; the shim inherits it, and holds it until it ends."""
        return lock(self.path / LOCK)

    def shim_lives(self) -> bool:
        try:
            os.close(self.lock_for_shim())
        except LockedError:
            return True
        except OSError:
            return False
        return False

    def keep_ended(self, ended: Json) -> None:
        write_json(self.path / ENDED, ended, durable=True)

    def forget(self) -> None:
        """Nothing of it has to be reported: it is kept for its logs, until it is too old or too much."""
        with contextlib.suppress(OSError):
            write_json(self.path / ACKNOWLEDGED, {})

    def ended(self) -> Json | None:
        """The report without acknowledgement."""
        return read_json(self.path / ENDED)

    def acknowledged(self) -> Json | None:
        return read_json(self.path / ACKNOWLEDGED)

    def acknowledge(self) -> None:
        with contextlib.suppress(OSError), folder_of(self.path / ENDED) as folder:
            os.replace(ENDED, ACKNOWLEDGED, src_dir_fd=folder, dst_dir_fd=folder)


class Folder:
    """The agent's folder, locked by one agent at a time. Raises :class:`OptionError` if it cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.leases = self.path / "leases"
        try:
            self.leases.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
            self._lock = lock(self.path / LOCK)
            known = self._identity()
        except LockedError:
            problem = f"another agent is at work in {str(self.path)!r}"
            raise OptionError(problem, where="--folder", hint="a folder for each agent") from None
        except OSError as error:
            problem = f"{str(self.path)!r} cannot be used: {error.strerror}"
            raise OptionError(problem, where="--folder", expected="a folder that we may write to") from None
        self.identity, self.log_id = str(known["id"]), str(known.get("log_id", ""))
        self.boot_id = f"{boot_id()}.{self.identity}"
        """A new one means that no earlier process runs: another boot of the machine, or an empty folder."""

    def _identity(self) -> Json:
        known = read_json(self.path / IDENTITY)
        if known is None:
            known = {"id": secrets.token_hex(8)}
            write_json(self.path.resolve() / IDENTITY, known, durable=True)
        return known

    def belong_to(self, log_id: str) -> None:
        """Store the log of the scheduler whose leases these are."""
        self.log_id = log_id
        with contextlib.suppress(OSError):  # a full disk must not stop the agent
            write_json(self.path.resolve() / IDENTITY, {"id": self.identity, "log_id": log_id}, durable=True)

    def lease(self, lease_id: int) -> LeaseFolder:
        return LeaseFolder(self.leases / str(int(lease_id)))

    def all(self) -> Iterator[LeaseFolder]:
        """Every lease on the disk, oldest first; none where a job has removed them all."""
        found = self.leases.iterdir() if self.leases.exists() else ()
        ids = sorted(int(path.name) for path in found if path.name.isdecimal())
        yield from (self.lease(lease_id) for lease_id in ids)

    def create(self, lease_id: int) -> LeaseFolder:
        self.leases.mkdir(mode=0o700, exist_ok=True)  # a job may have removed it
        folder = self.lease(lease_id)
        folder.path.mkdir(mode=0o700)
        return folder

    def close(self) -> None:
        os.close(self._lock)
