"""python -m experiments.live_resize [--write]: how long a job of 90 MB stands still when it changes its size.

One agent runs the processes, as on a cluster (gloo, CPU), through 1, 2, 4, 2 and 1 of them: once live, and once
stopped with a checkpoint and launched again. A pause is the longest time between two steps of rank 0 on the
way, less a usual one.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from experiments.experiment import markdown_table
from gavelx.files.atomic import write_atomically
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.ports import free_port
from gavelx.worker.devices import Devices
from gavelx.worker.runner import ProcessRunner
from gavelx.worker.state import Folder

SIZES = (1, 2, 4, 2, 1)
STEPS = 8
"""Steps in each size before the next one, which tell how long a usual one takes."""
PATIENCE_S = 300.0
RESULTS = Path(__file__).parents[1] / "results" / "live_resize.md"


class Server:
    """An agent's runner with four devices, one job, and what rank 0 prints."""

    def __init__(self, folder: Path) -> None:
        devices = Devices("cpu", tuple("0123"))
        self.runner = ProcessRunner(Folder(folder / "agent"), folder / "shared", devices, grace_s=60.0)
        self.folder = folder
        self.lease_id, self.generation, self.numbers, self.numbered = 0, 0, list[int](), 0

    def _message(self, size: int, continues: int | None) -> wire.Launch:
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
            command=[sys.executable, "-m", "experiments.live_resize.job"],
            environment={"PYTHONPATH": str(Path(__file__).parents[2])},
            slots=range(size),
            world_size=size,
            processes=size,
            master_address="127.0.0.1",
            master_port=free_port(),
            until_step=1e9,
            folder="job",
            elasticity="workers:1-4",
            workers=4,
            size=wire.Size(generation=self.generation, rank_of_number=ranks),
            numbers=self.numbers,
            continues=continues,
        )

    def launch(self, size: int) -> None:
        self.runner.start(self._message(size, None), time.monotonic() + 3600.0)

    def resize(self, size: int) -> None:
        """Let the job go over to another size while it runs."""
        before = self.lease_id
        self.runner.resize(self._message(size, before))
        self.wait(lambda: any(report.HasField("handover") for report in self.runner.reports()), "the new size")
        self.runner.go_over(before)

    def stop(self) -> None:
        """Stop the job with a checkpoint."""
        self.runner.stop(self.lease_id, "stopped")
        self.wait(lambda: not self.runner.standing(), "the end")
        for ended in list(self.runner.ended()):
            self.runner.acknowledge(ended.report_id)

    def steps(self) -> list[tuple[float, int]]:
        """When rank 0 did each step, and with how many processes."""
        rows = [row.split() for row in self._output().splitlines()[:-1]]
        return [(float(time_s), int(processes)) for time_s, processes in rows]

    def _output(self) -> str:
        folders = self.runner.leases_of(1)
        logs = [log for folder in folders for log in sorted(folder.glob("out.0*.log"), key=_offset)]
        return "".join(log.read_text() for log in logs)

    def until_steps(self, size: int) -> None:
        """So many steps in this size, in a script that can go over to the next one."""

        def there() -> bool:
            last = self.steps()[-STEPS:]
            return len(last) == STEPS and {processes for _, processes in last} == {size} and self._can()

        self.wait(there, f"{STEPS} steps on {size}")

    def _can(self) -> bool:
        return all(report.sizes == self.generation + 1 for report in self.runner.reports())

    def wait(self, for_: Callable[[], bool], what: str) -> None:
        """Poll until it is so."""
        end_s = time.monotonic() + PATIENCE_S
        while not for_():
            self.runner.poll()
            if self.runner.ended() and what != "the end":
                raise SystemExit(f"the job ended: {self.runner.ended()}\n{self._output()[-2000:]}")
            if time.monotonic() > end_s:
                raise SystemExit(f"{what} did not come in {PATIENCE_S:g} s:\n{self._output()[-2000:]}")
            time.sleep(0.02)


def _offset(path: Path) -> int:
    name = path.name.split(".")
    return int(name[2]) if len(name) > 3 else 0


@contextmanager
def a_server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder))
        try:
            server.launch(SIZES[0])
            server.until_steps(SIZES[0])
            yield server
            server.stop()
        finally:
            server.runner.close()


def pauses(change: Callable[[Server, int], None]) -> list[float]:
    """The seconds between the last step in a size and the first in the next, less a usual step of the latter."""
    found = list[float]()
    with a_server() as server:
        for size in SIZES[1:]:
            before_s, _ = server.steps()[-1]
            change(server, size)
            server.until_steps(size)
            times = [time_s for time_s, _ in server.steps() if time_s >= before_s]
            waits = [later - earlier for earlier, later in pairwise(times)]
            found.append(max(waits) - statistics.median(waits[-STEPS + 1 :]))
    return found


def restart(server: Server, size: int) -> None:
    server.stop()
    server.launch(size)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.live_resize", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(Path.cwd())}")
    typed = parser.parse_args()
    live, again = pauses(Server.resize), pauses(restart)
    changes = [f"{before} to {size}" for before, size in pairwise(SIZES)]
    rows = [
        [what, f"{one:.2f}", f"{other:.2f}", f"{other / one:.0f}"]
        for what, one, other in zip(changes, live, again, strict=True)
    ]
    table = markdown_table(["processes", "live, s", "stop and launch, s", "times shorter"], rows)
    machine = f"{os.cpu_count()} processor cores, Python {platform.python_version()}, 90 MB of parameters, gloo."
    command = "`python -m experiments.live_resize --write`"
    text = f"# Pauses of a job that changes its size\n\n{table}\n\n{machine} {command}\n"
    sys.stdout.write(text)
    if typed.write:
        write_atomically(RESULTS, text)


if __name__ == "__main__":
    main()
