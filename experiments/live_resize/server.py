"""An agent's runner on this machine, and one elastic job that it launches, resizes and stops."""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.ports import free_port
from gavelx.worker.devices import Devices
from gavelx.worker.runner import ProcessRunner
from gavelx.worker.state import Folder

PATIENCE_S = 300.0


@dataclass(frozen=True)
class Script:
    """A module to run, what may change of it, and what it is told."""

    module: str
    elasticity: str
    until_step: float = 1e9
    environment: Mapping[str, str] = field(default_factory=dict)


class Server:
    """Four devices and a job, which begins on one of them. ``lines`` are what its rank 0 prints."""

    def __init__(self, folder: Path, script: Script) -> None:
        devices = Devices("cpu", tuple("0123"))
        self.runner = ProcessRunner(Folder(folder / "agent"), folder / "shared", devices, grace_s=60.0)
        self.script = script
        self.lease_id, self.generation, self.numbers, self.numbered = 0, 0, list[int](), 0

    def _message(self, size: int, batch: int, continues: int | None) -> wire.Launch:
        self.lease_id += 1
        if continues is None:
            self.generation, self.numbers, self.numbered = 0, list(range(size)), size
        else:
            new = range(self.numbered, self.numbered + max(0, size - len(self.numbers)))
            self.generation, self.numbered = self.generation + 1, new.stop
            self.numbers = [*self.numbers[:size], *new]
        ranks = {number: rank for rank, number in enumerate(self.numbers)}
        return wire.Launch(
            lease_id=self.lease_id,
            job_id=1,
            command=[sys.executable, "-m", self.script.module],
            environment={"PYTHONPATH": str(Path(__file__).parents[2]), **self.script.environment},
            slots=range(size),
            world_size=size,
            processes=size,
            master_address="127.0.0.1",
            master_port=free_port(),
            until_step=self.script.until_step,
            folder="job",
            elasticity=self.script.elasticity,
            workers=1,
            size=wire.Size(generation=self.generation, rank_of_number=ranks, batch=batch),
            numbers=self.numbers,
            continues=continues,
        )

    def launch(self, size: int, batch: int) -> None:
        self.runner.start(self._message(size, batch, None), time.monotonic() + 3600.0)

    def resize(self, size: int, batch: int) -> None:
        """Let the job go over to another size while it runs."""
        self.wait(self.can_resize, "a script that can be resized")
        before = self.lease_id
        self.runner.resize(self._message(size, batch, before))
        self.wait(lambda: any(report.HasField("handover") for report in self.runner.reports()), "the new size")
        self.runner.go_over(before)

    def can_resize(self) -> bool:
        """Whether the job has said that it is in its present size, and can go over to another one."""
        return all(report.sizes == self.generation + 1 for report in self.runner.reports())

    def stop(self) -> None:
        """Stop the job with a checkpoint."""
        self.runner.stop(self.lease_id, "stopped")
        self.end()

    def end(self) -> None:
        """Wait until it has ended."""
        self.wait(lambda: not self.runner.standing(), "the end", ends=True)
        for ended in list(self.runner.ended()):
            self.runner.acknowledge(ended.report_id)

    def lines(self) -> list[str]:
        """The lines of rank 0 that are complete, of all launches."""
        return self._output().split("\n")[:-1]

    def _output(self) -> str:
        folders = self.runner.leases_of(1)
        logs = [log for folder in folders for log in sorted(folder.glob("out.0*.log"), key=_offset)]
        return "".join(log.read_text() for log in logs)

    def wait(self, for_: Callable[[], bool], what: str, *, ends: bool = False) -> None:
        """Poll until it is so."""
        end_s = time.monotonic() + PATIENCE_S
        while not for_():
            self.runner.poll()
            if self.runner.ended() and not ends:
                raise SystemExit(f"the job ended: {self.runner.ended()}\n{self._output()[-2000:]}")
            if time.monotonic() > end_s:
                raise SystemExit(f"{what} did not come in {PATIENCE_S:g} s:\n{self._output()[-2000:]}")
            time.sleep(0.02)


def _offset(path: Path) -> int:
    name = path.name.split(".")
    return int(name[2]) if len(name) > 3 else 0


@contextmanager
def a_server(script: Script) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), script)
        try:
            yield server
        finally:
            server.runner.close()
