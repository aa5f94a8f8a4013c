"""python -m experiments.live_resize [--write]: how long a job of 90 MB stands still when it changes its size.

One agent runs the processes, as on a cluster (gloo, CPU), through 1, 2, 4, 2 and 1 of them, and the batch with
them: once live, and once stopped with a checkpoint and launched again. A pause is the longest time between two
steps of rank 0 on the way, less a usual one. `experiments.live_resize.losses` measures what becomes of the loss.
"""

import argparse
import os
import platform
import statistics
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from experiments.experiment import markdown_table
from experiments.live_resize.server import Script, Server, a_server
from gavelx.files.atomic import write_atomically

SIZES = (1, 2, 4, 2, 1)
BATCH = 2
"""Of one device."""
STEPS = 8
"""Steps in each size before the next one, which tell how long a usual one takes."""
RESULTS = Path(__file__).parents[1] / "results" / "live_resize.md"
SCRIPT = Script("experiments.live_resize.job", f"batch:1-4/{BATCH}-{4 * BATCH}")


def steps(server: Server) -> list[tuple[float, int]]:
    """When rank 0 did each step, and with how many processes."""
    return [(float(time_s), int(processes)) for time_s, processes in map(str.split, server.lines())]


def until_steps(server: Server, size: int) -> None:
    """So many steps in this size, in a script that can go over to the next one."""

    def there() -> bool:
        last = steps(server)[-STEPS:]
        return len(last) == STEPS and {processes for _, processes in last} == {size} and server.can_resize()

    server.wait(there, f"{STEPS} steps on {size}")


def pauses(change: Callable[[Server, int], None]) -> list[float]:
    """The seconds between the last step in a size and the first in the next, less a usual step of the latter."""
    found = list[float]()
    with a_server(SCRIPT) as server:
        server.launch(SIZES[0], SIZES[0] * BATCH)
        until_steps(server, SIZES[0])
        for size in SIZES[1:]:
            before_s, _ = steps(server)[-1]
            change(server, size)
            until_steps(server, size)
            times = [time_s for time_s, _ in steps(server) if time_s >= before_s]
            waits = [later - earlier for earlier, later in pairwise(times)]
            found.append(max(waits) - statistics.median(waits[-STEPS + 1 :]))
        server.stop()
    return found


def live(server: Server, size: int) -> None:
    server.resize(size, size * BATCH)


def restart(server: Server, size: int) -> None:
    server.stop()
    server.launch(size, size * BATCH)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.live_resize", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(Path.cwd())}")
    typed = parser.parse_args()
    alive, again = pauses(live), pauses(restart)
    changes = [f"{before} to {size}" for before, size in pairwise(SIZES)]
    batches = [f"{before * BATCH} to {size * BATCH}" for before, size in pairwise(SIZES)]
    rows = [
        [what, batch, f"{one:.2f}", f"{other:.2f}", f"{other / one:.0f}"]
        for what, batch, one, other in zip(changes, batches, alive, again, strict=True)
    ]
    table = markdown_table(["processes", "batch", "live, s", "stop and launch, s", "times shorter"], rows)
    load = f"{os.cpu_count()} processor cores with a load of {os.getloadavg()[1]:.0f}"
    machine = f"{load}, Python {platform.python_version()}, 90 MB of parameters, gloo."
    command = "`python -m experiments.live_resize --write`"
    text = f"# Pauses of a job that changes its size and its batch\n\n{table}\n\n{machine} {command}\n"
    sys.stdout.write(text)
    if typed.write:
        write_atomically(RESULTS, text)


if __name__ == "__main__":
    main()
