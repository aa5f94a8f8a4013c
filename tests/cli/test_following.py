"""What `gavelx learn follow` learns from: the last jobs, in slots that are as long as their lengths ask for."""

import pytest

from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.learning.trial import Recent
from gavelx.throughputs import Setting, Throughputs

pytest.importorskip("grpc")
from gavelx.cli.following import SLOTS_MOST, lesson_on

TABLE = Throughputs({Setting("m", "a", width): width**0.8 for width in (1, 2, 4)})


def recent(*steps: float) -> Recent:
    jobs = tuple(Job(n, "m", total, elastic=Elastic("workers", 1, 4)) for n, total in enumerate(steps))
    return Recent(jobs, Cluster.of({"a": 4}, 4), TABLE)


@pytest.mark.parametrize(("steps", "slot_s"), [(1000.0, 360.0), (3.6e6 * 4**0.8, 7200.0)])
def test_jobs_of_ten_thousand_slots_are_learned_from_in_longer_ones(steps: float, slot_s: float) -> None:
    lesson = lesson_on(recent(50.0, steps), None)
    assert lesson.slot_s == pytest.approx(slot_s)
    assert lesson.shortest_s == pytest.approx(steps / 4**0.8)
    assert lesson.shortest_s <= SLOTS_MOST * lesson.slot_s * (1.0 + 1e-9)


def test_slots_that_are_asked_for_are_kept() -> None:
    assert lesson_on(recent(3.6e6), 100.0).slot_s == 100.0
