"""Lessons on the package's own jobs, clusters and tables."""

from dataclasses import replace

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.errors import WorkloadError
from gavelx.jobs import Job
from gavelx.slots.model import play
from gavelx.throughputs import Setting, Throughputs

pytest.importorskip("torch")
from gavelx.learning.lessons import lesson_of

CLUSTER = Cluster.of({"a": 4}, 4)
TABLE = Throughputs({Setting("m", "a", width): float(width) for width in (1, 2, 4)}, name="t")


def jobs(*lengths: float) -> list[Job]:
    return [Job(n, "m", total_steps=steps, elastic=Elastic("workers", 1, 4)) for n, steps in enumerate(lengths)]


def test_each_trace_has_a_cluster_of_its_own() -> None:
    lesson = lesson_of([jobs(100.0, 400.0), jobs(200.0, 200.0)], CLUSTER, TABLE, slot_s=10.0)
    played = play(lesson.slots, lesson.teacher, 10.0)
    np.testing.assert_allclose(played.left_KJ, 0.0)
    assert (played.done_s_KJ[0] <= 130.0).all()
    assert (played.done_s_KJ[1] <= 110.0).all()


@pytest.mark.parametrize("seed", range(5))
def test_no_schedule_is_done_sooner_than_a_lesson_takes_at_least(seed: int) -> None:
    random = np.random.default_rng(seed)
    slopes = Throughputs({Setting("m", "a", width): width ** random.uniform(0.3, 1.0) for width in (1, 2, 4)})
    lengths = random.uniform(10.0, 1000.0, (2, int(random.integers(1, 7)))).tolist()
    lesson = lesson_of([jobs(*row) for row in lengths], CLUSTER, slopes, slot_s=10.0)
    assert 0.0 < lesson.least_s <= play(lesson.slots, lesson.teacher, 10.0).done_s_KJ.max() * (1.0 + 1e-9)


def test_traces_that_do_not_fit_are_refused() -> None:
    with pytest.raises(WorkloadError, match="equally many"):
        lesson_of([jobs(1.0), jobs(1.0, 2.0)], CLUSTER, TABLE)
    with pytest.raises(WorkloadError, match="equally many"):
        lesson_of([], CLUSTER, TABLE)
    with pytest.raises(WorkloadError, match="no size"):
        lesson_of([[replace(jobs(1.0)[0], job_type="unknown")]], CLUSTER, TABLE)
