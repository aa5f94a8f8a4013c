"""The elastic job model: steps by placement and batch size, and what a batch size is worth."""

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.estimation_elastic import assess, main, read_profiles
from gavelx.estimator.goodput import Efficiency, JobModel
from gavelx.estimator.step_time import Placement, Profile, StepTime, fit_step_time

TRUE = StepTime(0.02, 0.001, 0.01, 0.002, 0.05, 0.001, 0.004, 2.0)
HIDDEN = StepTime(0.42, 0.014, 0.55, 0.02, 0.62, 0.008, 0.0, 9.1)
"""Gradients are exchanged while it computes."""
PLACEMENTS: list[Placement] = [(1,), (2,), (4,), (8,), (1, 1), (4, 4), (8, 8), (6, 2), (2, 2, 2, 2)]
BATCHES = (8, 16, 32, 64, 128, 256)
SHARED = Path(__file__).parents[3] / "shared" / "data" / "throughputs" / "profiles_elastic.csv"


def profiles(placements: list[Placement] = PLACEMENTS, noise: float = 0.0, seed: int = 0) -> list[Profile]:
    """What steps of ``TRUE`` would measure."""
    rng = np.random.default_rng(seed)
    found = []
    for placement in placements:
        for batch in BATCHES:
            step_s, factor = float(TRUE.seconds(placement, batch)), float(np.exp(noise * rng.standard_normal()))
            sync_s = (step_s - float(TRUE.compute_seconds(batch))) * factor
            found.append(Profile(placement, batch, step_s * factor, sync_s))
    return found


def test_a_step_by_hand() -> None:
    assert TRUE.seconds((1,), 80) == pytest.approx(0.1)
    assert TRUE.sync_seconds((4,)) == pytest.approx(0.014)
    assert TRUE.sync_seconds((4, 4)) == pytest.approx(0.05 + 6 * 0.001 + 3 * 0.004)
    assert TRUE.seconds((4, 4), 80) == pytest.approx(math.hypot(0.1, 0.068))
    assert TRUE.seconds((4, 4), 80, accumulated=3) == pytest.approx(0.3 + math.hypot(0.1, 0.068))


def test_coefficients_are_found_again() -> None:
    fitted = fit_step_time(profiles())
    for placement in [*PLACEMENTS, (16,), (16, 16)]:
        for batch in (4, 100, 1000):
            expected = float(TRUE.seconds(placement, batch))
            assert fitted.seconds(placement, batch) == pytest.approx(expected, rel=0.02)


def test_noise_and_a_stalled_step_do_little_harm() -> None:
    seen = profiles(noise=0.05)
    seen[3] = seen[3]._replace(step_s=40.0 * seen[3].step_s)
    fitted = fit_step_time(seen)
    error = [abs(fitted.seconds(p, b) / TRUE.seconds(p, b) - 1) for p in PLACEMENTS for b in BATCHES]
    assert np.median(error) < 0.03
    assert max(error) < 0.15


def test_what_was_never_profiled_costs_no_more_than_what_was() -> None:
    alone = fit_step_time(profiles([(1,)]))
    assert alone.sync_seconds((4, 4)) == 0.0
    inside = fit_step_time(profiles([(1,), (2,), (4,)]))
    assert inside.sync_seconds((2, 2)) == inside.sync_seconds((4,)) > 0.0


@pytest.mark.parametrize(
    "seen", [[(1,)], [(1,), (2,)], [(2,)], [(2,), (4,)], [(1,), (2,), (4,), (4, 4)], [(4, 4)]]
)
@pytest.mark.parametrize("batches", [(20,), (40, 80), (10, 20, 40)])
@pytest.mark.parametrize("true", [TRUE, HIDDEN])
def test_a_model_of_little_is_exact_where_it_was_seen_and_no_nonsense_elsewhere(
    true: StepTime, seen: list[Placement], batches: tuple[int, ...]
) -> None:
    """As a running job reports, a way at a time: a job known on two devices is no hundred times slower on four."""
    told = [
        Profile(placement, batch, step_s, step_s - float(true.compute_seconds(batch)))
        for placement, batch in product(seen, batches)
        for step_s in [float(true.seconds(placement, batch))]
    ]
    fitted = fit_step_time(told)
    for one in told:
        assert fitted.seconds(one.placement, one.local_batch) == pytest.approx(one.step_s, rel=0.02)
    for placement, batch in product(PLACEMENTS, (10, 20, 40, 80)):
        ratio = float(fitted.seconds(placement, batch)) / float(true.seconds(placement, batch))
        assert 0.15 < ratio < 3.0


@given(st.sampled_from(PLACEMENTS), st.integers(1, 512), st.floats(1.0, 10.0))
def test_a_step_is_no_shorter_than_its_parts_and_no_longer_than_their_sum(
    placement: Placement, batch: int, overlap: float
) -> None:
    model = StepTime(0.02, 0.001, 0.01, 0.002, 0.05, 0.001, 0.004, overlap)
    parts = float(model.compute_seconds(batch)), model.sync_seconds(placement)
    step_s = float(model.seconds(placement, batch))
    assert max(parts) * (1 - 1e-12) <= step_s <= sum(parts) * (1 + 1e-12)


@given(st.floats(1.0, 1e3), st.floats(1e-3, 1e3), st.floats(1e-3, 1e6), st.floats(1.0, 64.0))
def test_efficiency_is_adaptdls_gain_per_sample(batch: float, norm: float, variance: float, scale: float) -> None:
    efficiency = Efficiency.of_gradients(batch, norm, variance)
    gain = (variance + norm) / (variance / scale + norm)
    assert efficiency.at(batch * scale) == pytest.approx(gain / scale)
    assert efficiency.at(batch) == pytest.approx(1.0)


def test_pure_noise_makes_every_sample_worth_the_same() -> None:
    assert Efficiency.of_gradients(32, 0.0, 1.0).at(1e9) == 1.0


@pytest.mark.parametrize("placement", [(1,), (3,), (4, 4)])
@pytest.mark.parametrize("noise_scale", [10.0, 1e3, 1e6])
def test_the_best_batch_is_next_to_the_best_of_all(placement: Placement, noise_scale: float) -> None:
    model = JobModel({"v100": TRUE}, Efficiency(32, noise_scale), {"v100": 50})
    devices, most = sum(placement), 4096
    choice = model.best_batch("v100", placement, most)
    assert choice is not None
    assert choice.local_batch <= 50
    assert 32 <= choice.total(placement) <= most
    assert choice.goodput == pytest.approx(
        model.goodput("v100", placement, choice.local_batch, choice.accumulated)
    )
    every = [
        float(model.goodput("v100", placement, local, accumulated))
        for local in range(1, 51)
        for accumulated in range(most // devices // local)
        if devices * local * (accumulated + 1) >= 32
    ]
    assert choice.goodput >= 0.98 * max(every)


def test_more_noise_wants_larger_batches_and_none_fit_between_nothing() -> None:
    sizes = []
    for noise_scale in (1.0, 1e2, 1e4):
        model = JobModel({"v100": TRUE}, Efficiency(32, noise_scale), {"v100": 256})
        choice = model.best_batch("v100", (4, 4), 2048)
        assert choice is not None
        sizes.append(choice.total((4, 4)))
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    assert model.best_batch("v100", (4, 4), 31) is None
    assert model.best_batch("v100", (8, 8, 8), 36) is None  # 48 is the least above 32


def test_ranges_hold_new_profiles_and_are_not_given_from_too_few() -> None:
    few = profiles([(1,)])
    model = JobModel.fit({"v100": profiles(noise=0.1), "k80": few}, Efficiency(32, 100.0))
    assert model.local_batch_max == {"v100": 256, "k80": 256}
    assert model.step_range("k80", (1,), 8)[1] == math.inf
    held = []
    for one in profiles(noise=0.1, seed=7):
        lower, upper = model.step_range("v100", one.placement, one.local_batch)
        held.append(lower <= one.step_s <= upper)
    assert 0.8 <= np.mean(held) <= 1.0
    assert upper / lower < 1.8


def test_the_experiment_reads_profiles_and_writes_its_table(tmp_path: Path) -> None:
    lines = ["model,accelerator,local_batch_size,num_nodes,num_gpus,placement,step_time_s,sync_time_s"]
    for one in profiles(noise=0.02):
        name = "+".join(str(k) for k in one.placement) if one.placement != (6, 2) else ""
        shape = f"{one.local_batch},{len(one.placement)},{sum(one.placement)},{name}"
        lines += [f"m,v100,{shape},{one.step_s},{one.sync_s}"] * 2
    (tmp_path / "p.csv").write_text("\n".join(lines))
    read = read_profiles(tmp_path / "p.csv")["m", "v100"]
    assert len(read) == len(PLACEMENTS) * len(BATCHES)
    assert (4, 4) in {one.placement for one in read}  # 8 on 2, spread evenly
    assert main([str(tmp_path / "p.csv"), "--out", str(tmp_path / "t.md")]) == 0
    assert "| m | v100 | 54 |" in (tmp_path / "t.md").read_text()


def test_sync_that_is_no_part_of_the_step_is_added(tmp_path: Path) -> None:
    header = "model,accelerator,local_batch_size,num_nodes,num_gpus,placement,step_time_s,sync_time_s"
    (tmp_path / "p.csv").write_text(f"{header}\nm,v100,8,1,2,2,0.1,0.02\nm,v100,8,2,4,2+2,0.1,0.3\n")
    steps = [one.step_s for one in read_profiles(tmp_path / "p.csv")["m", "v100"]]
    assert steps == pytest.approx([0.12, 0.4])


@pytest.mark.skipif(not SHARED.exists(), reason="the published profiles are not here (they state no licence)")
def test_published_profiles_are_predicted() -> None:
    rows = assess({key: seen for key, seen in read_profiles(SHARED).items() if key[0] == "bert"}, seed=1)
    assert len(rows) == 5
    assert all(row.median < 0.1 for row in rows)
    assert all(row.covered > 0.7 for row in rows)
