"""A bash in which the commands of a page are typed, one after another, and the clusters that it starts.

Everything is on loopback: the ports that pages name are others here, so that pages can run beside each other.
"""

import contextlib
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gavelx.rpc.ports import free_port
from tests.cli.running import Shell
from tests.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).parents[1]
PORTS = ("7070", "7071", "7072", "9464")
HERE = re.compile(r"(gavelx (?!serve|worker|certs|token)[^|<>&$]*)(?:\| grep -E '([^']+)')?")
"""Commands that are run in this process, which saves the half second in which a python starts.

On a busy machine it is much more, and a job that such a command asks about may end meanwhile.
"""
EXPORTED = ("GAVELX_SCHEDULER", "GAVELX_CA", "GAVELX_TOKEN_FILE")
ASKS = ("gavelx status", "gavelx explain", "gavelx logs", "gavelx drain", "grep ", 'python -c "from urllib')
"""Commands that may be asked again, as what they ask about takes its time."""


class Terminal:
    """Started by its first command; at the end everything that was started from it is ended."""

    def __init__(self, folder: Path, shell: Shell, environment: pytest.MonkeyPatch) -> None:
        self.folder = folder / "terminal"
        self._shell, self._environment = shell, environment
        self.started = False
        self._port_of = {port: str(free_port()) for port in PORTS}

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self.started:
            self._type("kill $(jobs -p) 2>/dev/null; wait")
            with contextlib.suppress(AssertionError):
                self._read()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._bash.pid, signal.SIGKILL)
            self._bash.wait()
            for pipe in (self._bash.stdin, self._bash.stdout):
                if pipe is not None:
                    pipe.close()
            self._reader.join(10)

    def run(self, command: str, code: int = 0) -> str:
        """What a command prints. It has to end with this exit code."""
        return self.until(command, f"ends with {code}", lambda found, _: found == code)

    def until(self, command: str, what: str, right: Callable[[int, str], bool]) -> str:
        """What it prints when exit code and output are right: at once or, if it only asks, before long."""
        ran = 0, ""

        def is_right() -> bool:
            nonlocal ran
            ran = self._once(command)
            return right(*ran)

        if command.startswith(ASKS):
            wait_until(is_right, f"{command} {what}", lambda: ran)
        else:
            assert is_right(), f"{command}\nends with {ran[0]}\n{ran[1]}"
        return ran[1]

    def _once(self, command: str) -> tuple[int, str]:
        if not self.started:
            self._start()
        for port, ours in self._port_of.items():
            command = re.sub(rf"\b{port}\b", ours, command)
        if here := HERE.fullmatch(command):
            code, output = self._ran_here(*here.groups())
        else:
            self._type(command)
            code, output = self._read()
        if command.startswith("export "):
            self._take_over()
        for port, ours in self._port_of.items():
            output = output.replace(ours, port)
        return code, output

    def _ran_here(self, command: str, pattern: str | None) -> tuple[int, str]:
        """A command of gavelx; with a pattern, what grep finds in its output."""
        ran = self._shell(*shlex.split(command)[1:])
        if pattern is None:
            return ran.code, ran.out + ran.err
        found = subprocess.run(["grep", "-E", pattern], input=ran.out, capture_output=True, text=True, check=False)
        return found.returncode, found.stdout + ran.err

    def _take_over(self) -> None:
        """What was exported holds for commands that are run in this process, too."""
        for name in EXPORTED:
            self._type(f'printf %s "${name}"')
            if value := self._read()[1]:
                self._environment.setenv(name, value)

    def _type(self, command: str) -> None:
        assert self._bash.stdin is not None
        self._bash.stdin.write(f"{command}\nprintf '\\n{END} %d\\n' $?\n")
        self._bash.stdin.flush()

    def _read(self) -> tuple[int, str]:
        lines: list[str] = []
        while True:
            try:
                line = self._lines.get(timeout=PATIENCE_S)
            except queue.Empty:
                raise AssertionError(f"no end in {PATIENCE_S:g} s, after {lines}") from None
            if line.startswith(END):
                return int(line.split()[-1]), "".join(lines).rstrip("\n")
            lines.append(line)

    def _start(self) -> None:
        """A bash whose gavelx, python and pip are those of the tests, and whose home is here."""
        self.started = True
        programs = self.folder / "programs"
        programs.mkdir(parents=True)
        for name, text in _PROGRAMS.items():
            (programs / name).write_text(f"#!/bin/sh\n{text}\n")
            (programs / name).chmod(0o755)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GAVELX_")},
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(self.folder),
            "XDG_STATE_HOME": str(self.folder / "state-home"),
            "GAVELX_SCHEDULER": "127.0.0.1:" + self._port_of["7070"],
        }
        self._environment.setenv("GAVELX_SCHEDULER", environment["GAVELX_SCHEDULER"])
        self._bash = subprocess.Popen(
            [shutil.which("bash") or "bash", "--noprofile", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self.folder.parent,
            env=environment,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()

    def _collect(self) -> None:
        assert self._bash.stdout is not None
        with contextlib.suppress(ValueError):
            for line in self._bash.stdout:
                self._lines.put(line)


END = "::command ended::"
_PROGRAMS = {
    "gavelx": f'exec "{sys.executable}" -m gavelx "$@"',
    "python": f'exec "{sys.executable}" "$@"',
}
