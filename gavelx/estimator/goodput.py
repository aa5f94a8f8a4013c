"""Goodput: the progress of an elastic job per second, on any devices, at any batch size.

    efficiency(M) = (phi + M_0) / (phi + M)               progress per sample, relative to the job's own batch M_0
    goodput       = M / T_step x efficiency(M)            M = K m (s + 1): K devices, s batches accumulated

phi is the gradient noise scale: while M is far below it, doubling the batch is worth nearly two steps. Source:
Pollux (OSDI'21), sections 3.1 and 3.2; McCandlish et al., "An empirical model of large-batch training" (2018).

`StepTime` models one accelerator type without statistics; use `JobModel` for all that an elastic policy or a
simulator needs of one job.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gavelx.estimator.step_time import Placement, Profile, StepTime, fit_step_time, held_out_errors

Floats = NDArray[np.float64]
TRIED = 64
"""Number of batch sizes tried between the least and the largest, evenly in logarithms."""
FEW = 20
"""With fewer profiles than this there is no range: too few are left out of each fit."""


@dataclass(frozen=True)
class Efficiency:
    """Progress per sample at a total batch size, relative to that at ``batch``; phi is ``noise_scale``."""

    batch: float
    noise_scale: float

    @staticmethod
    def of_gradients(batch: float, squared_norm: float, variance: float) -> "Efficiency":
        """From training at ``batch``: |gradient|^2, and the variance of its estimate (the trace)."""
        return Efficiency(batch, batch * variance / squared_norm if squared_norm > 0 else math.inf)

    def at(self, total_batch: float | Floats) -> float | Floats:
        """1 at the job's own batch size, less above it."""
        if math.isinf(self.noise_scale):
            return np.ones_like(total_batch, dtype=float)
        return (self.noise_scale + self.batch) / (self.noise_scale + np.asarray(total_batch, dtype=float))


class BatchChoice(NamedTuple):
    """Samples on each device, batches accumulated before each sync, and the resulting goodput."""

    local_batch: int
    accumulated: int
    goodput: float

    def total(self, placement: Placement) -> int:
        """Samples in one step."""
        return sum(placement) * self.local_batch * (self.accumulated + 1)


@dataclass(frozen=True)
class JobModel:
    """Model of an elastic job: its step times on each accelerator type, and the efficiency of a batch size.

    ``local_batch_max`` is the largest batch in the memory of a device of each type. ``range_of`` is the factor by
    which measured steps were above or below the model in 90 % of held-out profiles, at most; absent if they are
    too few.
    """

    steps: Mapping[str, StepTime]
    efficiency: Efficiency
    local_batch_max: Mapping[str, int]
    range_of: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def fit(profiles: Mapping[str, Sequence[Profile]], efficiency: Efficiency, level: float = 0.9) -> "JobModel":
        """Fit a model to profiles on these accelerator types; the largest batch seen is taken as the limit."""
        steps = {name: fit_step_time(seen) for name, seen in profiles.items()}
        largest = {name: int(max(one.local_batch for one in seen)) for name, seen in profiles.items()}
        ranges = {
            name: float(np.exp(np.quantile(np.abs(held_out_errors(seen)), level)))
            for name, seen in profiles.items()
            if len(seen) >= FEW
        }
        return JobModel(steps, efficiency, largest, ranges)

    def step_seconds(
        self, accelerator: str, placement: Placement, local_batch: float | Floats, accumulated: float | Floats = 0
    ) -> float | Floats:
        """Seconds from one update of the parameters to the next."""
        return self.steps[accelerator].seconds(placement, local_batch, accumulated)

    def step_range(self, accelerator: str, placement: Placement, local_batch: float) -> tuple[float, float]:
        """(lower, upper) of that, without accumulation; the width is that of the errors on held-out profiles."""
        step_s = float(self.step_seconds(accelerator, placement, local_batch))
        factor = self.range_of.get(accelerator, math.inf)
        return step_s / factor, step_s * factor

    def throughput(
        self, accelerator: str, placement: Placement, local_batch: float | Floats, accumulated: float | Floats = 0
    ) -> float | Floats:
        """Samples per second."""
        total = sum(placement) * local_batch * (accumulated + 1)
        return total / self.step_seconds(accelerator, placement, local_batch, accumulated)

    def goodput(
        self, accelerator: str, placement: Placement, local_batch: float | Floats, accumulated: float | Floats = 0
    ) -> float | Floats:
        """Goodput in samples per second at the job's own batch size."""
        total = sum(placement) * local_batch * (accumulated + 1)
        worth = self.efficiency.at(total)
        return self.throughput(accelerator, placement, local_batch, accumulated) * worth

    def best_batch(self, accelerator: str, placement: Placement, batch_max: int) -> BatchChoice | None:
        """The batch size with the most goodput on these devices, from the job's own up to ``batch_max``.

        Samples that do not fit in the devices' memory are accumulated. Every device has the same number of samples
        in each batch; None if no such size is in between. Source: Pollux (OSDI'21), equation 13, by trying sizes.
        """
        devices, fits = sum(placement), self.local_batch_max[accelerator]
        least, most = math.ceil(self.efficiency.batch / devices), batch_max // devices  # samples on each device
        if least > most:
            return None
        each_T = np.geomspace(least, most, TRIED).round()
        full_T = fits * np.unique(np.ceil(each_T / fits))  # sizes that fill the memory are often best
        each_T = np.concatenate([each_T, full_T[full_T <= most]])
        accumulated_T = np.ceil(each_T / fits) - 1
        local_T = np.ceil(each_T / (accumulated_T + 1))
        goodput_T = self.goodput(accelerator, placement, local_T, accumulated_T)
        goodput_T = np.where(local_T * (accumulated_T + 1) <= most, goodput_T, -np.inf)
        best = int(np.argmax(goodput_T))
        if goodput_T[best] < 0:
            return None
        return BatchChoice(int(local_T[best]), int(accumulated_T[best]), float(goodput_T[best]))
