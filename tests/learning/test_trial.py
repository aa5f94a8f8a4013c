"""A learner's guard: on the jobs that were, in the simulator, planted weights lose to the teacher."""

from pathlib import Path

import numpy as np
import pytest

from gavelx.learning.trial import TOLERANCE, Recent, Trial, tried
from gavelx.policies import Learned, elastic, load_policy
from tests.policies.test_learned import CLUSTER, JOBS, TABLE, network, written

RECENT = Recent(tuple(JOBS), CLUSTER, TABLE)
BAD = {
    "waits for ever": network(bias=-1e6),
    "by chance": network(1, sign=-1.0),
    "takes all": network(2, bias=1e6),
}


@pytest.mark.slow
def test_what_is_chosen_costs_at_most_a_twentieth_beyond_the_teacher(tmp_path: Path) -> None:
    bad = {name: elastic(Learned(written(tmp_path, one, f"{n}.npz"))) for n, (name, one) in enumerate(BAD.items())}
    trial = tried({"teacher": elastic(load_policy("srtf_program")), **bad}, "teacher", RECENT)
    assert trial.jct_s[trial.chosen()] <= (1.0 + TOLERANCE) * trial.jct_s["teacher"]
    assert all(trial.jct_s[name] > trial.jct_s["teacher"] for name in bad)
    assert max(trial.jct_s.values()) > (1.0 + TOLERANCE) * trial.jct_s["teacher"], "there is harm to be kept from"


def test_the_best_of_those_that_pass_is_chosen_and_the_teacher_if_none_does() -> None:
    assert Trial({"t": 100.0, "a": 104.0, "b": 103.0}, "t").chosen() == "b"
    assert Trial({"t": 100.0, "a": 104.0, "b": 90.0}, "t").chosen() == "b"
    assert Trial({"t": 100.0, "a": 106.0, "b": np.inf}, "t").chosen() == "t"
    assert Trial({"t": 100.0}, "t").chosen() == "t"
