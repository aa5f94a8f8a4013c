"""A job model fitted online to what its job reported, as Sia's and Pollux's schedulers have it.

A job reports the seconds of an update, and those of its gradients' exchange, for each way in which it has run, and
its noise scale. Nothing else is known of it.
"""

from dataclasses import dataclass, field
from functools import cache

from experiments.sia.rounds import Application, Batch, Place
from gavelx.estimator.goodput import Efficiency, JobModel
from gavelx.estimator.step_time import Placement, Profile, StepTime, fit_step_time


@cache
def _fitted(profiles: tuple[Profile, ...]) -> StepTime:
    """Jobs of a kind that ran alike have the same model."""
    return fit_step_time(profiles)


@dataclass(eq=False)
class Learnt:
    """The belief in an application of which one job has told all that is known."""

    application: Application
    profiles: dict[str, dict[tuple[Placement, int], Profile]] = field(default_factory=dict)
    noise_scale: float | None = None
    _fitted: dict[str, tuple[int, StepTime]] = field(default_factory=dict)
    """By type: how many profiles there were, and what was fitted to them."""

    def saw(self, place: Place, batch: Batch, epoch: int) -> None:
        """An update like this was measured; the noise scale is that of the epoch."""
        self.noise_scale = self.application.noise_scale(epoch)
        seen = self.profiles.setdefault(place.accelerator, {})
        if (place.placement, batch.local) not in seen:
            step = self.application.model.steps[place.accelerator]
            step_s, compute_s = step.seconds(place.placement, batch.local), step.compute_seconds(batch.local)
            profile = Profile(place.placement, batch.local, float(step_s), float(step_s - compute_s))
            seen[place.placement, batch.local] = profile

    def model(self) -> JobModel | None:
        """Of the types where it ran. Fitted only when it is asked for and something new was seen."""
        if self.noise_scale is None:
            return None
        for name, seen in self.profiles.items():
            if self._fitted.get(name, (0, None))[0] != len(seen):
                self._fitted[name] = len(seen), _fitted(tuple(sorted(seen.values())))
        steps = {name: step for name, (_, step) in self._fitted.items()}
        efficiency = Efficiency(self.application.batch, self.noise_scale)
        return JobModel(steps, efficiency, self.application.model.local_batch_max)
