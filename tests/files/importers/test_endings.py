"""Jobs that failed or were cancelled: kept or left out, and their share of the device-time either way."""

from pathlib import Path

import pytest

from gavelx.errors import OptionError
from gavelx.files.importers import Ending, Imported, import_trace
from gavelx.files.throughput_tables import load_throughputs
from tests.files.importers.samples import SAMPLES, write

TABLE = load_throughputs("simulation")
KEEPS = tuple(Ending)


def sample(folder: Path, name: str, keep: str) -> Imported:
    return import_trace(write(folder, name), TABLE, keep=keep)


@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("slurm", (1, 2, 3)),
        ("jobcomp", (1, 2, 3)),
        ("helios", (1, 2, 3)),
        ("philly_log", (2, 3, 4)),
        ("alibaba2020", (2, 2, 3)),
        ("alibaba2023", (2, 2, 3)),
        ("tiresias", (3, 3, 3)),
    ],
)
def test_each_word_keeps_more_jobs(tmp_path: Path, name: str, jobs: tuple[int, ...]) -> None:
    imported = [sample(tmp_path, name, keep) for keep in KEEPS]
    assert tuple(len(each.jobs) for each in imported) == jobs
    assert imported[1].jobs == import_trace(write(tmp_path, name), TABLE).jobs
    for each, keep in zip(imported, KEEPS, strict=True):
        assert sum(each.left_out.get(ending, 0) for ending in KEEPS) == sum(
            ended.jobs for ended in each.endings.values() if not ended.kept
        )
        assert [ended.kept for ended in each.endings.values()] == [
            KEEPS.index(ending) <= KEEPS.index(keep) for ending in each.endings
        ]


@pytest.mark.parametrize("name", SAMPLES)
def test_the_account_does_not_depend_on_what_is_kept(tmp_path: Path, name: str) -> None:
    accounts = [sample(tmp_path, name, keep).endings for keep in KEEPS]
    seen = [{ending: ended[:2] for ending, ended in account.items()} for account in accounts]
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("keep", KEEPS)
def test_every_row_is_accounted_for(tmp_path: Path, name: str, keep: str) -> None:
    imported = sample(tmp_path, name, keep)
    joined = 1 if name == "alibaba2020" else 0  # one job of two tasks
    assert imported.rows == len(imported.jobs) + joined + sum(imported.left_out.values())


@pytest.mark.parametrize("keep", KEEPS)
def test_the_share_of_device_time_is_that_of_all_jobs_that_ran(tmp_path: Path, keep: str) -> None:
    imported = sample(tmp_path, "helios", keep)
    device_s = {Ending.COMPLETED: 3600, Ending.CANCELLED: 16 * 3600, Ending.FAILED: 4 * 1800}
    assert {ending: ended.device_s for ending, ended in imported.endings.items()} == device_s
    assert imported.device_share(Ending.FAILED) == pytest.approx(7200 / sum(device_s.values()))


def test_a_trace_without_durations_has_no_shares(tmp_path: Path) -> None:
    assert sample(tmp_path, "gavel", "failed").device_share(Ending.COMPLETED) is None


def test_a_failed_job_without_an_end_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv"
    rows = SAMPLES["alibaba2020"].text
    path.write_text(rows + "cccc4763f4f5,worker,4.0,Failed,1739000.0,,600.0,29.3,100.0,P100\n")
    imported = import_trace(path, TABLE, keep="failed")
    assert imported.left_out["failed, without a start or an end"] == 1


def test_an_unknown_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="--keep: 'all' is not known; expected completed, cancelled, failed"):
        sample(tmp_path, "slurm", "all")
