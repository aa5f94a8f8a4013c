"""Estimators compute with one thread, whatever was loaded before them."""

import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from gavelx.estimator import completion
from gavelx.estimator.combined import Combined
from gavelx.files.data_sheets import load_data_sheets
from gavelx.measurements import Measurement
from gavelx.throughputs import Setting


def test_estimating_takes_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    solved = completion.Solved.of

    def watched(*args: np.ndarray) -> object:
        seen.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")
        return solved(*args)

    monkeypatch.setattr(completion.Solved, "of", watched)
    made = Combined(load_data_sheets())
    made.observe([Measurement(Setting("m", "v100"), 2.0), Measurement(Setting("m", "k80"), 1.0)])
    made.estimate([Setting("m", "p100")])
    assert seen and set(seen) == {1}


def test_a_library_that_estimating_loads_takes_one_thread_too() -> None:
    """SciPy brings a library of its own, which a limit that was set before its import does not reach."""
    program = """
from gavelx.throughputs import Setting
import gavelx.estimated_speeds as speeds
from gavelx import load_throughputs
from gavelx.jobs import Job
from threadpoolctl import threadpool_info
import scipy.optimize as optimize
import gavelx.estimator.smooth as smooth
seen, minimize = [], smooth.minimize
def watched(*args, **kwargs):
    seen.extend(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")
    return minimize(*args, **{**kwargs, "options": {"maxiter": 1}})
smooth.minimize = watched
speeds.with_estimates(load_throughputs("simulation"), [Job(0, "ResNet-18 (batch size 64)", 1.0)], ["a100-40gb"])
assert len(seen) > 1 and set(seen) == {1}, seen
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
