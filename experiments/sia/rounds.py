"""The simulator of Sia by its rules: rounds, restart pauses, jobs that follow their models.

In a round jobs advance under the placement of the last one; at its end the policy is asked, always, and what falls
free in between is idle until then. A job that gets another type, or other numbers of devices on its servers,
pauses, as it does when it begins. An epoch ends at a whole second, the nearest one. The noise scale of a job
changes from epoch to epoch, so its best batch does; a job chooses its batch when it goes somewhere, after each
epoch and after each round, by what is believed.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from gavelx.estimator.goodput import Efficiency, JobModel
from gavelx.estimator.step_time import Placement, StepTime


class Place(NamedTuple):
    """Devices of one accelerator type, as many on each server as ``placement`` says."""

    accelerator: str
    placement: Placement

    @property
    def devices(self) -> int:
        return sum(self.placement)


class Batch(NamedTuple):
    """Samples on each device, and batches accumulated before an update."""

    local: int
    accumulated: int

    def total(self, devices: int) -> int:
        return devices * self.local * (self.accumulated + 1)


@dataclass(frozen=True)
class Servers:
    """So many servers of each type, with so many devices each."""

    count: Mapping[str, int]
    devices: Mapping[str, int]

    def total(self, name: str) -> int:
        return self.count[name] * self.devices[name]


HOMOGENEOUS = Servers({"aws": 16}, {"aws": 4})
MIXED = Servers({"aws": 6, "dgx-ext": 2, "rtx": 3}, {"aws": 4, "dgx-ext": 8, "rtx": 8})


NO_BATCH = Batch(0, 0)


class Application:
    """What jobs of a kind are: step times by type, noise scale by progress, steps at the least batch."""

    def __init__(self, name: str, facts: Mapping[str, Any]) -> None:
        types = facts["types"]
        times = {
            one: StepTime(**{key: value for key, value in its.items() if not key.startswith("local_batch")})
            for one, its in types.items()
        }
        self.name, self.batch, self.batch_most = name, int(facts["batch"]), int(facts["batch_most"])
        self.steps, self.epochs = float(facts["steps"]), int(facts["epochs"])
        self.restart_s = float(facts["restart_s"])
        self.local_least = {one: int(its["local_batch_least"]) for one, its in types.items()}
        self._at, self._log_scale = facts["noise_scale"]["at"], np.log(facts["noise_scale"]["samples"])
        most = {one: int(its["local_batch_most"]) for one, its in types.items()}
        self.model = JobModel(times, Efficiency(self.batch, math.inf), most)

    def noise_scale(self, epoch: int) -> float:
        """That of the middle of an epoch."""
        return float(np.exp(np.interp((epoch + 0.5) / self.epochs, self._at, self._log_scale)))

    def at(self, epoch: int) -> JobModel:
        """The true model in this epoch."""
        return replace(self.model, efficiency=Efficiency(self.batch, self.noise_scale(epoch)))

    def steps_until(self, epoch: int) -> float:
        """Steps before this epoch begins."""
        return self.steps * epoch / self.epochs

    def split(self, name: str, devices: int, batch: int) -> Batch:
        """A total batch on so many devices: accumulated where it does not fit in their memory.

        A device alone accumulates at least once for more than the least batch, so that there are two gradients
        whose difference tells the noise.
        """
        each = math.ceil(batch / devices)
        accumulated = math.ceil(each / self.model.local_batch_max[name]) - 1
        if devices == 1 and batch > self.batch:
            accumulated = max(1, accumulated)
        return Batch(math.ceil(each / (accumulated + 1)), accumulated)


class Belief(Protocol):
    """What is believed of a job's speeds."""

    def model(self) -> JobModel | None:
        """The believed model, with what was last seen of the noise scale; None: nothing is known."""

    def saw(self, place: Place, batch: Batch, epoch: int) -> None:
        """The job ran like this."""


@dataclass(eq=False)
class Known:
    """Step times are known beforehand; the noise scale is the last one seen, at first that of the beginning."""

    application: Application
    epoch: int = 0

    def model(self) -> JobModel:
        return self.application.at(self.epoch)

    def saw(self, place: Place, batch: Batch, epoch: int) -> None:
        self.epoch = epoch


@dataclass(eq=False)
class Running:
    """A job, and how far it is. ``total_batch`` 0: the best one by its belief."""

    name: str
    arrival_s: int
    application: Application
    devices: int
    total_batch: int
    belief: Belief
    epoch: int = 0
    steps: float = 0.0
    place: Place | None = None
    batch: Batch = NO_BATCH
    pause_s: float = 0.0
    starts: int = 0
    widest: int = 0
    served_s: float = 0.0
    """Device-seconds, pauses included."""
    end_s: float = math.inf

    def go(self, place: Place | None) -> None:
        """Go to these devices, with a pause if they are others than before."""
        if place is not None and place != self.place:
            self.pause_s, self.starts = self.application.restart_s, self.starts + 1
            self.widest = max(self.widest, place.devices)
            self.place = place
            self._choose_batch()
        self.place = place

    def _choose_batch(self) -> None:
        assert self.place is not None
        name, devices, application = self.place.accelerator, self.place.devices, self.application
        if self.total_batch:
            self.batch = application.split(name, devices, self.total_batch)
            return
        model = self.belief.model()
        choice = None
        if model is not None and name in model.steps:
            choice = model.best_batch(name, self.place.placement, application.batch_most)
        if choice is None:
            least = max(application.batch, application.local_least[name] * devices)
            self.batch = application.split(name, devices, least)
        else:
            self.batch = Batch(choice.local_batch, choice.accumulated)

    def speed(self) -> float:
        """Steps per second where it is, in truth."""
        assert self.place is not None
        model = self.application.at(self.epoch)
        return float(model.goodput(*self.place, *self.batch)) / self.application.batch

    def advance(self, now_s: int, seconds: float) -> None:
        """Work for so long, epoch by epoch, or until the last step is done."""
        if self.place is None:
            return
        self.served_s += seconds * self.place.devices
        time_s, paused_s = now_s + min(self.pause_s, seconds), min(self.pause_s, seconds)
        self.pause_s -= paused_s
        left_s = seconds - paused_s
        while left_s > 0 and math.isinf(self.end_s):
            self.belief.saw(self.place, self.batch, self.epoch)
            speed, last = self.speed(), self.application.steps_until(self.epoch + 1)
            if self.steps + speed * left_s < last:
                self.steps, left_s = self.steps + speed * left_s, 0.0
            else:
                took_s = round((last - self.steps) / speed)
                self.steps, self.epoch = last, self.epoch + 1
                time_s, left_s = time_s + took_s, left_s - took_s
                if self.epoch == self.application.epochs:
                    self.end_s, self.place = time_s, None
                    return
            self._choose_batch()


class Scheduler(Protocol):
    """Says where each job is in the next round."""

    def __call__(self, now_s: float, jobs: Sequence[Running]) -> Mapping[str, Place]: ...


def play(jobs: Iterable[Running], scheduler: Scheduler, round_s: int = 60) -> list[Running]:
    """All jobs from their arrival to their end."""
    jobs, now_s = sorted(jobs, key=lambda job: job.arrival_s), 0
    while any(math.isinf(job.end_s) for job in jobs):
        for job in jobs:
            job.advance(now_s, round_s)
        now_s += round_s
        live = [job for job in jobs if job.arrival_s <= now_s and math.isinf(job.end_s)]
        places = scheduler(now_s, live) if live else {}
        for job in live:
            job.go(places.get(job.name))
    return jobs
