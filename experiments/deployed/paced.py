"""python -m experiments.deployed.paced v100=10,k80=2 WORKLOAD ...: a workload on a device of a declared speed.

``DEVICE``, which the agent has in its environment, says which of the speeds is meant. After each step the job
sleeps until the next one is due, so a declared device is as slow as it is said to be, whatever it runs on.
"""

import os
import sys
import time
from importlib import import_module
from typing import Any

DEVICE = "DECLARED_DEVICE"


class Pace:
    """So many steps in a second, and no more; a step that took too long is not made good by a faster one."""

    def __init__(self, steps_per_s: float) -> None:
        self.step_s = 1.0 / steps_per_s
        self.due_s = time.monotonic() + self.step_s

    def wait(self) -> None:
        """Until the next step is due."""
        now_s = time.monotonic()
        time.sleep(max(0.0, self.due_s - now_s))
        self.due_s = max(self.due_s, now_s) + self.step_s


def main() -> None:
    from gavelx.training import Training  # noqa: PLC0415  # a name from this module needs no torch

    speeds, workload, *arguments = sys.argv[1:]
    steps_per_s = dict(pair.split("=") for pair in speeds.split(","))[os.environ[DEVICE]]
    module = import_module(f"experiments.workloads.{workload}")
    pace, done = Pace(float(steps_per_s)), Training.done

    def slower(training: Training, *args: Any, **kwargs: Any) -> None:
        done(training, *args, **kwargs)
        pace.wait()

    Training.done = slower  # type: ignore[method-assign]
    sys.argv = [workload, *arguments]
    module.main()


if __name__ == "__main__":
    main()
