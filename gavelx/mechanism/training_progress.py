"""How far jobs are that report their training: a Beta distribution of the part that is done, as in ONES.

A job that stops when it is good enough does not know its own end, but its losses tell. With e epochs done, ONES
(SC'21, section 3.2.1) believes the part done to be Beta(e, b) with b = max(A x + c, 1): b is about the number of
epochs left, linear in five features x (samples of an epoch, first loss, epochs done, part of the first loss that
is gone, validation accuracy). A and c maximise the likelihood of all reports of the jobs that ended before.

Deviations: max(z, 1) is smooth (1 + log(1 + exp(z - 1))), so that the likelihood has gradients everywhere. As
printed, 90 % intervals hold 69 % of new jobs (`experiments/results/ones.md`), since the reports of one job err
together. So both parameters are multiplied by a concentration, below 1, with which the intervals hold `LEVEL` of
reports of jobs that had no part in the fit (`FOLDS` of them left out in turn). Features are centred and scaled; a
job without an accuracy has that of the average report.

Legend: N reports, J jobs, F features.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gavelx.dense import solved
from gavelx.training_report import TrainingReport

Floats = NDArray[np.float64]
LEVEL = 0.9
JOBS_LEAST, JOBS_MOST = 10, 60
"""Nothing is believed before so many jobs have ended; the last so many are remembered."""
REPORTS_KEPT, REPORTS_USED = 64, 12
"""Reports that are kept of a job while it is there, and that are used once it has ended."""
RIDGE, TINY = 1e-3, 1e-9
STEPS_MOST, CLOSE = 50, 1e-7
"""Steps of a fit, and a change of a coefficient that is none."""
FOLDS = 5
PART_RANGE = 0.005, 0.995
CONCENTRATIONS = 0.02, 5.0
DECIMALS = 4
"""To which coefficients are rounded, so that they are the same on every processor."""


class Ended(NamedTuple):
    """The reports of a job that ended: epochs, features, the part that was done, and how much each one counts."""

    epochs_N: Floats
    x_NF: Floats
    part_N: Floats
    counts_N: Floats


@dataclass(frozen=True, eq=False)
class BetaModel:
    """Beta(k e, k b) for the part done, with b = max((x - ``centre``) / ``scale`` @ ``slope`` + ``base``, 1)."""

    centre_F: Floats
    scale_F: Floats
    slope_F: Floats
    base: float
    concentration: float = 1.0

    def beta(self, epochs_N: Floats, x_NF: Floats) -> tuple[Floats, Floats]:
        """Both parameters of each."""
        known_NF = np.where(np.isnan(x_NF), self.centre_F, x_NF)
        z_N = np.einsum("NF,F->N", (known_NF - self.centre_F) / self.scale_F, self.slope_F) + self.base
        k = self.concentration
        return k * np.maximum(1.0, epochs_N), k * _at_least_1(z_N)

    def quantile(self, epochs_N: Floats, x_NF: Floats, p: float) -> Floats:
        """The part done that is not passed with probability p."""
        from scipy.special import betaincinv  # noqa: PLC0415  (heavy, and few clusters need it)

        part_N: Floats = betaincinv(*self.beta(epochs_N, x_NF), p)
        return np.clip(part_N, *PART_RANGE)


@dataclass
class TrainingProgress:
    """The reports of live jobs, the history of those that ended, and what is believed from it."""

    _latest: dict[int, TrainingReport] = field(default_factory=dict)
    _reports: dict[int, list[tuple[TrainingReport, float]]] = field(default_factory=dict)
    _ended: deque[Ended] = field(default_factory=lambda: deque(maxlen=JOBS_MOST))
    _model: BetaModel | None = None
    _stale: bool = False  # a job has ended since the model was fitted

    def heard(self, job_id: int, report: TrainingReport, steps: float) -> None:
        """A job reports, after so many steps; one report is kept for each epoch."""
        if not report.says:
            return
        self._latest[job_id] = report
        kept = self._reports.setdefault(job_id, [])
        if steps > 0.0 and (not kept or math.floor(report.epochs) > math.floor(kept[-1][0].epochs)):
            kept.append((report, steps))
            if len(kept) > REPORTS_KEPT:
                del kept[1::2]

    def gone(self, job_id: int, steps: float | None) -> None:
        """A job is complete after so many steps, and teaches how far it had been; or it ended in another way."""
        self._latest.pop(job_id, None)
        reports = self._reports.pop(job_id, [])
        if steps is not None and (ended := _ended(reports, steps)) is not None:
            self._ended.append(ended)
            self._stale = True

    def model(self) -> BetaModel | None:
        """What the jobs that ended have taught; None while they are too few."""
        if self._stale and len(self._ended) >= JOBS_LEAST:
            self._model, self._stale = honest(list(self._ended)), False
        return self._model

    def part_done(self, job_ids: Sequence[int], levels: Sequence[float]) -> Floats:
        """The quantiles of the part that each job has done, J x levels; NaN where nothing is believed."""
        part_JQ = np.full((len(job_ids), len(levels)), np.nan)
        rows = [j for j, job_id in enumerate(job_ids) if job_id in self._latest]
        if rows and (model := self.model()) is not None:
            latest = [self._latest[job_ids[j]] for j in rows]
            epochs_N, x_NF = np.array([one.epochs for one in latest]), features(latest)
            for q, p in enumerate(levels):
                part_JQ[rows, q] = model.quantile(epochs_N, x_NF, p)
        return part_JQ


def features(reports: Sequence[TrainingReport]) -> Floats:
    """N x F: log samples of an epoch, first loss, epochs done, part of the first loss that is gone, accuracy."""
    epochs, samples, first, loss, accuracy = np.array(reports, dtype=float).reshape(-1, 5).T
    with np.errstate(divide="ignore", invalid="ignore"):
        x_NF = np.stack([np.log(samples), first, epochs, 1.0 - loss / first, accuracy], axis=1)
    return np.where(np.isfinite(x_NF), x_NF, np.nan)


def _ended(reports: Sequence[tuple[TrainingReport, float]], steps: float) -> Ended | None:
    """Up to `REPORTS_USED` of the reports of a job of so many steps; each stands for those between."""
    before = [(report, at) for report, at in reports if 0.0 < at < steps]
    if not before:
        return None
    count = min(REPORTS_USED, len(before))
    used = [before[n] for n in np.linspace(0, len(before) - 1, count).astype(int).tolist()]
    part_N = np.clip(np.array([at for _, at in used]) / steps, *PART_RANGE)
    epochs_N = np.array([report.epochs for report, _ in used])
    return Ended(epochs_N, features([report for report, _ in used]), part_N, np.full(count, len(before) / count))


def honest(history: Sequence[Ended]) -> BetaModel:
    """The likeliest model, with the concentration at which intervals hold of jobs that it has not seen."""
    from scipy.special import betainc  # noqa: PLC0415

    found = list[tuple[Floats, Floats, Floats, Floats]]()
    for fold in range(FOLDS):
        seen = [one for n, one in enumerate(history) if n % FOLDS != fold]
        model = likeliest(seen)
        found += [(*model.beta(one.epochs_N, one.x_NF), one.part_N, one.counts_N) for one in history[fold::FOLDS]]
    alpha_N, beta_N, part_N, counts_N = (np.concatenate(column) for column in zip(*found, strict=True))
    low, high = (math.log(end) for end in CONCENTRATIONS)
    for _ in range(20):
        middle = math.exp((low + high) / 2.0)
        below_N = betainc(middle * alpha_N, middle * beta_N, part_N)
        holds_N = (below_N > 0.5 - LEVEL / 2) & (below_N < 0.5 + LEVEL / 2)
        if (counts_N * holds_N).sum() >= LEVEL * counts_N.sum():
            low = math.log(middle)
        else:
            high = math.log(middle)
    return likeliest(history, round(math.exp(low), DECIMALS))


def likeliest(history: Sequence[Ended], concentration: float = 1.0) -> BetaModel:
    """The coefficients of maximal likelihood, held back a little.

    They are those of concentration 1: another one would only trade the mean for the spread.
    """
    epochs_N, x_NF, part_N, counts_N = (np.concatenate(column) for column in zip(*history, strict=True))
    known_NF = ~np.isnan(x_NF)
    count_F = np.maximum(1, known_NF.sum(axis=0))
    centre_F = np.where(known_NF, x_NF, 0.0).sum(axis=0) / count_F
    away_NF = np.where(known_NF, x_NF - centre_F, 0.0)
    spread_F = np.sqrt((away_NF**2).sum(axis=0) / count_F)
    scale_F = np.where(spread_F > 0.0, spread_F, 1.0)
    z_NF = np.column_stack([away_NF / scale_F, np.ones(len(part_N))])
    likelihood = _Likelihood(z_NF, np.maximum(1.0, epochs_N), part_N, counts_N / counts_N.sum())
    start_F = np.append(np.zeros(len(centre_F)), float(np.median(epochs_N / part_N - epochs_N)))
    best_F = np.round(likelihood.best_F(start_F), DECIMALS)
    return BetaModel(centre_F, scale_F, best_F[:-1], float(best_F[-1]), concentration)


class _Likelihood(NamedTuple):
    """Of coefficients: minus the mean logarithm, and the ridge. The last coefficient is the base."""

    z_NF: Floats
    alpha_N: Floats
    part_N: Floats
    weight_N: Floats

    def best_F(self, start_F: Floats) -> Floats:
        """By steps of Gauss and Newton, each halved until it helps."""
        best_F, value = start_F, self.value(start_F)
        for _ in range(STEPS_MOST):
            step_F = self._step_F(best_F)
            while not (found := self.value(best_F - step_F)) <= value and np.abs(step_F).max() > CLOSE:
                step_F /= 2.0
            if np.abs(step_F).max() <= CLOSE:
                break
            best_F, value = best_F - step_F, found
        return best_F

    def value(self, coefficients_F: Floats) -> float:
        from scipy.special import betaln  # noqa: PLC0415

        beta_N = _at_least_1(np.einsum("NF,F->N", self.z_NF, coefficients_F))
        of_N = (beta_N - 1.0) * np.log1p(-self.part_N) - betaln(self.alpha_N, beta_N)
        return RIDGE * float((coefficients_F[:-1] ** 2).sum()) - float((self.weight_N * of_N).sum())

    def _step_F(self, coefficients_F: Floats) -> Floats:
        from scipy.special import digamma, polygamma  # noqa: PLC0415

        beta_N = _at_least_1(np.einsum("NF,F->N", self.z_NF, coefficients_F))
        sum_N, slope_N = self.alpha_N + beta_N, 1.0 - np.exp(1.0 - beta_N)
        by_beta_N = digamma(beta_N) - digamma(sum_N) - np.log1p(-self.part_N)
        bend_N = polygamma(1, beta_N) - polygamma(1, sum_N)
        held_F = np.append(np.full(len(coefficients_F) - 1, 2.0 * RIDGE), TINY)
        by_line_N, bend_line_N = self.weight_N * by_beta_N * slope_N, self.weight_N * bend_N * slope_N**2
        gradient_F = held_F * coefficients_F + np.einsum("N,NF->F", by_line_N, self.z_NF)
        bend_FF = np.einsum("NF,N,NG->FG", self.z_NF, bend_line_N, self.z_NF) + np.diag(held_F)
        return np.asarray(solved(bend_FF[None], gradient_F[None])[0])


def _at_least_1(z_N: Floats) -> Floats:
    """A smooth max(z, 1)."""
    return 1.0 + np.logaddexp(0.0, z_N - 1.0)
