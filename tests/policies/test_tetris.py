"""Alignment and remaining work.

Legend: J jobs, A accelerator types.
"""

import numpy as np
from hypothesis import given

from gavelx.policies import Tetris
from gavelx.snapshot import WAITING, Snapshot
from tests.policies.instants import instant, types
from tests.policies.strategies import snapshots


def test_of_equal_work_the_widest_fits_best() -> None:
    """Demand 1/4 and 4/4 of the type, all of it free: alignment 1/4 and 1, remaining work 100 both."""
    snapshot = instant({"v100": 4}, [[1.0], [1.0]], [400.0, 100.0], scales=[1, 4])
    assert types(Tetris().allocate(snapshot).share_JA) == [WAITING, 0]


def test_shortness_is_weighed_in_means() -> None:
    """Alignments 1/4 and 1 (mean 5/8), work 10/4 and 400 (mean 201.25): scores 1/4 - m/129 and 1 - m 1.24.

    The short narrow job starts first if m is above 0.75/1.2346 = 0.6075.
    """
    snapshot = instant({"v100": 4}, [[1.0], [1.0]], [10.0, 400.0], scales=[1, 4])
    assert types(Tetris(shortness=0.61).allocate(snapshot).share_JA) == [0, WAITING]
    assert types(Tetris(shortness=0.60).allocate(snapshot).share_JA) == [WAITING, 0]


def test_a_job_goes_where_most_is_free_if_it_is_as_fast_there() -> None:
    snapshot = instant(
        {"a": 4, "b": 4}, [[1.0, 1.0]] * 3, [1e6, 1.0, 1.0], scales=[2, 1, 1], running=[0, WAITING, WAITING]
    )
    assert types(Tetris().allocate(snapshot).share_JA) == [0, 1, 1]


def test_jobs_with_no_step_left_are_weighed_by_their_fit_alone() -> None:
    """Warnings are errors here; the wide job does not fit, and its work is no measure of theirs."""
    snapshot = instant({"a": 8}, [[1.0]] * 3, [1.0, 1e10, 1.0], scales=[1, 8, 1], running=[0, WAITING, WAITING])
    snapshot = snapshot.replace(steps_left_J=np.array([0.0, 1e10, 0.0]))
    assert types(Tetris().allocate(snapshot).share_JA) == [0, WAITING, 0]


@given(snapshots(max_jobs=20))
def test_who_runs_is_left_alone(snapshot: Snapshot) -> None:
    type_J = np.array(types(Tetris().allocate(snapshot).share_JA), dtype=np.int64)
    again_J = types(Tetris().allocate(snapshot.replace(running_J=type_J)).share_JA)
    assert again_J == type_J.tolist()
