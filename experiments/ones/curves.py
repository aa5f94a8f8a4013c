"""How training goes in the jobs of ONES's workload: what each would report of losses and accuracy on its way.

Both follow one curve, that saturates: after a part p of the epochs to the target, (1 - exp(-k p)) / (1 - exp(-k))
of the way is behind a job. Accuracy goes from 0 to the target, the loss from its first value to a tenth of it, and
both improve a little in the epochs over the target. Bends, targets and noise are drawn for each job; they are
ours, as nothing is known of the paper's. (Where large batches are worth less, an epoch is what is worth one.)
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gavelx.drive import Backend
from gavelx.mechanism.commands import Command
from gavelx.mechanism.events import Event, Progress
from gavelx.training_report import TrainingReport

BEND, TARGET, FIRST_LOSSES = (1.5, 5.0), (0.6, 0.93), (10.0, 14.0, 20.0)
NOISE, OVER_TARGET = 0.015, (0.01, 0.05)
"""Of each report; and what the epochs over the target add to accuracy and take off the loss, at most."""


@dataclass(frozen=True, eq=False)
class Curve:
    """The reports of one job, which has ``steps`` in all and meets its ``target`` at epoch ``met``."""

    steps: float
    epochs: float
    met: float
    epoch_samples: float
    first_loss: float
    bend: float
    target: float
    noise_E: NDArray[np.float64]  # of each epoch

    def report(self, steps: float) -> TrainingReport:
        """What the job says after so many steps."""
        epochs = self.epochs * min(1.0, steps / self.steps)
        way = float(np.expm1(-self.bend * min(1.0, epochs / self.met)) / np.expm1(-self.bend))
        over = max(0.0, epochs - self.met) / (self.epochs - self.met)
        noise = float(self.noise_E[int(epochs)])
        gone = min(1.0, max(0.0, 0.9 * way + OVER_TARGET[1] * over + noise))
        accuracy = self.target * way + OVER_TARGET[0] * over + noise
        return TrainingReport(
            epochs, self.epoch_samples, self.first_loss, self.first_loss * (1.0 - gone), accuracy
        )

    @staticmethod
    def draw(
        random: np.random.Generator, *, steps: float, epochs: float, over: float, samples: int, text: bool
    ) -> "Curve":
        """A curve over so many epochs, the last ``over`` of them beyond the target."""
        first = float(np.log(2.0 if text else random.choice(FIRST_LOSSES)))
        noise_E = random.normal(0.0, NOISE, int(epochs) + 1)
        return Curve(
            steps, epochs, epochs - over, samples, first, random.uniform(*BEND), random.uniform(*TARGET), noise_E
        )


@dataclass
class Reporting:
    """The backend ``inner``, whose jobs also report how their training goes."""

    inner: Backend
    curves: Mapping[int, Curve]
    now_s: float = 0.0

    def events(self) -> Iterator[Event]:
        for event in self.inner.events():
            self.now_s = event.time_s
            yield self._with_reports(event) if isinstance(event, Progress) else event

    def _with_reports(self, event: Progress) -> Progress:
        done = zip(event.job_id_L.tolist(), event.steps_done_L.tolist(), strict=True)
        return replace(event, training_L=tuple(self.curves[job_id].report(steps) for job_id, steps in done))

    def execute(self, command: Command) -> None:
        self.inner.execute(command)

    def post(self, event: Event) -> None:
        self.inner.post(event)
