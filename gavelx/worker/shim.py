"""The parent of one lease's processes: it outlives the agent, and no process that it started outlives the lease.

Run as ``python -I -S shim.py LEASE_FOLDER``; standard library only, so that it starts in 30 ms and stays small. It
reads ``launch.json`` once and ``lease.json`` again and again, runs one process for each rank in a session of its
own, writes their output into log files of limited size, and writes the outcome into ``exit.json``. When the lease
file has another generation, it starts the processes that ``sizes.json`` names.

A rank is asked to stop by SIGTERM to its process group: when the agent says so (``stop`` in the lease file, or no
lease file), when another rank failed, or when the lease is about to expire. After the grace time, and in any case
when the lease expires, the whole tree is killed. A child that called setsid is in no group of ours, so the tree is
found by a cgroup, if one can be made, and by parents, since orphans below us become our children
(PR_SET_CHILD_SUBREAPER). If the shim itself is killed, its ranks are killed too (PR_SET_PDEATHSIG); the agent
finds the rest.

All times are CLOCK_MONOTONIC of this machine since its boot.
"""

import contextlib
import ctypes
import errno
import json
import os
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

LAUNCH, LEASE, REPORT, EXIT, SHIM = "launch.json", "lease.json", "report.json", "exit.json", "shim.json"
SIZES = "sizes.json"
EXIT_BYTES = 4096
"""Bytes reserved for ``exit.json`` before the job starts, so that it can be written on a full disk."""
SHIM_BYTES = 4096
"""Bytes of ``shim.json``, for the same reason."""
LOOK_S = 0.2
"""Seconds between reads of the lease file."""
LATE_S = 0.1
"""Seconds after the job's end for which a SIGTERM to us still counts as its reason."""
STUCK_S = 0.1
"""Seconds after the lease's end from which the guard counts our main loop as stuck."""
KILL_S = 0.02
"""Seconds between repeated kills of a tree that does not die."""
READ_BYTES = 1 << 16
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LAPSED = "no word from the scheduler: the lease lapsed"
CANNOT_RUN, NOT_FOUND = 126, 127  # exit codes, as a shell gives them
LEFT = 79
"""Exit status of a process that leaves a job that goes on in another size, or that was to join one."""
SPEECHLESS = 3
"""Our own exit status if the job began and its end is unknown, because our files were removed."""

Json = dict[str, Any]
_libc = ctypes.CDLL(None, use_errno=True)  # loaded before any fork


# -- files, and what /proc knows; the agent uses these as well -------------------------------------------------


def open_file(path: Path) -> BinaryIO:
    """Open a file to read it. Raises OSError for anything else, also for a link to another place.

    A job may have put anything there, even a pipe without a writer, so this never waits.
    """
    careful = os.O_NONBLOCK | os.O_NOFOLLOW
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | careful))  # noqa: SIM115
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "it is no file", str(path))


def read_json(path: Path) -> Json | None:
    """A JSON object from a file; None if there is no file or no object in it."""
    try:
        with open_file(path) as file:
            value = json.loads(file.read(1 << 20))
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def write_json(path: Path, value: Json, *, durable: bool = False, length: int = 0) -> None:
    """Replace a file in one step. With ``length``, it is filled up with blanks to that.

    Raises OSError where a job has put a link in place of the file's folder, or of the one around it.
    """
    part = path.name + ".part"
    with folder_of(path) as folder:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)  # a link or a pipe of a job, or left by a write that was cut short
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(part, flags, 0o666, dir_fd=folder), "wb") as file:  # noqa: PTH123
            file.write(json.dumps(value).encode().ljust(length))
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, path.name, src_dir_fd=folder, dst_dir_fd=folder)


@contextlib.contextmanager
def folder_of(path: Path) -> Iterator[int]:
    """The open folder of a file. Raises OSError if that, or the one around it, is a link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    around = os.open(path.parent.parent, flags)
    try:
        folder = os.open(path.parent.name, flags, dir_fd=around)
    finally:
        os.close(around)
    try:
        yield folder
    finally:
        os.close(folder)


def overwrite_json(path: Path, value: Json, length: int) -> None:
    """Replace a file of this length; on a full disk, overwrite the blocks that it has."""
    try:
        write_json(path, value, length=length)
    except OSError:
        with contextlib.suppress(OSError), folder_of(path) as folder:
            opened = os.open(path.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with open(opened, "wb", buffering=0) as file:  # noqa: PTH123
                file.write(json.dumps(value).encode().ljust(length))


def boot_id() -> str:
    """The id of this boot of the machine: files of another boot are about processes that are gone."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def start_ticks(pid: int) -> int | None:
    """Start of a process in clock ticks since boot, unique with its pid; None: it is gone."""
    stat = _stat(pid)
    return None if stat is None or stat[0] == "Z" else int(stat[19])


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on: the state, the parent, ..."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None


def pids() -> Iterator[int]:
    """Every process that we can see."""
    yield from (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208


def descendants(root: int) -> list[int]:
    """The living children of a process, theirs, and so on."""
    children: dict[int, list[int]] = {}
    for pid in pids():
        stat = _stat(pid)
        if stat is not None and stat[0] != "Z":
            children.setdefault(int(stat[1]), []).append(pid)
    found = children.get(root, [])
    for pid in found:  # grows while we walk
        found += children.get(pid, [])
    return found


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Signal a process, if it is still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def marked(prefix: bytes) -> list[tuple[int, bytes]]:
    """Processes whose environment has a variable with this prefix, and that variable."""
    found = []
    for pid in pids():
        with contextlib.suppress(OSError):
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            found += [(pid, mark) for mark in environment.split(b"\0") if mark.startswith(prefix)]
    return found


def kill_cgroup(cgroup: Path | None) -> bool:
    """Kill every process in a cgroup; True once it is empty or gone."""
    if cgroup is None:
        return True
    with contextlib.suppress(OSError):
        (cgroup / "cgroup.kill").write_text("1")  # all at once; version 2, since Linux 5.14
    try:
        inside = (cgroup / "cgroup.procs").read_text().split()
    except OSError:
        return True
    for pid in inside:
        kill(int(pid))
    return not inside


def remove_cgroup(cgroup: Path | None) -> None:
    if cgroup is not None:
        with contextlib.suppress(OSError):
            cgroup.rmdir()


# -- output ----------------------------------------------------------------------------------------------------


class Log:
    """The output of a process, in a few files that never hold more than ``limit`` bytes.

    The first half of the limit keeps the beginning. The rest goes into segments of an eighth each, of which the
    last four are kept. A segment's name is its offset in the whole output (``out.0.log`` is the beginning of rank
    0, ``out.0.4096.log`` starts at byte 4096), so a gap between segments was dropped.
    """

    def __init__(self, folder: Path, rank: int, limit: int) -> None:
        self.folder, self.rank = folder, rank
        self.head, self.segment = max(1, limit // 2), max(1, limit // 8)
        self.written = self.dropped = 0
        self._fd = -1
        self._room = 0
        self._segments: list[Path] = []

    def write(self, text: bytes) -> None:
        while text:
            if self._room == 0:
                self._next()
            part = text[: self._room or self.segment]
            done = self._put(part)
            self.written += len(part)
            self.dropped += len(part) - done
            self._room = self._room - done if done == len(part) else 0  # after a gap a new segment begins
            text = text[len(part) :]

    def _next(self) -> None:
        """Begin a segment, and delete the oldest if there are too many."""
        self.close()
        name = f"out.{self.rank}.{self.written}.log" if self.written else f"out.{self.rank}.log"
        path = self.folder / name
        if len(self._segments) >= 4:
            oldest = self._segments.pop(0)
            with contextlib.suppress(OSError):
                self.dropped += oldest.stat().st_size
                oldest.unlink()
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError:
            return
        self._room = self.segment if self.written else self.head
        if self.written:
            self._segments.append(path)

    def _put(self, text: bytes) -> int:
        """Write, and return the number of bytes that fitted on the disk."""
        try:
            return os.write(self._fd, text) if self._fd >= 0 else 0
        except OSError:
            return 0

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


WHY_NOT = {
    errno.EACCES: "permission denied (is it executable, on a file system that is not noexec?)",
    errno.ENOEXEC: "it is neither a program nor a script that begins with #!",
    errno.E2BIG: "its arguments and environment are too long for this system",
}

# -- starting --------------------------------------------------------------------------------------------------


def why_not_started(
    error: OSError, command: list[str], environment: dict[str, str], folder: Path
) -> tuple[str, int]:
    """The message about a command that did not start, and the exit status that a shell would give."""
    name = command[0]
    if not folder.is_dir():
        return f"the job's folder {str(folder)!r} is missing: {error.strerror}", CANNOT_RUN
    found = name if "/" in name else shutil.which(name, os.F_OK, environment.get("PATH", os.defpath))
    path = folder / found if found else None
    if path is None or not os.path.lexists(path):
        where = f"in {str(folder)!r}" if "/" in name else f"in PATH={environment.get('PATH', os.defpath)}"
        return f"there is no command {name!r} {where}", NOT_FOUND
    if path.is_dir():
        return f"{name!r} is a folder, not a program", CANNOT_RUN
    if error.errno == errno.ENOENT:
        return f"{name!r} wants to be run by {_interpreter(path)}, which is missing", NOT_FOUND
    return f"{name!r} could not be started: {WHY_NOT.get(error.errno or 0, error.strerror)}", CANNOT_RUN


def _interpreter(path: Path) -> str:
    with path.open("rb") as file:
        first = file.readline(256)
    return repr(first[2:].decode(errors="replace").strip()) if first.startswith(b"#!") else "a loader"


def in_child(parent: int, cgroup: Path | None) -> Callable[[], None]:
    """The setup of a rank between fork and exec: die with the shim, and enter the lease's cgroup."""

    def prepare() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before we asked
            os._exit(CANNOT_RUN)
        if cgroup is not None:
            with contextlib.suppress(OSError):  # then the tree is found by parents
                (cgroup / "cgroup.procs").write_text("0")

    return prepare


@dataclass
class Rank:
    """One process of the job, and its output."""

    rank: int
    pid: int
    log: Log
    exit_code: int | None = None
    watched: bool = False
    """Readable when the process has ended."""


@dataclass
class Shim:
    """One lease on this server, from its start to its end."""

    folder: Path
    launch: Json
    ranks: list[Rank] = field(default_factory=list)
    asked: str = ""
    """Why the job was asked to stop."""
    asked_s: float = 0.0
    killed: bool = False
    failed: Json | None = None
    """The first failure, before any rank was asked to stop."""
    generation: int = 0
    """Of the size in which the job is, or into which it goes."""

    def __post_init__(self) -> None:
        self.grace_s = float(self.launch["grace_s"])
        self.until_s = float(self.launch["until_monotonic_s"])
        self.generation = int(self.launch.get("generation", 0))
        self.cgroup = self._make_cgroup()
        self.selector = selectors.DefaultSelector()
        self.spare = os.open(self.folder / (EXIT + ".part"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.posix_fallocate(self.spare, 0, EXIT_BYTES)

    def _make_cgroup(self) -> Path | None:
        path = Path(self.launch["cgroup"]) if self.launch.get("cgroup") else None
        try:
            if path is not None:
                path.mkdir(exist_ok=True)
        except OSError:
            return None
        return path

    # -- the one loop --

    def run(self) -> None:
        wakeup = self._listen_to_signals()
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            self._start()
            threading.Thread(target=self._guard, daemon=True).start()
            while any(rank.exit_code is None for rank in self.ranks):
                self._obey()
                self._copy(self._wait_s())
                self._reap()
            self._hear_late()
            self._kill_all()  # processes that a rank left behind
        finally:
            os.close(wakeup)
        self._copy(0.0)
        self._write_exit()
        remove_cgroup(self.cgroup)

    def _hear_late(self) -> None:
        """A late SIGTERM, as when Slurm stops a machine and signals jobs and shims in any order: not a failure."""
        end_s = time.monotonic() + LATE_S
        while not self.asked and (wait_s := end_s - time.monotonic()) > 0.0:
            self._copy(wait_s)
            if self.asked and self.failed is not None and self.failed["exit_code"] == -signal.SIGTERM:
                self.failed = None

    def _listen_to_signals(self) -> int:
        """SIGTERM asks us to stop. All handled ones end a wait; a handler, unlike "ignore", is not inherited."""
        read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._ask("the machine's keeper asked for it"))
        self.selector.register(read, selectors.EVENT_READ, None)
        return write

    def _start(self) -> None:
        """Start every rank, or none: the first that cannot be started is the job's failure."""
        if self.launch["boot_id"] != boot_id() or time.monotonic() >= self.until_s:
            return self._fail(None, "the lease had lapsed before it could begin", CANNOT_RUN)
        folder = Path(self.launch["job_folder"])
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            by_job = isinstance(error, FileExistsError | NotADirectoryError)  # it put a file in its place
            rank = int(self.launch["processes"][0]["rank"]) if by_job else None
            return self._fail(
                rank, f"the job's folder {str(folder)!r} cannot be made: {error.strerror}", CANNOT_RUN
            )
        write_json(self.folder / SHIM, self._said(), length=SHIM_BYTES)
        self._start_ranks(self.launch["processes"])
        return None

    def _start_ranks(self, processes: list[Json]) -> None:
        for process in processes:
            if self.failed is None:
                self._start_rank(int(process["rank"]), self.launch["environment"] | process["environment"])

    def _grow(self, generation: object) -> None:
        """If the lease has another generation, start the processes that join the job here."""
        if not isinstance(generation, int) or generation <= self.generation or self.asked:
            return
        sizes = read_json(self.folder / SIZES)
        if sizes is not None and sizes.get("generation") == generation:
            self.generation = generation
            known = {rank.rank for rank in self.ranks}
            self._start_ranks([process for process in sizes["joiners"] if process["rank"] not in known])

    def _said(self) -> Json:
        """What the agent reads of us: who we are, and which ranks left the job."""
        left = [rank.rank for rank in self.ranks if rank.exit_code == LEFT]
        return {"pid": os.getpid(), "start_ticks": start_ticks(os.getpid()), "left": left}

    def _start_rank(self, rank: int, environment: dict[str, str]) -> None:
        folder = Path(self.launch.get("run_in") or self.launch["job_folder"])
        command: list[str] = self.launch["command"]
        log = Log(self.folder, rank, int(self.launch["log_bytes"]))
        read, write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(read, False)
        try:
            process = subprocess.Popen(  # an argument vector, never a shell
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=write,
                stderr=write,
                start_new_session=True,
                preexec_fn=in_child(os.getpid(), self.cgroup),  # noqa: PLW1509  (the guard only sleeps)
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            os.close(read)
            if isinstance(error, OSError):
                self._fail(rank, *why_not_started(error, command, environment, folder))
            else:  # a zero byte in an argument, say
                self._fail(rank, f"its command cannot be run: {error}", CANNOT_RUN)
            return
        finally:
            os.close(write)
        process.returncode = 0  # we do the waiting
        self.ranks.append(Rank(rank, process.pid, log))
        self.selector.register(read, selectors.EVENT_READ, log)
        self._watch(self.ranks[-1])

    def _watch(self, rank: Rank) -> None:
        """Watch a rank, so that ends are seen in their order, which wait() does not tell."""
        with contextlib.suppress(OSError, AttributeError):  # Linux before 5.3: then wait() has to do
            self.selector.register(os.pidfd_open(rank.pid), selectors.EVENT_READ, rank)
            rank.watched = True

    # -- actions that are due --

    def _obey(self) -> None:
        """Read the lease and the clock; ask the ranks to stop, or kill them, if it is time."""
        if not self._read_lease() and not (self.folder / LEASE).exists():
            self._ask("its lease was taken away")
        now_s = time.monotonic()
        if self.failed is not None:
            self._ask("another process of the job failed")
        if now_s >= self.until_s - self.grace_s:
            self._ask(LAPSED)
        if now_s >= self._kill_at_s():
            self.killed = True
            self._kill_all()

    def _read_lease(self) -> bool:
        """Do what the agent has said in the lease; whether it can be read."""
        lease = read_json(self.folder / LEASE)
        if lease is None:
            return False
        until_s = lease.get("until_monotonic_s")
        self.until_s = until_s if isinstance(until_s, float) else self.until_s
        if lease.get("stop"):
            self._ask(str(lease.get("reason") or "the scheduler asked for it"))
        self._grow(lease.get("generation"))
        return True

    def _guard(self) -> None:
        """The deadline holds even while the main loop waits for a disk that hangs: this touches none."""
        while (left_s := self.until_s + STUCK_S - time.monotonic()) > 0.0:
            time.sleep(min(left_s, LOOK_S))  # it may end earlier than it was to
        self.asked = self.asked or LAPSED
        kill_cgroup(self.cgroup)
        for pid in descendants(os.getpid()):
            kill(pid)

    def _kill_at_s(self) -> float:
        return min(self.until_s, self.asked_s + self.grace_s) if self.asked else self.until_s

    def _wait_s(self) -> float:
        next_s = self._kill_at_s() if self.asked else min(self.until_s - self.grace_s, self.until_s)
        return min(LOOK_S, max(0.0, next_s - time.monotonic()))

    def _ask(self, reason: str) -> None:
        if self.asked:
            return
        self.asked, self.asked_s = reason, time.monotonic()
        for rank in self.ranks:
            if rank.exit_code is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(rank.pid, signal.SIGTERM)

    def _kill_all(self) -> None:
        """Kill until nothing is left. A process stuck in a driver still holds its devices, so we wait for it."""
        while True:
            empty = kill_cgroup(self.cgroup)
            for pid in descendants(os.getpid()):
                kill(pid)
            if self._reap() and empty:
                return
            self._copy(KILL_S)

    def _reap(self) -> bool:
        """Collect ended children; True if none is left. A watched rank is left to :meth:`_copy`."""
        while True:
            try:
                child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return True
            if child is None:
                return False
            rank = next((rank for rank in self.ranks if rank.pid == child.si_pid), None)
            if rank is None:
                os.waitpid(child.si_pid, 0)
            elif rank.watched:
                return False
            else:
                self._ended(rank)

    def _ended(self, rank: Rank) -> None:
        rank.exit_code = os.waitstatus_to_exitcode(os.waitpid(rank.pid, 0)[1])
        if rank.exit_code == LEFT and self.launch.get("elastic"):
            overwrite_json(self.folder / SHIM, self._said(), SHIM_BYTES)
            return
        if rank.exit_code:
            self._read_lease()  # the job may have seen it before us, or we were stopped
        if rank.exit_code and time.monotonic() >= self.until_s:  # another process killed it in our place
            self.asked = self.asked or LAPSED
        if rank.exit_code and not self.asked:
            self._fail(rank.rank, "", rank.exit_code)

    def _fail(self, rank: int | None, reason: str, exit_code: int) -> None:
        """Note the first failure; without a rank nothing was started, which is no fault of the job."""
        if self.failed is None:
            self.failed = {"rank": rank, "reason": reason, "exit_code": exit_code}

    def _copy(self, wait_s: float) -> None:
        """Copy the output of the ranks into their logs, and note ended ranks; waits while there is nothing."""
        for key, _ in self.selector.select(wait_s):
            if isinstance(key.data, Rank):
                self._ended(key.data)
                self._forget(key.fd)
                continue
            for _ in range(16):  # then it is the turn of another rank
                try:
                    text = os.read(key.fd, READ_BYTES)
                except BlockingIOError:
                    break
                if key.data is not None:
                    key.data.write(text)
                if not text:
                    self._forget(key.fd)
                    break

    def _forget(self, descriptor: int) -> None:
        self.selector.unregister(descriptor)
        os.close(descriptor)

    def _write_exit(self) -> None:
        """Write the outcome into the reserved blocks."""
        value = {
            "lease_id": self.launch["lease_id"],
            "ended_s": time.monotonic(),
            "asked": self.asked,
            "killed": self.killed,
            "failed": self.failed,
            "exit_codes": {rank.rank: rank.exit_code for rank in self.ranks[:64]},
            "log_bytes": sum(rank.log.written for rank in self.ranks),
            "log_bytes_dropped": sum(rank.log.dropped for rank in self.ranks),
        }
        os.pwrite(self.spare, json.dumps(value).encode().ljust(EXIT_BYTES), 0)
        os.fsync(self.spare)
        (self.folder / (EXIT + ".part")).replace(self.folder / EXIT)


def main() -> None:
    folder = Path(sys.argv[1])
    launch = read_json(folder / LAUNCH)
    assert launch is not None, folder
    shim = Shim(folder, launch)
    try:
        shim.run()
    except OSError:
        if not shim.ranks:
            raise
        sys.exit(SPEECHLESS)


if __name__ == "__main__":
    main()
