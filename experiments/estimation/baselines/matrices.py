"""Speeds as a matrix of job types by columns, for estimators that complete matrices.

The column of a job alone is its device and shape, that of a job in a pair its device and partner. Entries are
logarithms: alone, of the speed; in a pair, of the slowdown against the same job alone on the device (measured, or
completed before). Each row of speeds is centred, since jobs differ in what they call a step.

Intervals come from measured cells that are left out in five turns: the quantile of their errors, apart for cells
alone and in pairs (cross-conformal prediction; Vovk, "Cross-conformal predictors", 2015).

Legend: J job types, C columns; NaN where nothing was measured.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gavelx.estimator.gaussian_process import Floats
from gavelx.estimator.known import Completing
from gavelx.measurements import Estimate, Way
from gavelx.throughputs import Pairing, Setting

TURNS = 5


class Cell(NamedTuple):
    """A job type and a column."""

    job: str
    column: tuple[object, ...]


class MatrixEstimator(Completing):
    """An estimator that fills the gaps of a matrix; a subclass says how."""

    @abstractmethod
    def fill(self, log_JC: Floats) -> Floats:
        """The same matrix with something in every gap; there is something in every row and every column."""

    def forget(self) -> None:
        self._errors: tuple[Floats, Floats] | None = None

    def complete(self, missing: Sequence[Way], level: float) -> list[Estimate | None]:
        log_of = {way: float(np.log(speed)) for way, speed in self.speed_of.items() if speed > 0}
        if self._errors is None:
            self._errors = self._left_out(log_of)
        half = [_quantile(errors, level) for errors in self._errors]
        answers: list[Estimate | None] = []
        for way, log in zip(missing, self._logs(log_of, missing), strict=True):
            width = half[isinstance(way, Pairing)]
            speeds = np.exp([log, log - width, log + width]).tolist()
            answers.append(None if np.isnan(log) else Estimate(speeds[0], speeds[1], speeds[2], "estimated"))
        return answers

    def _left_out(self, log_of: dict[Way, float]) -> tuple[Floats, Floats]:
        """Errors of measured cells, alone and in pairs, that were hidden in turns."""
        turn_of = dict(zip(log_of, np.random.default_rng(0).permutation(len(log_of)) % TURNS, strict=True))
        errors: tuple[list[float], list[float]] = ([], [])
        for turn in range(TURNS):
            hidden = [way for way in log_of if turn_of[way] == turn]
            shown = {way: log for way, log in log_of.items() if turn_of[way] != turn}
            for way, log in zip(hidden, self._logs(shown, hidden), strict=True):
                if not np.isnan(log):
                    errors[isinstance(way, Pairing)].append(abs(log - log_of[way]))
        return np.array(errors[0]), np.array(errors[1])

    def _logs(self, log_of: dict[Way, float], wanted: Sequence[Way]) -> list[float]:
        """Logarithms of the wanted speeds; NaN for job types of which nothing was measured."""
        pairs = [way for way in (*log_of, *wanted) if isinstance(way, Pairing)]
        alone = [way for way in wanted if isinstance(way, Setting)]
        beside = dict.fromkeys(Setting(way.job_type, way.accelerator) for way in pairs)
        speeds = {cell_of(way): log for way, log in log_of.items() if isinstance(way, Setting)}
        # a job that was only seen in pairs has the level that these show
        level_of = _levels(log_of)
        base = self._filled(speeds, [cell_of(way) for way in (*alone, *beside)], level_of)
        slowdowns = {
            cell_of(way): log - base[cell_of(Setting(way.job_type, way.accelerator))]
            for way, log in log_of.items()
            if isinstance(way, Pairing)
        }
        zero = dict.fromkeys((way.job_type for way in pairs), 0.0)
        slowed = self._filled(slowdowns, [cell_of(way) for way in wanted if isinstance(way, Pairing)], zero)
        return [
            base[cell_of(way)]
            if isinstance(way, Setting)
            else base[cell_of(Setting(way.job_type, way.accelerator))] + slowed[cell_of(way)]
            for way in wanted
        ]

    def _filled(
        self, known: dict[Cell, float], wanted: Sequence[Cell], level_of: dict[str, float]
    ) -> dict[Cell, float]:
        """What is wanted, from the filled matrix; the job's level in columns that nobody knows."""
        jobs = {job: j for j, job in enumerate(dict.fromkeys(cell.job for cell in known))}
        columns = {column: c for c, column in enumerate(dict.fromkeys(cell.column for cell in known))}
        log_JC = np.full((len(jobs), len(columns)), np.nan)
        for cell, log in known.items():
            log_JC[jobs[cell.job], columns[cell.column]] = log - level_of[cell.job]
        if not known:
            return {cell: level_of.get(cell.job, np.nan) for cell in wanted}
        # a job that nobody saw here is as others are; a column that nobody saw is as the job is elsewhere
        filled_JC = self.fill(log_JC)
        filled_JC = np.vstack([filled_JC, filled_JC.mean(axis=0)])
        filled_JC = np.column_stack([filled_JC, filled_JC.mean(axis=1)])
        return {
            cell: known.get(
                cell,
                level_of.get(cell.job, np.nan)
                + float(filled_JC[jobs.get(cell.job, -1), columns.get(cell.column, -1)]),
            )
            for cell in wanted
        }


def cell_of(way: Way) -> Cell:
    """Where a way to run is in its matrix."""
    return Cell(way.job_type, tuple(way[1:]))


def _levels(log_of: dict[Way, float]) -> dict[str, float]:
    """The mean logarithm of each job type's speeds alone; of those in pairs where there are no others."""
    logs: dict[str, tuple[list[float], list[float]]] = {}
    for way, log in log_of.items():
        logs.setdefault(way.job_type, ([], []))[isinstance(way, Pairing)].append(log)
    return {job: float(np.mean(alone or pairs)) for job, (alone, pairs) in logs.items()}


def _quantile(errors: Floats, level: float) -> float:
    """The error that so many do not pass; a factor of three at 90 % where too few were left out to tell."""
    if len(errors) < TURNS:
        return 1.1 * level / 0.9
    return float(np.quantile(errors, min(1.0, level * (len(errors) + 1) / len(errors))))
