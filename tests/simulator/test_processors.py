"""The same seed gives the same output on every processor, byte for byte.

Other processors are stood in for by what libraries let one choose: the kernels and threads of OpenBLAS, which add
products in different orders, and the wide instructions with which numpy works out functions.
"""

import os
import subprocess
import sys
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
WIDE = " ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", []))  # type: ignore[index]
PROCESSORS = (
    {"OPENBLAS_CORETYPE": "SkylakeX", "OPENBLAS_NUM_THREADS": "1"},
    {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"},
    {"OPENBLAS_CORETYPE": "Sandybridge", "OPENBLAS_NUM_THREADS": "2"},
    {"OPENBLAS_CORETYPE": "Prescott", "OPENBLAS_NUM_THREADS": "2", "NPY_DISABLE_CPU_FEATURES": WIDE},
)


def printed(processor: dict[str, str]) -> tuple[str, list[str]] | None:
    """The kernels in use and what the runs say; None where this machine cannot execute such instructions."""
    command = [sys.executable, "-m", "tests.simulator.processors"]
    environment = os.environ | processor
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode < 0:
        return None
    assert ran.returncode == 0, ran.stderr
    kernels, *lines = ran.stdout.splitlines()
    return kernels, lines


def test_every_processor_gives_the_same_bytes() -> None:
    said = dict(answer for answer in map(printed, PROCESSORS) if answer is not None)
    if len(said) < 2:
        pytest.skip("this BLAS has one kernel for all processors")
    (kernels, lines), *others = said.items()
    for other, theirs in others:
        differ = [pair for pair in zip_longest(lines, theirs) if pair[0] != pair[1]]
        assert not differ, f"{len(differ)} lines; the first, with {kernels} and with {other}: {differ[0]}"
