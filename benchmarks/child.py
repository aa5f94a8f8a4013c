"""The other end of :func:`benchmarks.sides.in_a_process_of_its_own`: instance in, answer out, both pickled."""

import os
import pickle
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.instances import all_distinct
from benchmarks.sides import by_policy

WARM_JOBS = 3000


def peak_mb() -> float:
    """The largest resident memory of this process so far, in MB (10^6 bytes)."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss may still count the parent from which a process was forked
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return float(line.split()[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a solver prints goes to stderr: it must not come between the bytes of the answer
    text, instance = pickle.load(sys.stdin.buffer)
    side = by_policy(text)
    side.solve(side.ready(all_distinct(min(WARM_JOBS, len(instance.weight_J)), seed=0)))
    ready = side.ready(instance)
    start = time.perf_counter()
    raw = side.solve(ready)
    seconds, peak = time.perf_counter() - start, peak_mb()
    answer = replace(side.read(instance, raw), seconds=seconds, peak_mb=peak)
    with answers:
        pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)


if __name__ == "__main__":
    main()
