"""Kriging against its textbook form, and variances against those that made the data."""

import numpy as np
import pytest

from gavelx.estimator.gaussian_process import (
    PRIOR_EXAMPLES,
    PRIOR_WEIGHT,
    Errors,
    Floats,
    Solved,
    Whole,
    likely_variances,
)
from gavelx.estimator.intervals import half_widths, inflation

MANY = 1e6
NO_JOBS = Errors(np.zeros(0), np.zeros(0)), 0


def test_cells_left_out_are_those_solved_without_them() -> None:
    random = np.random.default_rng(0)
    root = random.normal(size=(12, 12))
    K, y = root @ root.T + np.eye(12), random.normal(size=12)
    errors = Solved.of(K, y).left_out().each()
    for n in range(12):
        rest = np.arange(12) != n
        mean, sd = Solved.of(K[np.ix_(rest, rest)], y[rest]).ask(K[[n]][:, rest], K[[n], [n]])
        assert errors.error_N[n] == pytest.approx(y[n] - mean[0])
        assert errors.sd_N[n] == pytest.approx(sd[0])


def test_cells_left_out_together_are_those_solved_without_any_of_them() -> None:
    random = np.random.default_rng(0)
    root = random.normal(size=(12, 12))
    K, y = root @ root.T + np.eye(12), random.normal(size=12)
    some = np.array([1, 4, 9])
    rest = np.setdiff1d(np.arange(12), some)
    errors = Solved.of(K, y).left_out().together(some)
    mean, sd = Solved.of(K[np.ix_(rest, rest)], y[rest]).ask(K[np.ix_(some, rest)], np.diag(K)[some])
    assert errors.error_N == pytest.approx(y[some] - mean)
    assert errors.sd_N == pytest.approx(sd)


def test_variances_are_found_again() -> None:
    random = np.random.default_rng(1)
    group = np.repeat(np.arange(60), 8)
    shared = (group[:, None] == group[None, :]) * 1.0
    y = random.normal(0, 1.0, 60)[group] + random.normal(0, 0.3, len(group))
    whole = np.zeros(len(group), int)
    (effect,), (noise,), told = likely_variances(
        y, shared[None], group_N=whole, known_N=np.zeros(len(y)), mode_P=np.array([0.1]), mode_G=np.array([0.01])
    )
    assert effect == pytest.approx(1.0, rel=0.35)
    assert noise == pytest.approx(0.09, rel=0.2)
    assert told == pytest.approx(2.0, abs=0.1), "60 groups tell both"


def test_an_effect_without_evidence_keeps_its_mode() -> None:
    y = np.random.default_rng(2).normal(size=20)
    kernels = np.zeros((1, 20, 20))
    (unseen,), _, told = likely_variances(
        y, kernels, group_N=np.zeros(20, int), known_N=np.zeros(20), mode_P=np.array([0.7]), mode_G=np.ones(1)
    )
    assert unseen == pytest.approx(0.7)
    assert told < 1.0, "the noise alone, and that not fully"


def test_half_widths_follow_errors_of_cells_left_out() -> None:
    sd_N = np.ones(1000)
    error_N = np.random.default_rng(3).standard_t(3, 1000)
    wide = half_widths(np.ones(1), (MANY, MANY), [Errors(2 * error_N, sd_N)], NO_JOBS, 0.9)[0]
    usual = half_widths(np.ones(1), (MANY, MANY), [Errors(error_N, sd_N)], NO_JOBS, 0.9)[0]
    assert usual == pytest.approx(2.35, rel=0.1)  # the quantile of t with 3 degrees of freedom
    assert wide == pytest.approx(2 * usual, rel=0.02)
    assert half_widths(np.array([2.0]), (MANY, MANY), [], NO_JOBS, 0.9)[0] == pytest.approx(2 * 1.645, rel=1e-3)


@pytest.mark.parametrize(("examples", "times"), [(0.0, 2.920), (2.0, 2.132), (MANY, 1.645)])
def test_what_is_less_sure_than_cells_left_out_is_students_of_the_examples(examples: float, times: float) -> None:
    half = half_widths(np.array([10.0]), (examples, MANY), [Errors(np.zeros(1000), np.ones(1000))], NO_JOBS, 0.9)
    assert half / np.sqrt(99) == pytest.approx([times], rel=0.01)


@pytest.mark.parametrize(("cells", "times"), [(0, 2.920), (20, 2.132), (MANY, 1.645)])
def test_of_few_cells_variances_are_unsure_themselves(cells: float, times: float) -> None:
    """Student's t whose degrees of freedom grow by one with ten cells, whatever is known of devices."""
    assert half_widths(np.ones(1), (MANY, cells), [], NO_JOBS, 0.9) == pytest.approx([times], rel=0.01)
    exact = [Errors(np.zeros(10), np.ones(10))]  # ten cells take what is sure of their like half-way
    half = half_widths(np.full(1, 0.5), (MANY, cells), exact, NO_JOBS, 0.9)
    assert half == pytest.approx([0.5 * times / 2], rel=0.01)


def test_likely_variances_are_the_most_likely_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """No step away from them, of any variance, is likelier under measurements and prior."""
    for name, value in (("STEPS_MAX", 3000), ("CLOSE", 1e-7)):
        monkeypatch.setattr(f"gavelx.estimator.gaussian_process.{name}", value)
    random, N = np.random.default_rng(11), 30
    roots = random.normal(size=(3, N, 4))
    kernel_PNN = roots @ roots.transpose(0, 2, 1)
    group_N, mode_P, mode_G = np.arange(N) % 2, np.array([0.1, 0.2, 0.3]), np.array([0.05, 0.1])
    y_N = roots[0] @ random.normal(size=4) + random.normal(0, 0.3, N)
    given = {"group_N": group_N, "known_N": np.full(N, 0.01), "mode_P": mode_P, "mode_G": mode_G}
    found = np.concatenate(likely_variances(y_N, kernel_PNN, **given)[:2])
    examples = [np.trace(K) ** 2 / np.sum(K**2) for K in kernel_PNN]
    weight = np.minimum(PRIOR_WEIGHT, PRIOR_EXAMPLES / np.array([*examples, N / 2, N / 2]))

    def surprise(variance: Floats) -> float:
        K = np.tensordot(variance[:3], kernel_PNN, 1) + np.diag(variance[3:][group_N] + 0.01)
        fit = np.linalg.slogdet(K)[1] / 2 + y_N @ np.linalg.solve(K, y_N) / 2
        mode = np.concatenate([mode_P, mode_G])
        return float(fit + (weight * (np.log(variance) + mode / variance)).sum())

    for n in range(5):
        for factor in (0.98, 1.02):
            assert surprise(np.where(np.arange(5) == n, factor, 1.0) * found) > surprise(found)


def test_priors_fade_with_examples_of_their_effect_not_with_cells() -> None:
    """Of two effects that the cells do not show, the one with many examples goes, and the one with few stays."""
    random, N = np.random.default_rng(12), 240

    def of(groups: Whole) -> Floats:
        return np.asarray((groups[:, None] == groups) * 1.0)

    def found(groups: Whole) -> float:
        kernel, y_N = of(groups), random.normal(0, 1.0, N)
        y_N -= (kernel / kernel.sum(axis=1)) @ y_N
        noise = {"group_N": np.zeros(N, dtype=int), "known_N": np.zeros(N), "mode_G": np.ones(1)}
        return float(likely_variances(y_N, kernel[None], **noise, mode_P=np.ones(1)).effect_P[0])

    assert found(np.arange(N) % 4) > 0.15
    assert found(np.arange(N) // 3) < 0.02


def test_of_a_device_with_many_job_types_new_ones_are_as_unsure_as_those_left_out() -> None:
    errors = Errors(np.random.default_rng(5).normal(0, 0.5, 1000), np.ones(1000))
    two, some, many = (
        half_widths(np.array([10.0]), (MANY, MANY), [], (errors, jobs), 0.9)[0] / 10.0 for jobs in (2, 12, 100_000)
    )
    assert two == pytest.approx(1.645, rel=1e-3)
    assert many == pytest.approx(1.645 / 2, rel=0.1)
    assert some == pytest.approx((two + many) / 2, rel=1e-3)


def test_errors_on_the_same_device_count_most_where_there_are_many() -> None:
    error_N = np.random.default_rng(4).normal(0, 1, 1000)
    everywhere, here = Errors(error_N, np.ones(1000)), Errors(2 * error_N, np.ones(1000))
    few_here = here[np.arange(3)]
    many, few = (
        half_widths(np.ones(1), (MANY, MANY), [everywhere, its], NO_JOBS, 0.9)[0] for its in (here, few_here)
    )
    assert many == pytest.approx(2 * 1.645, rel=0.1)
    assert few < 0.75 * many


def test_a_variance_known_from_little_counts_as_in_student_t() -> None:
    none, some, many = inflation(np.array([0.0, 4.0, 1e6]), 0.9)
    assert none == pytest.approx(2 * (2.920 / 1.645) ** 2, rel=1e-3)  # t with 2 degrees of freedom
    assert some == pytest.approx(4 / 3 * (1.943 / 1.645) ** 2, rel=1e-3)  # with 6
    assert many == pytest.approx(1.0, rel=1e-3)
