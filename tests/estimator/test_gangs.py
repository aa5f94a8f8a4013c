"""Gangs of widths that a table does not know: the importer keeps their shape, at estimated speeds."""

from pathlib import Path

import pytest

from gavelx.cluster import Cluster
from gavelx.estimator import GangSpeeds, make_estimator
from gavelx.files.importers import Imported, import_trace
from gavelx.files.throughput_tables import load_throughputs
from gavelx.files.throughput_writing import write_throughputs
from gavelx.policies import load_policy
from gavelx.simulator import simulate
from gavelx.throughputs import Setting, Throughputs

TABLE = load_throughputs("simulation")
HEADER = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"


def gangs(folder: Path, *widths: int, model: str = "resnet50", table: Throughputs = TABLE) -> Imported:
    path = folder / "jobs.csv"
    path.write_text(HEADER + "".join(f"{n},{n},0,9,{model},3600,0\n" for n in widths))
    return import_trace(path, table, estimate=GangSpeeds(table, make_estimator()))


def test_every_gang_keeps_its_shape_and_its_duration(tmp_path: Path) -> None:
    imported = gangs(tmp_path, 1, 3, 8, 12, 32, 500)
    assert [(job.scale_factor, job.duration_s) for job in imported.jobs] == [
        (n, 3600) for n in (1, 3, 8, 12, 32, 500)
    ]
    assert {n for _, n in imported.estimated} == {3, 12, 32, 500}
    assert imported.changes == {"job_types_named": 6, "gpus_estimated": 4}


def test_wider_gangs_are_faster_and_a_known_speed_stays(tmp_path: Path) -> None:
    imported = gangs(tmp_path, 8, 16, 64)
    speeds = [job.total_steps / 3600 for job in imported.jobs]
    assert speeds == sorted(speeds)
    assert speeds[0] == pytest.approx(TABLE.get(imported.jobs[0].job_type, "v100", 8))


def test_a_part_of_a_device_is_one_device(tmp_path: Path) -> None:
    path = tmp_path / "pods.csv"
    path.write_text(
        "name,num_gpu,gpu_milli,pod_phase,creation_time,deletion_time,scheduled_time\nx,1,500,Running,0,60,0\n"
    )
    (job,) = import_trace(path, TABLE, estimate=GangSpeeds(TABLE, make_estimator())).jobs
    assert (job.scale_factor, job.duration_s) == (1, 60)


def test_the_written_table_has_their_speeds_on_all_types(tmp_path: Path) -> None:
    imported = gangs(tmp_path, 4, 12)
    speeds = GangSpeeds(TABLE, make_estimator())
    path = tmp_path / "wide.csv"
    write_throughputs(path, speeds.table(imported.estimated))
    wide = load_throughputs(path)
    assert wide.isolated.items() >= TABLE.isolated.items()
    assert wide.colocated == TABLE.colocated
    ((job_type, _),) = imported.estimated
    new = wide.isolated.keys() - TABLE.isolated.keys()
    assert new == {
        Setting(job_type, name, 12, together) for name in ("v100", "p100", "k80") for together in (True, False)
    }
    job = imported.jobs[1]
    assert wide.get(job_type, "v100", 12) == pytest.approx(job.total_steps / 3600)
    result = simulate(load_policy("fifo"), imported.jobs, Cluster.parse("v100=16"), wide)
    assert result.summary()["jobs_completed"] == 2


def test_estimates_are_marked_in_the_written_table(tmp_path: Path) -> None:
    imported = gangs(tmp_path, 16)
    path = tmp_path / "wide.csv"
    table = GangSpeeds(TABLE, make_estimator()).table(imported.estimated)
    write_throughputs(path, table)
    header, *rows = path.read_text().splitlines()
    assert header.endswith(",lower,upper,origin")
    estimated = [row.split(",") for row in rows if row.endswith(",estimated")]
    assert len(estimated) == 6 == len(table.ranges)
    assert all(float(row[5]) < float(row[4]) < float(row[6]) for row in estimated)


def test_a_trace_with_steps_runs_too(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(
        "job_id,arrival_s,job_type,scale_factor,total_steps\n0,0,LM (batch size 20),16,5000\n1,0,A3C,1,50\n"
    )
    assert import_trace(path, TABLE).changes == {"runs_nowhere": 1}
    imported = import_trace(path, TABLE, estimate=GangSpeeds(TABLE, make_estimator()))
    assert imported.changes == {"gpus_estimated": 1}
    assert imported.estimated == (("LM (batch size 20)", 16),)


def test_a_type_that_runs_nowhere_wider_is_cut_as_without_estimates(tmp_path: Path) -> None:
    table = Throughputs(
        {
            Setting("ResNet-50 (batch size 16)", "v100", 1): 2.0,
            Setting("ResNet-50 (batch size 16)", "v100", 4): 0.0,
        },
        name="small",
    )
    path = tmp_path / "jobs.csv"
    path.write_text(HEADER + "0,16,0,9,resnet50,60,0\n")
    imported = import_trace(path, table, estimate=lambda settings: [0.0 for _ in settings])
    assert [(job.scale_factor, job.duration_s) for job in imported.jobs] == [(1, 16 * 60)]
    assert imported.estimated == ()
    imported = import_trace(path, table, estimate=lambda settings: [None for _ in settings])
    assert imported.changes["gpus_cut"] == 1
