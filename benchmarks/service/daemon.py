"""``gavelx serve`` as a process, its figures, and what it is told."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

CALL_S = 300.0
PROFILED: list[str] = []
"""``-m cProfile -o FILE``, where one wants to know what takes so long; everything is slower then."""


class Daemon:
    """A service on loopback; ``ready_seconds``: from its start until it serves."""

    def __init__(self, state: Path, *options: str, listen: str = "127.0.0.1:0") -> None:
        started = time.perf_counter()
        command = [sys.executable, *PROFILED, "-m", "gavelx", "serve", "--state", str(state), "--listen", listen]
        command += ["--json", "--metrics", "127.0.0.1:0", *options]
        self._errors = (state.parent / "errors.txt").open("a")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._errors, text=True)
        assert self.process.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            line = self.process.stdout.readline()
            assert line, (state.parent / "errors.txt").read_text()
            text += line
        self.said: dict[str, Any] = json.loads(text)
        self.address = str(self.said["listening"])
        self.ready_seconds = time.perf_counter() - started

    def figures(self) -> dict[str, float]:
        """What its metrics say now; histograms by bucket, as ``NAME_bucket{le}``."""
        with urlopen(f"http://{self.said['metrics']}/metrics", timeout=CALL_S) as reply:
            text = reply.read().decode()
        values = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                label = f"{{{sample.labels['le']}}}" if "le" in sample.labels else ""
                name = sample.name.removeprefix("gavelx_") + label
                values[name] = values.get(name, 0.0) + sample.value
        return values

    def memory_mb(self) -> tuple[float, float]:
        """Resident memory of the service without its solver: now, and at most."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        kilobytes = {line.split(":")[0]: float(line.split()[1]) for line in lines if line.startswith("Vm")}
        return kilobytes["VmRSS"] / 1000, kilobytes["VmHWM"] / 1000

    def cpu_seconds(self) -> float:
        """Processor time of the service so far, without its solver."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """SIGKILL: nothing is tidied up, unless it is profiled."""
        self.process.send_signal(signal.SIGTERM if PROFILED else signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()
