"""Simulations need nothing that only Linux has: here it is hidden from them."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HIDDEN = """
import os, signal, sys

class Hidden:
    names = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}

    def find_spec(self, name, path=None, target=None):
        if name in self.names:
            raise ModuleNotFoundError(f"{name} is not on this system", name=name)

for name in Hidden.names:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Hidden())
for name in ("fork", "forkpty", "getuid", "geteuid", "killpg", "setsid", "sched_getaffinity", "wait4"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGCHLD", "SIGPIPE", "SIGUSR1", "SIGALRM"):
    if hasattr(signal, name):
        delattr(signal, name)

from gavelx.cli import main

if __name__ == "__main__":
    main(sys.argv[1:])
"""
TRACE = """submit_time,duration_s,num_gpus
2017-10-07 01:12:09,3600,1
2017-10-07 02:12:09,7200,2
"""


@pytest.mark.parametrize(
    "command",
    [
        "simulate --policy max_min_fairness --cluster v100=2,k80=2 --jobs 4 --html out.html",
        "compare --policies fifo,nash_welfare --cluster v100=2,k80=2 --jobs 4 --workers 1 --json out.json",
        "trace import list.csv --out trace.csv",
        "policies",
        "docs policies",
        "prices show",
        "throughputs show --type ResNet",
    ],
)
def test_it_runs_where_linux_is_not(tmp_path: Path, command: str) -> None:
    (tmp_path / "hidden.py").write_text(HIDDEN)
    (tmp_path / "list.csv").write_text(TRACE)
    words = [sys.executable, "hidden.py", *command.split()]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_hidden_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "hidden.py").write_text(HIDDEN)
    words = [sys.executable, "-c", "import hidden, gavelx.worker.runner"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "is not on this system" in done.stderr or "has no attribute" in done.stderr
