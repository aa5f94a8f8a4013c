"""What `gavelx learn follow` learns from: the last jobs, in slots that are as long as their lengths ask for."""

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.learning.trial import Recent, tried
from gavelx.mechanism import DEFAULT
from gavelx.policies import load_policy
from gavelx.throughputs import Setting, Throughputs

pytest.importorskip("grpc")
from gavelx.cli import following
from gavelx.cli.following import SLOTS_MOST, asked_less, lesson_on

TABLE = Throughputs({Setting("m", "a", width): width**0.8 for width in (1, 2, 4)})


def recent(*steps: float) -> Recent:
    jobs = tuple(Job(n, "m", total, elastic=Elastic("workers", 1, 4)) for n, total in enumerate(steps))
    return Recent(jobs, Cluster.of({"a": 4}, 4), TABLE)


def test_jobs_of_ten_thousand_slots_are_learned_from_in_longer_ones() -> None:
    fastest = 4**0.8
    assert lesson_on(recent(50.0, 1000.0), None).slot_s == 360.0
    assert lesson_on(recent(50.0, 3.6e6 * fastest), None).slot_s == pytest.approx(3.6e6 / SLOTS_MOST)
    crowd = lesson_on(recent(*(3.6e6 * fastest,) * 8), None)
    assert crowd.slot_s == pytest.approx(8 * 3.6e6 * fastest / 4.0 / SLOTS_MOST), "one device each is the cheapest"


def test_slots_that_are_asked_for_are_kept() -> None:
    assert lesson_on(recent(3.6e6), 100.0).slot_s == 100.0


def test_a_policy_that_is_tried_on_long_jobs_is_not_asked_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "ANSWERS_MOST", 20)
    window, policy, asked = recent(*(3.6e6,) * 3), load_policy("elastic(srtf_program)"), []
    allocate = policy.allocate
    monkeypatch.setattr(policy, "allocate", lambda snapshot: (asked.append(snapshot), allocate(snapshot))[1])
    trial = tried({"teacher": policy}, "teacher", asked_less(window, lesson_on(window, None).least_s))
    assert trial.jct_s["teacher"] < np.inf
    assert 3 <= len(asked) <= 40
    assert asked_less(window, 1000.0).rules == DEFAULT
