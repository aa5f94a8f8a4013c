"""Sia's kind of jobs in our simulator: the same work in every size, and a page of it."""

import pytest

from experiments.sia.elastic import applications, jobs_of, page, record_of, table_of
from experiments.sia.rounds import HOMOGENEOUS
from gavelx.estimator.model_table import placed
from gavelx.sizes import sizes, speed


def test_a_job_has_as_much_to_do_in_every_size() -> None:
    """Alone in its own size it takes what its model says, with the noise scale held."""
    table = table_of(HOMOGENEOUS)
    for job in jobs_of(1):
        one = applications()[job.job_type.rsplit("-", 1)[0]]
        own = speed(job, "aws", job.scale_factor, 0, table)
        assert own
        model = one.at(one.epochs // 2)
        batch = one.split("aws", job.scale_factor, job.elastic.batch if job.elastic else 0)
        goodput = float(model.goodput("aws", placed(job.scale_factor, 4), *batch))
        assert job.total_steps / own == pytest.approx(one.steps * one.batch / goodput, rel=0.02)
        assert all(size.steps_per_s > 0 for size in sizes(job, "aws", table))
        assert max(size.devices for size in sizes(job, "aws", table)) > job.scale_factor


def test_elastic_jobs_are_done_earlier() -> None:
    rigid, elastic = (record_of("hom", "optimus", variant, 1, 12) for variant in ("rigid", "elastic"))
    assert rigid["jobs_completed"] == elastic["jobs_completed"] == 12
    assert elastic["jct_mean_s"] < rigid["jct_mean_s"]


def test_the_page_has_a_row_for_each_policy_and_cluster() -> None:
    lines = page((1, 2), ["optimus"], jobs=6).splitlines()
    assert sum(line.startswith(("| hom | `optimus`", "| het | `optimus`")) for line in lines) == 2
