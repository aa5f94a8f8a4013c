"""Errors of the model on held-out measured cells, from which the intervals are computed.

Cells are left out one by one, and job type by job type except for a few cells, as for a new job. The variances
stay those that were fitted with these cells too, so errors come out too small. As a residual variance is divided
by degrees of freedom, errors are multiplied by sqrt(n / (n - told)), where ``told`` is the number of variances
that the n cells tell.

Legend: N measured cells, n some of them, G groups of noise.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gavelx.estimator.effects import Cells, Space
from gavelx.estimator.gaussian_process import Errors, Floats, Variances, Whole
from gavelx.estimator.intervals import inflation
from gavelx.estimator.smooth import PooledLeftOut

FREE_MIN = 0.25
"""The least share of the cells that counts as degrees of freedom."""
KNOWN = 2
"""Cells of a job type that are kept when it is left out."""


@dataclass(frozen=True)
class Noise:
    """The variance of noise by device ("" alone), and the evidence for it as a number of cells."""

    variance_of: dict[str, float]
    told_of: dict[str, float]

    @classmethod
    def of(cls, space: Space, cells: Cells, noise_G: Floats, sd_N: Floats) -> "Noise":
        """The noise and its evidence: each cell counts by the noise's share in its variance.

        ``sd_N`` are standard deviations of cells left out.
        """
        groups, group_N = ("", *space.devices), cells.group_N
        told_G = np.bincount(group_N, noise_G[group_N] / sd_N**2, minlength=len(groups))
        return cls(*(dict(zip(groups, of_G.tolist(), strict=True)) for of_G in (noise_G, told_G)))

    def likely(self, space: Space) -> Floats:
        """The most likely variance of each group in a space."""
        groups = zip(("", *space.devices), space.usual_noise_G.tolist(), strict=True)
        return np.array([self.variance_of.get(name, usual) for name, usual in groups])

    def counted(self, space: Space, level: float) -> Floats:
        """The variance of each group as used in intervals, larger because it is uncertain (``inflation``)."""
        told_G = np.array([self.told_of.get(name, 0.0) for name in ("", *space.devices)])
        return self.likely(space) * inflation(told_G, level)


@dataclass(frozen=True)
class Calibration:
    """Errors of cells left out one by one, and of those of job types left out as a whole."""

    space: Space
    noise: Noise
    each: tuple[Errors, Cells]
    jobs: tuple[Errors, Cells]

    @classmethod
    def of(
        cls, space: Space, cells: Cells, likely: Variances, fitted: int, left_out: PooledLeftOut
    ) -> "Calibration":
        """From measured cells; variances were fitted to so many of them."""
        each, (jobs, cells_of_jobs) = left_out.each(), _job_by_job(left_out, cells)
        more = 1.0 / math.sqrt(max(1.0 - likely.told / max(fitted, 1), FREE_MIN))
        noise = Noise.of(space, cells, likely.noise_G, each.sd_N)
        return cls(space, noise, (each.grown(more), cells), (jobs.grown(more), cells_of_jobs))

    def like(self, pairs: bool, device: str, level: float) -> list[Errors]:
        """Errors of cells of one kind left out one by one: on all devices, and on this one."""
        errors, cells = self._counted(*self.each, level)
        kind_N = cells.is_pair_N == pairs
        return [errors[kind_N], errors[kind_N & self._on(device, cells)]]

    def of_jobs(self, pairs: bool, device: str, level: float) -> tuple[Errors, int]:
        """Errors of cells of one kind on a device with their job types left out, and the number of types."""
        errors, cells = self._counted(*self.jobs, level)
        here_N = (cells.is_pair_N == pairs) & self._on(device, cells)
        return errors[here_N], len(np.unique(cells.job_N[here_N]))

    def _on(self, device: str, cells: Cells) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = np.array(self.space.devices)[cells.device_N] == device
        return found

    def _counted(self, errors: Errors, cells: Cells, level: float) -> tuple[Errors, Cells]:
        """The errors with the noise as used in intervals."""
        more_G = self.noise.counted(self.space, level) - self.noise.likely(self.space)
        return Errors(errors.error_N, np.sqrt(errors.sd_N**2 + more_G[cells.group_N])), cells


def _job_by_job(left_out: PooledLeftOut, cells: Cells) -> tuple[Errors, Cells]:
    """Errors of each job type's cells if only two of its cells alone had been measured."""
    random, found = np.random.default_rng(0), list[tuple[Floats, Floats, Whole]]()
    for job in np.unique(cells.job_N).tolist():
        own_N = cells.job_N == job
        known = random.permutation(np.flatnonzero(own_N & ~cells.is_pair_N))[:KNOWN]
        gone = np.setdiff1d(np.flatnonzero(own_N | (cells.partner_N == job)), known)
        if len(known) == KNOWN and len(gone):
            errors = left_out.together(gone)
            found.append((errors.error_N[own_N[gone]], errors.sd_N[own_N[gone]], gone[own_N[gone]]))
    if not found:
        return Errors(np.zeros(0), np.zeros(0)), cells[:0]
    error_n, sd_n, at = (np.concatenate(column) for column in zip(*found, strict=True))
    return Errors(error_n, sd_n), cells[at]
