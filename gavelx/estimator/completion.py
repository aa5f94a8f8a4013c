"""The default estimator: Gaussian-process regression of speeds over job types, devices, shapes and partners."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gavelx.estimator.calibration import Calibration, Noise
from gavelx.estimator.device_similarity import likely_covariance, well_known
from gavelx.estimator.effects import EFFECTS, LEARNT, MODE_P, Cells, Covariance, Space
from gavelx.estimator.gaussian_process import Floats, Solved, Whole, likely_variances
from gavelx.estimator.interference_scale import PAIRS_MIN, likely_amplitudes
from gavelx.estimator.intervals import half_widths
from gavelx.estimator.known import Completing
from gavelx.measurements import Estimate, Way

FITTED_MAX, EXACT_MAX, TURNS = 400, 2500, 3
"""Cells to which variances are fitted; cells that are solved together; number of rounds of fitting."""
PARTS, SAMPLE, NEAR_MIN, NEAR_MAX, WORK_MAX = 30, 20, 300, 1000, 1e11
"""With more cells: the number of parts of job types, the wanted cells of a part that select measured cells, the
number of these, and the multiplications that all parts may take together."""
ENTRIES_MAX = 2_000_000
LOG_MAX = np.log(np.finfo(float).max)


class Completion(Completing):
    """Kriging of the logarithm of speed over job types, devices, shapes and partners; ``effects`` has the model.

    Each job type has a level of its own (the unit of steps does not matter), so a job type without any measurement
    is unknown. Running time: variances are fitted to a sample of 400 cells, and up to 2,500 cells are solved
    together. With more cells, job types are estimated in parts, each from the 300 to 1,000 most similar cells: 200
    job types on 10 devices and all their pairs take a minute or two.
    """

    name = "completion"

    def forget(self) -> None:
        self.__dict__.pop("_fit", None)

    @cached_property
    def _fit(self) -> "_Fit":
        ran = {way: speed for way, speed in self.speed_of.items() if speed > 0}
        return _Fit.of(Space(list(ran), self.data_sheets), ran, [self.error_of[way] for way in ran])

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
        level_N = np.array([fit.level_of.get(way.job_type, np.nan) for way in missing])
        mean_N, sd_N = fit.ask(space, wanted, level)
        center_N = mean_N + wanted.prior_N + level_N
        examples_D, half_N = fit.examples(space), np.empty(len(wanted))
        for group in np.unique(2 * wanted.device_N + wanted.is_pair_N).tolist():
            device, of_pairs = divmod(group, 2)
            some = (wanted.device_N == device) & (wanted.is_pair_N == of_pairs)
            whose = bool(of_pairs), space.devices[device], level
            like, of_jobs = fit.calibration.like(*whose), fit.calibration.of_jobs(*whose)
            half_N[some] = half_widths(sd_N[some], examples_D[device], like, of_jobs, level)
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
    calibration: Calibration

    @property
    def noise(self) -> Noise:
        return self.calibration.noise

    @classmethod
    def of(cls, space: Space, speed_of: dict[Way, float], errors: Sequence[float]) -> "_Fit":
        ways = list(speed_of)
        cells, error_N = space.cells(ways), np.array(errors)
        y_N = np.log(list(speed_of.values())) - cells.prior_N
        count_J = np.maximum(np.bincount(cells.job_N), 1)
        level_J = np.bincount(cells.job_N, y_N) / count_J
        level_of = {way.job_type: float(level_J[j]) for way, j in zip(ways, cells.job_N, strict=True)}
        y_N = y_N - level_J[cells.job_N]
        few = _sample(cells, FITTED_MAX)
        log_D = _log_amplitudes(space, cells[few], y_N[few], error_N[few])
        space.learn_amplitudes(log_D, space.devices)
        variance_P, noise_G = _likely(space, cells[few], y_N[few], error_N[few])
        some = np.arange(len(cells)) if len(cells) <= EXACT_MAX else few
        solved = _solved(
            cells[some], y_N[some], noise_G[cells.group_N[some]] + error_N[some] ** 2, space.covariance(variance_P)
        )
        calibration = Calibration.of(space, cells[some], noise_G, solved)
        return cls(space, ways, y_N, error_N, level_of, log_D, variance_P, solved, calibration)

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
        variance_M = covariance.of(wanted) + counted_G[wanted.group_N]
        mean_M, sd_M = np.empty(len(wanted)), np.empty(len(wanted))
        for some_M, near_N in self._asked_together(wanted, known, covariance):
            near, solved = known[near_N], self.solved
            if len(known) > EXACT_MAX:
                noise_N = noise_G[near.group_N] + self.error_N[near_N] ** 2
                solved = _solved(near, self.y_N[near_N], noise_N, covariance)
            for part in np.array_split(some_M, 1 + len(some_M) * len(near) // ENTRIES_MAX):
                mean_M[part], sd_M[part] = solved.ask(covariance.between(wanted[part], near), variance_M[part])
        return mean_M, sd_M

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


def _likely(space: Space, cells: Cells, y_N: Floats, error_N: Floats) -> tuple[Floats, Floats]:
    """Variances of effects and noise, and (in the space) the similarity of devices, fitted in turns."""
    mode_G = space.usual_noise_G
    variance_P, noise_G = MODE_P, mode_G
    learns = well_known(cells.job_N, cells.device_N, len(space.devices)).any()
    for turn in range(TURNS if learns else 1):
        kernel_PNN = space.kernels(cells)
        if turn:
            rest_NN = np.tensordot(variance_P, kernel_PNN, 1) - variance_P[LEARNT] * kernel_PNN[LEARNT]
            rest_NN[np.diag_indices_from(rest_NN)] += noise_G[cells.group_N] + error_N**2
            C_DD = likely_covariance(
                y_N,
                rest_NN,
                job_N=cells.job_N,
                device_N=cells.device_N,
                variance=float(variance_P[LEARNT]),
                C_DD=space.device["learnt"],
            )
            space.learn_likeness(C_DD, space.devices)
            kernel_PNN = space.kernels(cells)
        variance_P, noise_G = likely_variances(
            y_N,
            kernel_PNN,
            group_N=cells.group_N,
            known_N=error_N**2,
            mode_P=MODE_P,
            mode_G=mode_G,
            start=(variance_P, noise_G),
        )
    return variance_P, noise_G


def _log_amplitudes(space: Space, cells: Cells, y_N: Floats, error_N: Floats) -> Floats:
    """The scale of interference on each device, with the prior variances of effects."""
    known_D = np.bincount(cells.device_N, cells.is_pair_N, minlength=len(space.devices)) >= PAIRS_MIN
    if not known_D.any():
        return np.full(len(known_D), np.nan)
    kernel_PNN, differs_P = space.kernels(cells), [effect.differs for effect in EFFECTS]
    slowdown_NN = np.tensordot(MODE_P * differs_P, kernel_PNN, 1)
    noise_N = space.usual_noise_G[cells.group_N] + error_N**2
    rest_NN = np.tensordot(MODE_P, kernel_PNN, 1) - slowdown_NN + np.diag(noise_N)
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
