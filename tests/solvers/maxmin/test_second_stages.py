"""Programs with floors: what is raised once a first optimum must be kept, and ratios of jobs that must hurry."""

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.configurations import Configurations
from gavelx.errors import ProgramError
from gavelx.jobs import Job
from gavelx.policies import Maximize, Minimize, load_policy
from gavelx.policies.terms import (
    CostRatio,
    FinishTimeRatio,
    Largest,
    Linear,
    NormalizedThroughput,
    Throughput,
    Worst,
)
from gavelx.policies.view import View
from gavelx.snapshot import Snapshot
from gavelx.solvers import using
from gavelx.solvers.maxmin import lexicographic, ratio
from gavelx.solvers.price_engine import dense_program
from gavelx.solvers.program.statement import Affine, Requirement

PRICES = np.linspace(0.45, 2.48, 12)


def distinct(J: int, A: int, seed: int, devices: int | None = None) -> Snapshot:
    """Jobs that all differ, an eighth as many devices of each type; with gangs, weights and hours behind them."""
    random = np.random.default_rng([seed, J, A])
    throughput_JA = np.linspace(1.0, 4.0, A) * random.lognormal(0.0, 0.5, (J, A))
    scale_J = random.choice([1, 2, 4], size=J, p=[0.7, 0.2, 0.1])
    weight_J, steps_J = random.choice([1.0, 5.0], J), throughput_JA.max(axis=1) * random.uniform(1e3, 1e6, J)
    names = tuple(f"t{a}" for a in range(A))
    columns = zip(steps_J.tolist(), weight_J.tolist(), scale_J.tolist(), strict=True)
    jobs = tuple(
        Job(i, "x", total_steps=steps, weight=weight, scale_factor=scale)
        for i, (steps, weight, scale) in enumerate(columns)
    )
    return Snapshot(
        cluster=Cluster.of(dict.fromkeys(names, devices or max(4, J // 8))),
        jobs=jobs,
        known=Configurations.of_matrix(throughput_JA, scale_J.astype(np.int64)),
        steps_left_J=steps_J,
        elapsed_s_J=random.uniform(0.0, 1e5, J),
        usd_per_hour_A=PRICES[:A],
        equal_share_s_J=random.uniform(0.0, 1e5, J),
    )


@pytest.mark.parametrize("devices", [20, 75])
def test_after_the_makespan_all_levels_are_raised_at_many_distinct_jobs(devices: int) -> None:
    answer = load_policy("makespan").allocate(distinct(600, 8, seed=1, devices=devices))
    seen = answer.certificate
    assert "not all raised" not in seen.path and "highs" not in seen.path
    assert seen.objective == pytest.approx(seen.bound, rel=1e-8)


@pytest.mark.parametrize(("J", "devices"), [(40, 4), (40, 12), (320, 12), (320, 40)])
def test_what_the_makespan_leaves_is_shared_as_by_plain_programs(
    monkeypatch: pytest.MonkeyPatch, J: int, devices: int
) -> None:
    snapshot = distinct(J, 4, seed=J, devices=devices)
    by_price = load_policy("makespan").allocate(snapshot)
    monkeypatch.setattr(lexicographic, "levels_by_price", lambda *_: None)
    plain = load_policy("makespan").allocate(distinct(J, 4, seed=J, devices=devices))
    assert by_price.certificate.objective == pytest.approx(plain.certificate.objective, rel=1e-8)
    np.testing.assert_allclose(by_price.throughput_J, plain.throughput_J, rtol=1e-5)


@pytest.mark.parametrize("J", [30, 400])
def test_ratios_over_floors_equal_those_found_step_by_step(monkeypatch: pytest.MonkeyPatch, J: int) -> None:
    with using(lexicographic=False):
        least = Minimize(Largest(FinishTimeRatio())).allocate(distinct(J, 5, seed=J)).certificate.objective
        policy = Minimize(Largest(CostRatio()), [FinishTimeRatio() <= 1.1 * least])
        at_once = policy.allocate(distinct(J, 5, seed=J)).certificate
        monkeypatch.setattr(ratio, "_at_their_floors", lambda _: None)
        in_steps = policy.allocate(distinct(J, 5, seed=J)).certificate
    assert "dinkelbach" not in at_once.path and "dinkelbach" in in_steps.path
    assert at_once.objective == pytest.approx(in_steps.objective, rel=1e-7)
    assert at_once.bound is not None and at_once.objective == pytest.approx(at_once.bound, rel=1e-8)


def test_a_floor_that_cannot_be_met_is_named() -> None:
    snapshot = distinct(400, 4, seed=0, devices=1)
    with pytest.raises(ProgramError, match=r"Throughput\(\) >= 3"):
        Maximize(Worst(NormalizedThroughput()), [Throughput() >= 3.0]).allocate(snapshot)


class OfEveryOther(Linear):
    """The speed of every other job, and 1 for the rest."""

    def linear(self, view: View) -> Affine:
        first_J = np.arange(len(view.snapshot.jobs)) % 2 == 0
        return view.throughput.where(first_J).shifted(np.where(first_J, 0.0, 1.0))

    def __repr__(self) -> str:
        return "OfEveryOther()"


def test_rows_that_do_not_rise_keep_their_floors() -> None:
    answer = Maximize(Worst(OfEveryOther()), [Throughput() >= 0.05]).allocate(distinct(40, 3, seed=2, devices=8))
    assert answer.throughput_J.min() >= 0.05 * (1.0 - 1e-9)


def test_what_requirements_leave_at_least() -> None:
    view = View(distinct(3, 2, seed=0))
    speed = view.throughput
    two = Requirement(speed.shifted(-2.0), "two")
    more = Requirement(speed.scaled(0.5).shifted(np.array([-3.0, 0.0, 3.0])), "six, none and less than none")
    nothing = Requirement(speed.scaled(0.0), "nothing")
    assert dense_program.least([two, more, nothing], speed).tolist() == [6.0, 2.0, 2.0]
    assert dense_program.least([two, Requirement(speed.scaled(-1.0).shifted(2.0), "at most")], speed) is None
    assert dense_program.least([two, Requirement(speed.scaled(0.0).shifted(-1.0), "out of reach")], speed) is None
