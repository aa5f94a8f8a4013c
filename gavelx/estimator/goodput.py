"""Goodput: how fast an elastic job comes nearer to its end, on any devices, at any batch size.

    efficiency(M) = (phi + M_0) / (phi + M)               progress per sample, relative to the job's own batch M_0
    goodput       = M / T_step x efficiency(M)            M = K m (s + 1): K devices, s batches accumulated

phi is the gradient noise scale: as long as M is far below it, twice the batch is worth nearly two steps. Source:
Pollux (OSDI'21), sections 3.1 and 3.2; McCandlish et al., "An empirical model of large-batch training" (2018).

Which to ask: `StepTime` knows one accelerator type and no statistics; `JobModel` all that an elastic policy or a
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
"""Batch sizes looked at between the least and the largest, evenly in logarithms."""
FEW = 20
"""With fewer profiles than this no range is given: too few are left out of each fit."""


@dataclass(frozen=True)
class Efficiency:
    """Progress per sample at a total batch size, relative to that at ``batch``; phi is ``noise_scale``."""

    batch: float
    noise_scale: float

    @staticmethod
    def of_gradients(batch: float, squared_norm: float, variance: float) -> "Efficiency":
        """From what training at ``batch`` measured: |gradient|^2, and the variance of its estimate (the trace)."""
        return Efficiency(batch, batch * variance / squared_norm if squared_norm > 0 else math.inf)

    def at(self, total_batch: float | Floats) -> float | Floats:
        """1 at the job's own batch size, less above it."""
        if math.isinf(self.noise_scale):
            return np.ones_like(total_batch, dtype=float)
        return (self.noise_scale + self.batch) / (self.noise_scale + np.asarray(total_batch, dtype=float))


class BatchChoice(NamedTuple):
    """So many samples on each device, so many batches accumulated before each sync, and what that gives."""

    local_batch: int
    accumulated: int
    goodput: float

    def total(self, placement: Placement) -> int:
        """Samples that make one step."""
        return sum(placement) * self.local_batch * (self.accumulated + 1)


@dataclass(frozen=True)
class JobModel:
    """What is known of an elastic job: its steps on each accelerator type, and what a batch size is worth.

    ``local_batch_max`` is what fits the memory of a device of each type. ``range_of`` says by which factor, at
    most, measured steps were above or below the model in 90 % of held-out profiles; absent where they are too few.
    """

    steps: Mapping[str, StepTime]
    efficiency: Efficiency
    local_batch_max: Mapping[str, int]
    range_of: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def fit(profiles: Mapping[str, Sequence[Profile]], efficiency: Efficiency, level: float = 0.9) -> "JobModel":
        """The model of a job that was profiled on these accelerator types; no larger batch fits than was seen."""
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
        """(lower, upper) of that, without accumulation; as sure as the model is on profiles it has not seen."""
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
        """Samples per second, counted as at the job's own batch size."""
        total = sum(placement) * local_batch * (accumulated + 1)
        worth = self.efficiency.at(total)
        return self.throughput(accelerator, placement, local_batch, accumulated) * worth

    def best_batch(self, accelerator: str, placement: Placement, batch_max: int) -> BatchChoice | None:
        """The batch size with the most goodput on these devices, from the job's own up to ``batch_max``.

        Samples that do not fit the devices' memory at once are accumulated. None where no size is in between: each
        device has as many samples as the others in each batch. Source: Pollux (OSDI'21), equation 13, by trying
        sizes.
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
