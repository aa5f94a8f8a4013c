import pytest

from gavelx.cluster import Cluster
from gavelx.errors import WorkloadError
from gavelx.jobs import Job
from gavelx.throughputs import Setting, Throughputs
from gavelx.workload import check_workload

TABLE = Throughputs(
    {
        Setting("ResNet-50", "v100", 1): 10.0,
        Setting("ResNet-50", "k80", 1): 0.0,
        Setting("ResNet-50", "v100", 8): 60.0,
        Setting("ResNet-50", "k80", 8): 0.0,
        Setting("LM", "k80", 1): 3.0,
        Setting("LM", "p100", 1): 5.0,
    },
    name="mine",
)


def check(cluster: str, *jobs: Job) -> None:
    check_workload(jobs, Cluster.parse(cluster), TABLE, "jobs.csv")


def test_jobs_that_fit_pass() -> None:
    check("v100=8,k80=1", Job(0, "ResNet-50", 1.0), Job(1, "ResNet-50", 1.0, scale_factor=8), Job(2, "LM", 1.0))


@pytest.mark.parametrize(
    ("cluster", "job", "words"),
    [
        ("v100=1,h100=1", Job(3, "LM", 1.0), ["'h100'", "mine", "v100, k80, p100"]),
        ("v100=1", Job(3, "Resnet50", 1.0), ["jobs.csv, job 3", "'Resnet50'", "did you mean 'ResNet-50'"]),
        (
            "v100=7,k80=9",
            Job(3, "ResNet-50", 1.0, scale_factor=8),
            ["fits nowhere", "v100=7,k80=9", "at least 8"],
        ),
        ("v100=0,k80=9", Job(3, "ResNet-50", 1.0), ["fits nowhere", "at least 1"]),
        ("k80=9", Job(3, "ResNet-50", 1.0), ["cannot run on k80", "known to run on: v100"]),
        ("v100=9", Job(3, "LM", 1.0), ["no known throughput on v100", "k80, p100"]),
        ("v100=9", Job(3, "ResNet-50", 1.0, scale_factor=3), ["scale factor 3", "another scale factor"]),
    ],
)
def test_jobs_that_never_can_run_are_named(cluster: str, job: Job, words: list[str]) -> None:
    with pytest.raises(WorkloadError) as caught:
        check(cluster, *([Job(0, "LM", 1.0)] if "k80" in cluster else []), job)
    for word in words:
        assert word in str(caught.value)


def test_two_jobs_with_one_id_are_a_mistake() -> None:
    with pytest.raises(WorkloadError, match="two jobs have the id 3"):
        check("k80=1", Job(3, "LM", 1.0), Job(3, "LM", 2.0))


def test_a_job_that_would_take_for_ever_is_a_mistake() -> None:
    with pytest.raises(WorkloadError, match=r"^jobs.csv, job 3: 1e\+300 steps .* 1,000 years .*9.46e\+10 steps"):
        check("k80=1", Job(2, "LM", 1e9), Job(3, "LM", 1e300))
