"""Settings for all tests.

Generated cases are the same in every run, so that a failure elsewhere can be repeated here;
``HYPOTHESIS_PROFILE=explore`` draws new ones instead.
"""

import gc
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # tests run side by side; before anything imports numpy

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

OUTSIDE = ("GAVELX_", "SLURM_", "LOCAL_", "MASTER_", "RANK", "WORLD_", "COLUMNS", "FORCE_", "TTY_")
"""Variables of the shell about its cluster, its Slurm job, torchrun or its terminal. No test sees them."""
for variable in [*os.environ]:
    if variable.startswith(OUTSIDE):
        del os.environ[variable]
os.environ["GAVELX_COMPILED"] = "0"  # it would take a minute in each process; one test compares the bits

# Some of what is generated would be numbers from the modules that a process has imported, which differ by run.
providers._get_local_constants = lambda: providers._local_constants  # none

slow_is_fine = [HealthCheck.too_slow]
settings.register_profile(
    "repeat", deadline=None, derandomize=True, max_examples=50, suppress_health_check=slow_is_fine
)
settings.register_profile("explore", deadline=None, max_examples=500, suppress_health_check=slow_is_fine)
settings.register_profile(
    "quick", deadline=None, derandomize=True, max_examples=20, suppress_health_check=slow_is_fine
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))


PILES = 4


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Deal the files out in piles, in each of them those with slow tests first: processes then end together."""
    files = {path: i for i, path in enumerate(dict.fromkeys(item.path for item in items))}
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (files[item.path] % PILES, item.path not in slow, files[item.path]))


def pytest_collection_finish() -> None:
    """What was collected stays to the end, so the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
