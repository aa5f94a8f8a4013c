"""What each family makes of its rows."""

import json
from pathlib import Path

import pytest

from gavelx.errors import InputFileError
from gavelx.files.importers import Imported, import_trace
from gavelx.files.importers.alibaba import TASK_COLUMNS
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from tests.files.importers.samples import LM, SAMPLES, tabs, write

TABLE = load_throughputs("simulation")


def sample(folder: Path, name: str) -> Imported:
    return import_trace(write(folder, name), TABLE)


def load(folder: Path, text: str, **options: object) -> Imported:
    path = folder / "jobs.txt"
    path.write_text(text)
    return import_trace(path, TABLE, **options)  # type: ignore[arg-type]


def shape(jobs: tuple[Job, ...]) -> list[tuple[float, int, float | None]]:
    """Arrival, devices and duration of each job."""
    return [(job.arrival_s, job.scale_factor, job.duration_s) for job in jobs]


def test_gavel(tmp_path: Path) -> None:
    first, second = sample(tmp_path, "gavel").jobs
    assert first == Job(0, "LM (batch size 5)", 1000.0, scale_factor=2, weight=5.0)
    assert second == Job(1, "ResNet-18 (batch size 32)", 500.0, arrival_s=7.5, slo=1.5)


def test_older_gavel_traces(tmp_path: Path) -> None:
    imported = sample(tmp_path, "gavel_seven")
    assert [(job.arrival_s, job.scale_factor, job.total_steps, job.weight) for job in imported.jobs] == [
        (0, 1, 1000, 1),
        (303, 8, 1000, 1),
    ]
    assert imported.left_out == {"no GPUs": 1}
    first, second = sample(tmp_path, "gavel_nine").jobs
    assert (first.weight, first.slo, first.scale_factor) == (5, None, 2)
    assert (second.weight, second.slo, second.arrival_s) == (1, 1.5, 7.5)


def test_shockwave(tmp_path: Path) -> None:
    first, second = sample(tmp_path, "shockwave").jobs
    assert (first.duration_s, first.total_steps, first.scale_factor) == (300.0, 1000.0, 2)
    assert (second.duration_s, second.slo, second.arrival_s) == (3338.0, None, 55.0)


def test_the_philly_log_counts_all_attempts(tmp_path: Path) -> None:
    imported = sample(tmp_path, "philly_log")
    assert shape(imported.jobs) == [(0, 1, 3600), (10, 8, 60), (20, 8, 3660)]
    assert imported.left_out == {"failed": 1, "never started": 1, "still running": 1}
    assert imported.jobs[0].owner == "6214e9/ce2f4c"
    assert imported.shifted_s == 1507338689  # 2017-10-07 01:11:29 UTC


def test_the_philly_log_may_be_a_single_line(tmp_path: Path) -> None:
    text = json.dumps(json.loads(SAMPLES["philly_log"].text))
    assert "\n" not in text
    assert load(tmp_path, text).jobs == sample(tmp_path, "philly_log").jobs


def test_what_is_there_twice_is_one_job(tmp_path: Path) -> None:
    """As in overlapping lists; a job of the same name that ran again is another."""
    text = SAMPLES["slurm"].text.rstrip("\n")
    first = text.splitlines()[1]
    once, twice = load(tmp_path, text), load(tmp_path, f"{text}\n{first}\n{first}\n")
    assert twice.jobs == once.jobs and twice.left_out["there already"] == 2
    again = load(tmp_path, f"{text}\n{first.replace('-02T11:05:00|1-01', '-02T12:05:00|1-02')}\n")
    assert len(again.jobs) == len(once.jobs) + 1


def test_alibaba_with_its_header_in_another_order(tmp_path: Path) -> None:
    rows = [line.split(",") for line in SAMPLES["alibaba2020"].text.splitlines()]
    order = [9, 8, 0, 3, 1, 2, 4, 5, 6, 7]
    table = [[TASK_COLUMNS[k] for k in order], *([row[k] for k in order] for row in rows)]
    text = "\n".join(", ".join(f'"{cell}"' if cell == "job_name" else cell for cell in row) for row in table)
    assert load(tmp_path, text.replace(', "', ',"')).jobs == sample(tmp_path, "alibaba2020").jobs


def test_philly_lists(tmp_path: Path) -> None:
    imported = sample(tmp_path, "philly_list")
    assert shape(imported.jobs) == [(0, 1, 14580), (5, 8, 300)]
    assert imported.left_out == {"took no time": 1}
    assert (imported.changes["gpus_cut"], imported.changes["job_types_drawn"]) == (1, 2)
    imported = sample(tmp_path, "philly_pollux")
    assert shape(imported.jobs) == [(0, 4, 2951), (2932, 1, 66)]
    assert imported.jobs[0].owner == "6214e9"


def test_pollux(tmp_path: Path) -> None:
    imported = sample(tmp_path, "pollux")
    by_type = {job.job_type: job for job in imported.jobs}
    assert list(by_type) == [
        "ResNet-18 (batch size 256)",
        "LM (batch size 20)",
        "Recommendation (batch size 512)",
        "Transformer (batch size 32)",
        "ResNet-50 (batch size 16)",
        "ResNet-50 (batch size 128)",
    ]
    # 100 epochs in steps of 2048 samples, 341.3 on each of 6 devices; then on 8
    step_s = 0.0828 + 0.0001523 * 2048 / 6
    assert imported.jobs[0].duration_s == pytest.approx(100 * 50_000 / 2048 * step_s * 6 / 8, rel=1e-4)
    # Recommendation is known on one device only
    assert by_type["Recommendation (batch size 512)"].scale_factor == 1
    assert imported.changes == {"job_types_closest": 6, "gpus_rounded_up": 1, "gpus_cut": 3}
    assert [str(job.elastic) for job in imported.jobs] == [
        "batch:1-64/128-2048-4096",
        "batch:1-64/20-640",
        "batch:1-64/256-1024-32768",
        "batch:1-64/12-384-384",
        "batch:1-64/8-64-512",
        "batch:1-64/200-6400-12800",
    ]


def test_elasticflow_keeps_deadlines(tmp_path: Path) -> None:
    first, second = sample(tmp_path, "elasticflow").jobs
    assert (first.scale_factor, first.duration_s) == (1, 5644)
    assert first.deadline_s == pytest.approx(3719996 - 3715485)
    assert str(first.elastic) == "workers:1-64"
    assert (second.scale_factor, second.duration_s) == (1, 8 * 66)
    assert second.deadline_s == pytest.approx(3717583 - 3715485)


def test_elasticflow_as_its_authors_publish_it(tmp_path: Path) -> None:
    jobs = sample(tmp_path, "elasticflow_trace").jobs
    assert shape(jobs) == [(0, 1, 5644), (2065, 1, 8 * 66), (5887, 4, 6600), (105989, 8, 2 * 17119)]
    assert [job.job_type for job in jobs] == [
        "ResNet-18 (batch size 256)",  # the largest: 4,096 on one GPU
        "Recommendation (batch size 4096)",
        "ResNet-50 (batch size 32)",
        "ResNet-50 (batch size 16)",
    ]
    deadlines = [job.deadline_s and job.deadline_s + 3715485 for job in jobs]
    assert deadlines == [pytest.approx(3719996), pytest.approx(3717583), None, pytest.approx(3832082)]
    assert jobs[0].slo == pytest.approx((3719996 - 3715485) / 5644)  # sooner than one GPU can be done


def test_elasticflow_of_microsoft(tmp_path: Path) -> None:
    imported = sample(tmp_path, "elasticflow_microsoft")
    assert shape(imported.jobs) == [(0, 8, 2000), (16686, 4, 3890)]
    assert imported.shifted_s == -120  # submitted before the collection began
    assert [job.deadline_s for job in imported.jobs] == [pytest.approx(3120), pytest.approx(21467)]
    raw = sample(tmp_path, "elasticflow_raw")
    assert shape(raw.jobs) == [(0, 4, 3890), (434, 8, 8 * 7200)]
    assert (raw.left_out, raw.changes) == ({"no GPUs": 1}, {"job_types_drawn": 2, "gpus_cut": 1})


def test_elasticflow_writes_pollux_workloads(tmp_path: Path) -> None:
    first, second = sample(tmp_path, "elasticflow_pollux").jobs
    assert first.deadline_s == pytest.approx(3719996 - 3715485)
    assert (second.job_type, second.total_steps) == ("ResNet-50 (batch size 16)", 3089024 / 16)
    assert str(second.elastic) == "workers:1-64"


def test_tiresias(tmp_path: Path) -> None:
    imported = sample(tmp_path, "tiresias")
    assert shape(imported.jobs) == [(0, 1, 164), (30, 8, 147), (53, 2, 127)]
    assert {job.job_type.partition(" (")[0] for job in imported.jobs} == {"ResNet-50"}
    assert not any(job.elastic for job in imported.jobs)
    assert imported.left_out == {"took no time": 1}


def test_helios(tmp_path: Path) -> None:
    imported = sample(tmp_path, "helios")
    assert shape(imported.jobs) == [(0, 1, 3600), (27, 8, 7200)]
    assert [job.owner for job in imported.jobs] == ["vcLab/uAnn1", "vcLab/uCat1"]
    assert imported.left_out == {"failed": 1, "no GPUs": 1, "never started": 1}
    without = SAMPLES["helios"].text.replace("duration,queue", "took,queue")
    assert load(tmp_path, without).jobs == imported.jobs  # from start and end


def test_ones_counts_samples(tmp_path: Path) -> None:
    jobs = sample(tmp_path, "ones").jobs
    assert [job.job_type for job in jobs] == [
        "ResNet-50 (batch size 32)",
        "Transformer (batch size 16)",
        "ResNet-50 (batch size 128)",
    ]
    assert [job.total_steps for job in jobs] == [47 * 10000 / 32, 5 * 8000 / 16, 25 * 20000 / 128]
    assert [job.scale_factor for job in jobs] == [8, 2, 4]


def test_tasks_of_one_alibaba_job_are_one_job(tmp_path: Path) -> None:
    imported = sample(tmp_path, "alibaba2020")
    # 2 GPUs for 200 s and 1 for 100 s: 500 GPU-seconds on 3, which become 4; half a GPU for an hour holds a whole
    # one for an hour
    assert shape(imported.jobs) == [(0, 4, pytest.approx(125)), (152, 1, pytest.approx(3600))]
    assert imported.left_out == {"no GPUs": 1, "failed": 1, "never started": 1}
    named = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
    assert load(tmp_path, named + SAMPLES["alibaba2020"].text).jobs == imported.jobs


def test_alibaba_pods(tmp_path: Path) -> None:
    imported = sample(tmp_path, "alibaba2023")
    assert shape(imported.jobs) == [(0, 8, 9990), (241678, 1, pytest.approx(1000))]
    assert imported.left_out == {"failed": 1, "no GPUs": 1, "never started": 1}


def test_slurm(tmp_path: Path) -> None:
    imported = sample(tmp_path, "slurm")
    assert shape(imported.jobs) == [(0, 1, 1800), (3600, 4, 90000)]
    assert [job.owner for job in imported.jobs] == ["nlp/bob", "vision/ann"]
    assert imported.left_out == {
        "step of a job": 1,
        "no GPUs": 1,
        "failed": 1,
        "never started": 1,
        "still running": 1,
    }


@pytest.mark.parametrize(
    ("column", "cell", "nodes", "gpus"),
    [
        ("AllocTRES", "cpu=1,gres/gpu=2", "1", 2),
        ("ReqTRES", "cpu=1,gres/gpu:a100=2,gres/gpu:t4=2", "1", 4),
        ("ReqTRES", "gres/gpumem=80G,gres/gpuutil=3,gres/gpu=1", "1", 1),
        ("ReqGRES", "gpu:2", "2", 4),
        ("AllocGRES", "gpu:tesla:4(S:0-1)", "2", 8),
        ("ReqGRES", "gres:gpu:1", "1", 1),
        ("ReqGRES", "gpu:2080ti", "2", 2),
        ("ReqGRES", "gpu", "4", 4),
        ("AllocGRES", "gpu:1080:2(IDX:0,1)", "1", 2),
        ("AllocGRES", "7696487:2", "1", 2),
        ("ReqGRES", "mygpu:3,gpu:1,gpu_mem:80G", "1", 1),
    ],
)
def test_slurm_counts_gpus(tmp_path: Path, column: str, cell: str, nodes: str, gpus: int) -> None:
    text = f"JobID|Submit|ElapsedRaw|NNodes|{column}\n7|2024-03-01T10:00:00|60|{nodes}|{cell}\n"
    assert load(tmp_path, text).jobs[0].scale_factor == gpus


@pytest.mark.parametrize(("column", "cell"), [("AllocTRES", "gres/gpu=1K"), ("ReqGRES", "gpu:a100:many")])
def test_slurm_counts_that_cannot_be_read_are_refused(tmp_path: Path, column: str, cell: str) -> None:
    text = f"JobID|Submit|ElapsedRaw|{column}\n7|2024-03-01T10:00:00|60|cpu=4,{cell}\n"
    with pytest.raises(
        InputFileError, match=f"row 2, column {column}: '{cell}' cannot be used; expected gpu|gres"
    ):
        load(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "jobs"),
    [
        ("job_id,submit_time,duration_s,num_gpus,status\n" + "7,2017-09-26 22:24:39,100,1,Pass\n" * 2, 1),
        ("job_id,arrival_s,model,task,epoch_size,batch_size,num_gpus\n" + "7,0,resnet50,cifar,100,32,1\n" * 2, 1),
        ("name,time,application,num_replicas,batch_size\n" + "cifar10-1,0,cifar10,1,128\n" * 2, 1),
        ("time,application,num_replicas,batch_size\n" + "0,cifar10,1,128\n" * 2, 2),
        ("job1,task1,1,Terminated,10,70,600,2,100,V100\n" * 2, 1),
    ],
    ids=["philly", "ones", "pollux", "without names", "alibaba"],
)
def test_a_record_that_comes_again_is_the_same_job(tmp_path: Path, text: str, jobs: int) -> None:
    imported = load(tmp_path, text)
    assert len(imported.jobs) == jobs and imported.left_out.get("there already", 0) == 2 - jobs
    assert all(job.scale_factor == 1 for job in imported.jobs)


def test_failed_jobs_of_philly_lists_are_left_out(tmp_path: Path) -> None:
    rows = "submit_time,duration_s,num_gpus,status\n2017-09-26 22:24:39,9,1,Failed\n2017-09-26 22:24:39,9,1,Pass\n"
    assert load(tmp_path, rows).left_out == {"failed": 1}


def test_nulls_of_the_philly_log_are_nothing(tmp_path: Path) -> None:
    jobs = json.loads(SAMPLES["philly_log"].text)
    count = len(sample(tmp_path, "philly_log").jobs)
    empty = {"status": "Killed", "submitted_time": "2017-10-07 01:11:39", "attempts": None, "user": None}
    without = {"attempts": [{"start_time": None, "end_time": None, "detail": None}], "user": ""}
    imported = load(tmp_path, json.dumps([*jobs, empty, {**empty, "status": "Failed", **without}]))
    assert len(imported.jobs) == count
    assert imported.left_out["never started"] and imported.left_out["failed"]


def test_a_trace_of_ours_with_more_columns_is_ours(tmp_path: Path) -> None:
    """Steps and job types are there: they are not made from a duration that others know by its name."""
    text = "job_id,arrival_s,job_type,scale_factor,total_steps,submit_time,duration_s,num_gpus\n"
    imported = load(tmp_path, text + "0,0,A3C,1,100,2017-09-26 22:24:39,5,1\n")
    assert (imported.format, imported.jobs[0].job_type, imported.jobs[0].total_steps) == ("csv", "A3C", 100.0)


@pytest.mark.parametrize(
    ("text", "elapsed_s"),
    [("00:01:00", 60), ("1-00:00:01", 86401), ("02:03", 123), ("10-01:00:00.5", 867600.5), ("100:00:00", 360000)],
)
def test_slurm_elapsed(tmp_path: Path, text: str, elapsed_s: float) -> None:
    rows = f"JobID|Submit|Elapsed|AllocTRES\n7|2024-03-01T10:00:00|{text}|gres/gpu=1\n"
    assert load(tmp_path, rows).jobs[0].duration_s == elapsed_s


def test_our_own_trace_is_taken_as_it_is(tmp_path: Path) -> None:
    imported = sample(tmp_path, "csv")
    assert [job.id for job in imported.jobs] == [3, 1]
    assert imported.jobs[1].slo == 1.2
    assert imported.changes == {}


LISTED = "job_id,submit_time,duration_s,num_gpus\n0,2017-09-26 22:24:39,100,1\n"
POD = SAMPLES["alibaba2023"].text.splitlines()[:2]
GAVEL = tabs(*LM, 5.0, -1, 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LISTED + "1,yesterday,100,1", "row 3, column submit_time: 'yesterday' cannot be used; expected a time"),
        (LISTED + "1,2017,100,1", "row 3, column submit_time: '2017' cannot be used"),
        (LISTED + "1,1812-09-26 22:24:39,100,1", "row 3, column submit_time"),
        (LISTED + "1,2017-09-26 22:24:39,-5,1", "row 3, column duration_s: '-5' cannot be used"),
        (LISTED + "1,2017-09-26 22:24:39,1e13,1", "row 3, column duration_s: .* 1e\\+12 at most"),
        (LISTED + "1,2017-09-26 22:24:39,5,half", "row 3, column num_gpus: 'half' cannot be used"),
        (LISTED + "1,2017-09-26 22:24:39,5", "row 3: the line has 3 fields; expected 4: job_id"),
        (LISTED + '1,"2017-09-26 22:24:39,5,1', "row 3: is no CSV"),
        (GAVEL + "\n" + GAVEL.replace("\t", " "), "row 2: .* 1 fields between tabs; expected 10: job_type"),
        (GAVEL + "\n" + GAVEL.replace("LM", "ML"), "row 2, column job_type: .*did you mean"),
        (GAVEL + "\n" + GAVEL.replace("\t2\t5.0", "\t0\t5.0"), "row 2, column scale_factor: '0' cannot be used"),
        (GAVEL + "\n" + GAVEL.replace("\t-1\t", "\tsoon\t"), "row 2, column slo: 'soon' cannot be used"),
        (SAMPLES["shockwave"].text.replace("gns", "fast"), "row 1, column mode: 'fast' is not known"),
        (SAMPLES["csv"].text + "3,60,A3C,,,1,5,1,,,", "row 4, column job_id: job 3 is in row 2 already"),
        (SAMPLES["csv"].text + "4,1e13,A3C,,,1,5,1,,,", "row 4, column arrival_s: '1e13' cannot be used"),
        (SAMPLES["pollux"].text + "x,5,gpt7,1,5", "row 8, column application: 'gpt7' is not known"),
        (SAMPLES["ones"].text + "x,5,resnet50,chess,1,5,1,1", "row 5, column task: 'chess' is not known"),
        (SAMPLES["elasticflow"].text + "2,5,bert,9,1,1,1,4", "row 4, column deadline_s: 4 s is not after"),
        (SAMPLES["elasticflow_trace"].text.replace("3719996", "3"), "row 2, column ddl: 3 s is not after"),
        (SAMPLES["elasticflow_trace"].text.replace("5644,0", "5644,2"), "row 2, column best_effort: '2' cannot"),
        (SAMPLES["elasticflow_raw"].text.replace("16566", "today"), "row 2, column submission_time: 'today' "),
        (SAMPLES["tiresias"].text.replace("0,1,0", "0,one,0"), "row 2, column num_gpu: 'one' cannot be used"),
        (SAMPLES["helios"].text.replace("COMPLETED", "DONE"), "row 2, column state: 'DONE' is not known"),
        (SAMPLES["helios"].text.replace("19:41:28", "25:41:28"), "row 4, column start_time: .* cannot be used"),
        (SAMPLES["helios"].text.replace("06-09 18:41:01,2", "June,2"), "row 2, column submit_time: '2020-June'"),
        (SAMPLES["gavel_seven"].text + "A3C\t\t-n\t0\t9\t5", "row 4: the line has 6 fields .* expected 7: "),
        (SAMPLES["gavel_seven"].text.replace("303.0", "x"), "row 2, column arrival_s: 'x00000' cannot be used"),
        (SAMPLES["slurm"].text.replace("FAILED", "BROKEN"), "row 6, column State: 'BROKEN' is not known"),
        (SAMPLES["slurm"].text.replace("1-01:00:00|C", "1d|C"), "row 2, column Elapsed: '1d' cannot be used"),
        (SAMPLES["slurm"].text.replace("gpu=4", "gpu=" + "9" * 9), "row 2, column AllocTRES: .* GPUs"),
        ("\n".join(POD).replace("9447497", "9437500"), "row 2, column deletion_time: .* before the start"),
        (SAMPLES["philly_log"].text.replace("Killed", "Lost"), "row 30, .*status: 'Lost' is not known"),
        (SAMPLES["philly_log"].text.replace("02:00:00", "then"), "row 30, job .*attempts.1..start_time.* then'"),
        ("[{}, 3]", "row 1, job 1: the key 'status' is missing"),
        ("[{},", "row 1: the file ends early"),
        ("[\n{},\n{]", "row 3, job 2: is no JSON"),
        ("[" * 100_000, "row 1, job 1: is no JSON"),
        (SAMPLES["philly_log"].text.replace("\n    },", "\n    }"), "row 29: a comma is missing after job 1"),
        ("[]\n[{}]", "row 2: something follows the list; expected one list"),
    ],
)  # fmt: skip
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputFileError, match=said) as caught:
        load(tmp_path, text)
    assert "jobs.txt" in str(caught.value)


def test_bytes_that_are_no_text_cost_one_row(tmp_path: Path) -> None:
    path = tmp_path / "jobs.txt"
    path.write_bytes(LISTED.encode() + b"1,2017-09-26 22:24:39,\xff,1\n2,2017-09-26 22:24:40,5,1\n")
    imported = import_trace(path, TABLE, skip_bad_rows=True)
    assert [(bad.row, bad.problem) for bad in imported.skipped] == [
        (3, "the line is no UTF-8 text; expected UTF-8 text")
    ]
    assert len(imported.jobs) == 2


def test_a_trace_without_jobs_says_what_became_of_the_rows(tmp_path: Path) -> None:
    with pytest.raises(InputFileError, match=r"the trace has no jobs \(no GPUs: 2, cannot be used: 1\)"):
        load(
            tmp_path,
            LISTED.replace(",1\n", ",0\n") + "1,2017-09-26 22:24:39,5,0\n2,x,5,1\n",
            skip_bad_rows=True,
        )
