"""The default estimator: Gaussian-process regression of speeds over job types, devices, shapes and partners."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np

from gavelx.estimator.calibration import Calibration, Noise
from gavelx.estimator.device_similarity import likely_covariance, well_known
from gavelx.estimator.effects import EFFECTS, GROUP_P, GROUPS, LEARNT, MODE_P, Cells, Covariance, Space
from gavelx.estimator.gaussian_process import Floats, Solved, Variances, Whole, likely_variances
from gavelx.estimator.interference_scale import PAIRS_MIN, likely_amplitudes
from gavelx.estimator.intervals import half_widths
from gavelx.estimator.known import Completing
from gavelx.estimator.names import read_name
from gavelx.estimator.one_thread import one_thread
from gavelx.estimator.smooth import PooledLeftOut, Smooth, pooled
from gavelx.measurements import Estimate, Way

SCALED_MAX, FITTED_MAX, EXACT_MAX, TURNS = 150, 400, 2500, 3
"""Cells to which groups of variances and all variances are fitted; cells solved together; rounds of fitting."""
PARTS, SAMPLE, NEAR_MIN, NEAR_MAX, WORK_MAX = 30, 20, 300, 1000, 1e11
"""With more cells: the number of parts of job types, the wanted cells of a part that select measured cells, the
number of these, and the multiplications that all parts may take together."""
ENTRIES_MAX = 2_000_000
LOG_MAX = np.log(np.finfo(float).max)


class Completion(Completing):
    """Kriging of the logarithm of speed over job types, devices, shapes and partners; ``effects`` has the model.

    Each model has a level of its own, since its unit of steps does not matter. Its batch sizes share this level,
    up to a trend and deviations of fitted size. So a batch size without a measurement is estimated from others
    of its model, and a model without any is unknown.

    Running time: variances are fitted to a sample of 400 cells, and up to 2,500 cells are solved together. With
    more cells, job types are estimated in parts, each from the 300 to 1,000 most similar cells: 200 job types on
    10 devices and all their pairs take a minute or two.
    """

    name = "completion"

    def forget(self) -> None:
        self.__dict__.pop("_fit", None)

    @cached_property
    def _fit(self) -> "_Fit":
        ran = {way: speed for way, speed in self.speed_of.items() if speed > 0}
        return _Fit.of(Space(list(ran), self.data_sheets), ran, [self.error_of[way] for way in ran])

    @one_thread
    def doubt(self, wanted: Sequence[Way], once: Sequence[Way]) -> Floats:
        """Uncertainty of the ``wanted`` speeds after the ways in ``once`` have been measured too.

        Standard deviations of the logarithm, without the noise of measurements (M). They do not depend on the
        measured values. With more measurements than are solved together, a sample is used.
        """
        fit = self._fit
        space = self._space_of(fit, [*once, *wanted])
        covariance, cells = space.covariance(fit.variance_P), space.cells(wanted)
        few = _sample(space.cells(fit.ways), EXACT_MAX)
        known = space.cells([*(fit.ways[n] for n in few), *once])
        error_N = np.concatenate([fit.error_N[few], np.zeros(len(once))])
        noise_N = fit.noise.likely(space)[known.group_N] + error_N**2
        solved = _solved(known, np.zeros(len(known)), noise_N, covariance)
        return solved.ask(covariance.between(cells, known), covariance.of(cells))[1]

    def _space_of(self, fit: "_Fit", more: Sequence[Way]) -> Space:
        """The space of the measured ways and these ways to run, with the learnt properties of devices."""
        space = Space([*fit.ways, *more], self.data_sheets)
        space.learn_likeness(fit.space.device["learnt"], fit.space.devices)
        space.learn_amplitudes(fit.log_amplitude_D, fit.space.devices)
        return space

    def complete(self, missing: Sequence[Way], level: float) -> list[Estimate | None]:
        fit = self._fit
        space = self._space_of(fit, missing)
        wanted = space.cells(missing)
        level_N = np.array([fit.level_of.get(read_name(way.job_type).model, np.nan) for way in missing])
        mean_N, sd_N = fit.ask(space, wanted, level)
        center_N = mean_N + wanted.prior_N + level_N
        examples_D, half_N = fit.examples(space), np.empty(len(wanted))
        for group in np.unique(2 * wanted.device_N + wanted.is_pair_N).tolist():
            device, of_pairs = divmod(group, 2)
            some = (wanted.device_N == device) & (wanted.is_pair_N == of_pairs)
            whose = bool(of_pairs), space.devices[device], level
            like, of_jobs = fit.calibration.like(*whose), fit.calibration.of_jobs(*whose)
            half_N[some] = half_widths(sd_N[some], (examples_D[device], len(fit.ways)), like, of_jobs, level)
        logs_NX = np.stack([center_N, center_N - half_N, center_N + half_N], axis=1)
        speeds_NX = np.exp(np.minimum(logs_NX, LOG_MAX))
        return [
            Estimate(mid, low, high, "estimated") if mid > 0 else None for mid, low, high in speeds_NX.tolist()
        ]


@dataclass(frozen=True)
class _Fit:
    """The fitted model: levels, variances, and the prediction of each cell from all others.

    ``y_N`` are logarithms of speed minus the prior and the level of the job; ``log_amplitude_D`` is NaN where too
    few pairs are known.
    """

    space: Space
    ways: Sequence[Way]
    y_N: Floats
    error_N: Floats
    level_of: dict[str, float]
    log_amplitude_D: Floats
    variance_P: Floats
    solved: Solved
    smooth: Smooth
    calibration: Calibration

    @property
    def noise(self) -> Noise:
        return self.calibration.noise

    @classmethod
    def of(cls, space: Space, speed_of: dict[Way, float], errors: Sequence[float]) -> "_Fit":
        ways = list(speed_of)
        cells, error_N = space.cells(ways), np.array(errors)
        y_N = np.log(list(speed_of.values())) - cells.prior_N
        model_N = [read_name(way.job_type).model for way in ways]
        logs_of: dict[str, list[float]] = {}
        for model, log in zip(model_N, y_N.tolist(), strict=True):
            logs_of.setdefault(model, []).append(log)
        level_of = {model: fmean(logs) for model, logs in logs_of.items()}
        y_N = y_N - np.array([level_of[model] for model in model_N])
        smooth, at_N = Smooth.of(space, cells, y_N, error_N**2), np.full(len(cells), -1)
        at_N[smooth.at_n] = np.arange(len(smooth.at_n))
        few = _sample(cells, FITTED_MAX)
        log_D = _log_amplitudes(space, cells[few], y_N[few], error_N[few])
        space.learn_amplitudes(log_D, space.devices)
        likely = _likely(space, cells[few], y_N[few], error_N[few])
        variance_P, noise_G = likely.effect_P, likely.noise_G
        some = np.arange(len(cells)) if len(cells) <= EXACT_MAX else few
        solved = _solved(
            cells[some], y_N[some], noise_G[cells.group_N[some]] + error_N[some] ** 2, space.covariance(variance_P)
        )
        left_out = PooledLeftOut(solved.left_out(), smooth.solved.left_out(), at_N[some])
        calibration = Calibration.of(space, cells[some], likely, len(few), left_out)
        return cls(space, ways, y_N, error_N, level_of, log_D, variance_P, solved, smooth, calibration)

    def examples(self, space: Space) -> list[float]:
        """The number of examples for each device of a space: other devices, and job types measured on it."""
        jobs_on = Counter(device for _, device in {(way.job_type, way.accelerator) for way in self.ways})
        others = [len(jobs_on) - (name in jobs_on) for name in space.devices]
        return [float(jobs_on[name] + n) for name, n in zip(space.devices, others, strict=True)]

    def ask(self, space: Space, wanted: Cells, level: float) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the wanted cells, in a space that has the measured ways as well.

        The noise is as used in intervals of this level, larger because it is uncertain (``inflation``).
        """
        known, covariance = space.cells(self.ways), space.covariance(self.variance_P)
        noise_G, counted_G = self.noise.likely(space), self.noise.counted(space, level)
        variance_M = covariance.of(wanted) + noise_G[wanted.group_N]
        mean_M, sd_M = np.empty(len(wanted)), np.empty(len(wanted))
        for some_M, near_N in self._asked_together(wanted, known, covariance):
            near, solved = known[near_N], self.solved
            if len(known) > EXACT_MAX:
                noise_N = noise_G[near.group_N] + self.error_N[near_N] ** 2
                solved = _solved(near, self.y_N[near_N], noise_N, covariance)
            for part in np.array_split(some_M, 1 + len(some_M) * len(near) // ENTRIES_MAX):
                mean_M[part], sd_M[part] = solved.ask(covariance.between(wanted[part], near), variance_M[part])
        alone_M = ~wanted.is_pair_N
        second = self.smooth.ask(space, wanted[np.flatnonzero(alone_M)], known)
        mean_M, sd_M = pooled((mean_M, sd_M), second, alone_M)
        return mean_M, np.sqrt(sd_M**2 + (counted_G - noise_G)[wanted.group_N])

    def _asked_together(
        self, wanted: Cells, known: Cells, covariance: Covariance
    ) -> Iterator[tuple[Whole, Whole]]:
        """Predict all wanted cells from all measured ones, or in parts from the most similar ones."""
        if len(known) <= EXACT_MAX:
            yield np.arange(len(wanted)), np.arange(len(known))
            return
        for of_pairs in (False, True):
            kind_M = np.flatnonzero(wanted.is_pair_N == of_pairs)
            near = int(np.clip(np.sqrt(WORK_MAX / max(len(kind_M), 1)), NEAR_MIN, NEAR_MAX))
            jobs = np.unique(wanted.job_N[kind_M])
            for some in np.array_split(jobs, min(PARTS, max(len(jobs), 1))):
                some_M = kind_M[np.isin(wanted.job_N[kind_M], some)]
                few_M = some_M[:: -(-len(some_M) // SAMPLE) or 1]
                common_N = np.abs(covariance.between(wanted[few_M], known)).sum(axis=0)
                yield some_M, np.sort(np.argsort(-common_N, kind="stable")[:near])


def _likely(space: Space, cells: Cells, y_N: Floats, error_N: Floats) -> Variances:
    """Variances of effects and noise, and (in the space) the similarity of devices, fitted in turns."""
    some, mode_G = space.shared(cells), space.usual_noise_G
    if not len(cells):
        return Variances(MODE_P, mode_G, 0.0)
    kernel_PNN, given = space.kernels(cells, some), dict[str, Any](group_N=cells.group_N, known_N=error_N**2)
    few = _sample(cells, SCALED_MAX)
    fewer = {name: of_N[few] for name, of_N in given.items()}
    mode_P = _modes(kernel_PNN[:, few[:, None], few], some, y_N[few], mode_G, fewer)
    found = Variances(mode_P[some], mode_G, 0.0)
    model_N = space.model_J[cells.job_N]
    learns = well_known(model_N, cells.device_N, len(space.devices)).any()
    for turn in range(TURNS if learns else 1):
        if turn:
            learnt = some.tolist().index(LEARNT)
            variance_P = found.effect_P
            rest_NN = np.tensordot(variance_P, kernel_PNN, 1) - variance_P[learnt] * kernel_PNN[learnt]
            rest_NN[np.diag_indices_from(rest_NN)] += found.noise_G[cells.group_N] + error_N**2
            C_DD = likely_covariance(
                y_N,
                rest_NN,
                model_N=model_N,
                device_N=cells.device_N,
                variance=float(variance_P[learnt]),
                C_DD=space.device["learnt"],
            )
            space.learn_likeness(C_DD, space.devices)
            kernel_PNN[learnt] = space.kernels(cells, np.array([LEARNT]))[0]
        found = likely_variances(y_N, kernel_PNN, **given, mode_P=mode_P[some], mode_G=mode_G, start=found)
    mode_P[some] = found.effect_P
    return found._replace(effect_P=mode_P)


def _modes(kernel_PNN: Floats, some: Whole, y_N: Floats, mode_G: Floats, given: dict[str, Any]) -> Floats:
    """The modes of the priors of all variances, each group of effects scaled to what the measurements say of it.

    With few measurements only sums of effects are known, and what is large or small in a table is so in a group.
    """
    groups = np.unique(GROUP_P[some])
    sums = [np.tensordot(MODE_P[some] * (GROUP_P[some] == group), kernel_PNN, 1) for group in groups]
    scale = np.ones(len(GROUPS))
    scale[groups] = likely_variances(
        y_N, np.array(sums), **given, mode_P=np.ones(len(sums)), mode_G=mode_G
    ).effect_P
    scaled_P: Floats = MODE_P * scale[GROUP_P]
    return scaled_P


def _log_amplitudes(space: Space, cells: Cells, y_N: Floats, error_N: Floats) -> Floats:
    """The scale of interference on each device, with the prior variances of effects."""
    known_D = np.bincount(cells.device_N, cells.is_pair_N, minlength=len(space.devices)) >= PAIRS_MIN
    if not known_D.any():
        return np.full(len(known_D), np.nan)
    differs_P = np.array([effect.differs for effect in EFFECTS])
    slowdown_NN = space.covariance(MODE_P * differs_P).between(cells, cells)
    noise_N = space.usual_noise_G[cells.group_N] + error_N**2
    rest_NN = space.covariance(MODE_P * ~differs_P).between(cells, cells) + np.diag(noise_N)
    return likely_amplitudes(y_N, rest_NN, slowdown_NN, cells.device_N, known_D)


def _sample(cells: Cells, count: int) -> Whole:
    """``count`` random cells, half of them pairs if there are enough of both; the same each time."""
    random = np.random.default_rng(0)
    kinds = [random.permutation(np.flatnonzero(cells.is_pair_N == of_pairs)) for of_pairs in (False, True)]
    most = max(count // 2, count - min(map(len, kinds)))
    return np.sort(np.concatenate([kind[:most] for kind in kinds]))


def _solved(cells: Cells, y_N: Floats, noise_N: Floats, covariance: Covariance) -> Solved:
    K = covariance.between(cells, cells)
    K[np.diag_indices_from(K)] += noise_N
    return Solved.of(K, y_N)
