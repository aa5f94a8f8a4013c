"""A job model as rows of a table: in every size, a job is as fast as the model says."""

import pytest

from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.estimator.goodput import Efficiency, JobModel
from gavelx.estimator.model_table import model_table, placed
from gavelx.estimator.step_time import StepTime
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.simulator import simulate
from gavelx.sizes import sizes, speed

MODEL = JobModel(
    steps={
        "v100": StepTime(0.02, 0.001, 0.01, 0.002, 0.05, 0.001, 0.004, 2.0),
        "k80": StepTime(0.05, 0.004, 0.02, 0.002, 0.08, 0.001, 0.004, 1.5),
    },
    efficiency=Efficiency(batch=64, noise_scale=900.0),
    local_batch_max={"v100": 256, "k80": 96},
)
PER_SERVER = {"v100": 4, "k80": 2}
TABLE = model_table({"net": MODEL}, {"net": 1}, {"net": 1024}, PER_SERVER, range(1, 9))
JOB = Job(1, "net", 50_000.0, 1, elastic=Elastic.of("batch:1-8/64-1024"))


@pytest.mark.parametrize("accelerator", ["v100", "k80"])
def test_a_job_is_as_fast_as_its_model_says(accelerator: str) -> None:
    found = sizes(JOB, accelerator, TABLE)
    assert len(found) >= 5
    for size in found:
        placement = placed(size.devices, PER_SERVER[accelerator])
        best = MODEL.best_batch(accelerator, placement, 1024)
        assert best is not None
        assert size.batch == best.total(placement)
        assert size.steps_per_s == pytest.approx(best.goodput / 64)


def test_its_own_size_is_an_update_at_its_own_batch() -> None:
    own = speed(JOB, "v100", 1, 0, TABLE)
    assert own == pytest.approx(1.0 / MODEL.step_seconds("v100", (1,), 64))


def test_what_does_not_fit_is_no_row() -> None:
    table = model_table({"net": MODEL}, {"net": 1}, {"net": 64}, PER_SERVER, (1, 2, 128))
    assert {size.devices for size in table.sizes} == {1, 2}


def test_a_job_with_a_model_is_simulated_to_its_end() -> None:
    cluster = Cluster.of({"v100": 8})
    rigid, elastic = (
        simulate(load_policy(text), [JOB], cluster, TABLE).completion_s_J[0]
        for text in ("max_min_fairness", "elastic(max_min_fairness)")
    )
    most = max(size.steps_per_s for size in sizes(JOB, "v100", TABLE))
    assert elastic == pytest.approx(JOB.total_steps / most)
    assert rigid == pytest.approx(JOB.total_steps * float(MODEL.step_seconds("v100", (1,), 64)))
