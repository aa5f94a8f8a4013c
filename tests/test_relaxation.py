"""An allocation says where its shares are a relaxation that no schedule gives."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from gavelx.allocation import Allocation, Certificate
from gavelx.cluster import Cluster
from gavelx.configurations import Configurations
from gavelx.files.snapshots import write_snapshot
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Throughputs
from tests.cli.conftest import shell as shell  # noqa: PLC0414  (a fixture)
from tests.cli.running import Shell

TYPES = ("v100", "k80")


def shared(devices: tuple[int, ...], widths: list[int], share_JA: Any) -> Allocation:
    """Jobs of these widths with these shares on each type."""
    jobs = tuple(Job(j, f"net {j}", 1e6, scale_factor=width) for j, width in enumerate(widths))
    speeds = {Setting(job.job_type, name, job.scale_factor): 1.0 for job in jobs for name in TYPES}
    cluster = Cluster.of(dict(zip(TYPES, devices, strict=False)), 1)
    snapshot = Snapshot.of(jobs, cluster, Throughputs(speeds, {}))
    table: Configurations = snapshot.configurations
    share_C = np.asarray(share_JA, dtype=float)[table.job_M, table.accelerator_C[table.configuration_M]]
    return Allocation(snapshot, share_C, Certificate(None, None, 0.0, "by hand", len(jobs), 0.0))


def test_a_gang_as_wide_as_the_cluster_beside_full_shares_is_a_relaxation() -> None:
    said = shared((8,), [8, 1, 1, 1, 1, 1], [[0.375], *[[1.0]] * 5]).relaxation
    assert said == (
        "the shares are a relaxation that no schedule meets: job 0 on 8 or more of 8 v100 (37.5% of the time) "
        "and jobs 1, 2, 3, 4, 5 (up to 100.0%) exclude each other"
    )


def test_three_gangs_wider_than_half_run_one_after_the_other() -> None:
    said = shared((8,), [5, 5, 5], [[0.5], [0.5], [0.5]]).relaxation
    assert said is not None
    assert "jobs 0, 1, 2 on 5 or more of 8 v100 (150.0% of the time) exclude each other" in said


@pytest.mark.parametrize(
    ("widths", "share_J"),
    [([8, 1], [0.4, 0.6]), ([4, 4], [1.0, 1.0]), ([7, 1], [1.0, 1.0]), ([5, 5, 3], [0.5, 0.5, 1.0])],
)
def test_shares_that_a_schedule_gives_are_none(widths: list[int], share_J: list[float]) -> None:
    assert shared((8,), widths, [[share] for share in share_J]).relaxation is None


shares = st.lists(st.integers(0, 20), min_size=2, max_size=2).filter(lambda two: sum(two) <= 20)


@given(
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.lists(st.integers(1, 6), min_size=2, max_size=2),
    st.lists(shares, min_size=2, max_size=2),
)
def test_two_jobs_have_a_schedule_exactly_where_nothing_is_said(
    devices: tuple[int, int], widths: list[int], twentieths: list[list[int]]
) -> None:
    share_JA = np.array(twentieths) / 20.0
    share_JA[np.array(widths)[:, None] > np.array(devices)] = 0.0
    said = shared(devices, widths, share_JA).relaxation
    assert (said is None) == _has_schedule(devices, widths, share_JA)


def _has_schedule(devices: tuple[int, int], widths: list[int], share_JA: Any) -> bool:
    """Whether time can be divided among pairs of places (a type each, or none) that fit beside each other."""
    places = [(a, b) for a in (0, 1, 2) for b in (0, 1, 2) if a != b or a == 2 or sum(widths) <= devices[a]]
    rows = [[float(place[j] == a) for place in places] for j in (0, 1) for a in (0, 1)]
    limits = [*share_JA.ravel(), 1.0]
    return bool(linprog(np.zeros(len(places)), A_eq=[*rows, [1.0] * len(places)], b_eq=limits).status == 0)


def test_the_command_prints_and_writes_that_shares_are_a_relaxation(shell: Shell, tmp_path: Path) -> None:
    jobs = [Job(0, "wide", 1e6, scale_factor=8), *(Job(i, "small", 1e6) for i in range(1, 6))]
    speeds = Throughputs({Setting("wide", "v100", 8): 9.0, Setting("small", "v100"): 9.0}, {})
    path = tmp_path / "wide.json"
    write_snapshot(path, Snapshot.of(jobs, Cluster.parse("v100=8"), speeds))
    asked = ("allocate", "--policy", "max_min_fairness", "--snapshot", str(path))
    assert "a relaxation that no schedule meets: job 0" in " ".join(shell(*asked).out.split())
    said = json.loads(shell(*asked, "--json", "-").out)["certificate"]["relaxation"]
    assert said.startswith("the shares are a relaxation that no schedule meets: job 0 on 8 or more of 8 v100")


def test_policies_meet_shares_of_jobs_of_one_device() -> None:
    jobs = [Job(i, "net", 1e6) for i in range(5)]
    speeds = Throughputs({Setting("net", name): 1.0 for name in TYPES}, {})
    snapshot = Snapshot.of(jobs, Cluster.of({"v100": 2, "k80": 1}, 1), speeds)
    assert load_policy("max_min_fairness").allocate(snapshot).relaxation is None
