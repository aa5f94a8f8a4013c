from pathlib import Path

import pytest

from gavelx.cli.cores import cores


@pytest.fixture(autouse=True)
def affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))


def own_of(tmp_path: Path, text: str) -> Path:
    (tmp_path / "own").write_text(text)
    return tmp_path / "own"


def test_cores_are_those_of_the_affinity_and_of_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cores(tmp_path, tmp_path / "none") == 16
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "4")
    assert cores(tmp_path, tmp_path / "none") == 4


def test_a_quota_of_cgroup_2_bounds_them_also_from_above(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "cpu.max").write_text("250000 100000\n")
    (tmp_path / "a" / "b" / "cpu.max").write_text("max 100000\n")
    assert cores(tmp_path, own_of(tmp_path, "0::/a/b\n")) == 3


def test_a_quota_of_cgroup_1_bounds_them(tmp_path: Path) -> None:
    here = tmp_path / "cpu,cpuacct" / "a"
    here.mkdir(parents=True)
    (here / "cpu.cfs_quota_us").write_text("50000\n")
    (here / "cpu.cfs_period_us").write_text("100000\n")
    own = own_of(tmp_path, "3:memory:/a\n4:cpu,cpuacct:/a\n")
    assert cores(tmp_path, own) == 1
    (here / "cpu.cfs_quota_us").write_text("-1\n")
    assert cores(tmp_path, own) == 16
