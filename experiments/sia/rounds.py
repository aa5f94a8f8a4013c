"""The simulator of Sia by its rules: rounds, restart pauses, jobs that follow their models.

In a round jobs advance under the placement of the last one; at its end the policy is asked, always, and what falls
free in between is idle until then. A job that gets another type or number of devices pauses, as it does when it
begins. The noise scale of a job grows with its progress, so its best batch does.

Not here: which servers a job has, since sizes are such that they fit; and epochs that end at whole seconds.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from gavelx.estimator.goodput import Efficiency, JobModel
from gavelx.estimator.model_table import placed
from gavelx.estimator.step_time import StepTime

Place = tuple[str, int]
"""An accelerator type, and a number of its devices."""
FEWEST_STEPS = 1e-9


@dataclass(frozen=True)
class Servers:
    """So many servers of each type, with so many devices each."""

    count: Mapping[str, int]
    devices: Mapping[str, int]

    def total(self, name: str) -> int:
        return self.count[name] * self.devices[name]


HOMOGENEOUS = Servers({"aws": 16}, {"aws": 4})
MIXED = Servers({"aws": 6, "dgx-ext": 2, "rtx": 3}, {"aws": 4, "dgx-ext": 8, "rtx": 8})


class Application:
    """What jobs of a kind are: step times by type, noise scale by progress, steps at the least batch."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        types = facts["types"]
        times = {
            name: StepTime(**{key: value for key, value in one.items() if not key.startswith("local_batch")})
            for name, one in types.items()
        }
        self.batch, self.batch_most, self.steps = int(facts["batch"]), int(facts["batch_most"]), facts["steps"]
        self.epochs, self.restart_s = int(facts["epochs"]), float(facts["restart_s"])
        self.local_least = {name: int(one["local_batch_least"]) for name, one in types.items()}
        self._at, self._log_scale = facts["noise_scale"]["at"], np.log(facts["noise_scale"]["samples"])
        most = {name: int(one["local_batch_most"]) for name, one in types.items()}
        self._model = JobModel(times, Efficiency(self.batch, math.inf), most)
        self._known: dict[tuple[int, Place, int, int], float] = {}

    def epoch_of(self, steps: float) -> int:
        return min(self.epochs - 1, int(steps / self.steps * self.epochs + FEWEST_STEPS))

    def speed(self, steps: float, place: Place, servers: Servers, batch: int = 0) -> float:
        """Progress in steps/s after so many of them; at this total batch, or the best one. 0: it cannot."""
        epoch = self.epoch_of(steps)
        key = epoch, place, servers.devices[place[0]], batch
        if key not in self._known:
            self._known[key] = self._speed(epoch, place, servers, batch)
        return self._known[key]

    def _speed(self, epoch: int, place: Place, servers: Servers, batch: int) -> float:
        name, devices = place
        scale = float(np.exp(np.interp((epoch + 0.5) / self.epochs, self._at, self._log_scale)))
        model = replace(self._model, efficiency=Efficiency(self.batch, scale))
        placement = placed(devices, servers.devices[name])
        if batch:
            goodput = model.goodput(name, placement, *self._as_submitted(place, batch))
            return float(goodput) / self.batch
        if devices * self.local_least[name] > self.batch_most:
            return 0.0
        choice = model.best_batch(name, placement, self.batch_most)
        return 0.0 if choice is None else choice.goodput / self.batch

    def updates_per_s(self, place: Place, servers: Servers, batch: int) -> float:
        """Raw updates/s at this batch."""
        name, devices = place
        placement = placed(devices, servers.devices[name])
        return 1.0 / float(self._model.step_seconds(name, placement, *self._as_submitted(place, batch)))

    def _as_submitted(self, place: Place, batch: int) -> tuple[int, int]:
        """The samples of a device, and the batches accumulated before."""
        name, devices = place
        each = math.ceil(batch / devices)
        accumulated = math.ceil(each / self._model.local_batch_max[name]) - 1
        return math.ceil(each / (accumulated + 1)), accumulated


@dataclass(eq=False)
class Running:
    """A job, and how far it is. ``batch`` 0: the best one at any time."""

    name: str
    arrival_s: float
    application: Application
    devices: int
    batch: int
    steps: float = 0.0
    place: Place | None = None
    pause_s: float = 0.0
    starts: int = 0
    widest: int = 0
    end_s: float = math.inf
    had_s: dict[str, float] = field(default_factory=dict)
    """Time on each type."""

    @cached_property
    def restart_s(self) -> float:
        return self.application.restart_s

    def go(self, place: Place | None) -> None:
        """Go to these devices, with a pause if they are others than before."""
        if place is not None and place != self.place:
            self.pause_s, self.starts = self.restart_s, self.starts + 1
            self.widest = max(self.widest, place[1])
        self.place = place

    def advance(self, now_s: float, seconds: float, servers: Servers) -> None:
        """Work for so long, epoch by epoch, or until the last step is done."""
        if self.place is None:
            return
        self.had_s[self.place[0]] = self.had_s.get(self.place[0], 0.0) + seconds
        end_s, paused_s = now_s + seconds, min(self.pause_s, seconds)
        self.pause_s -= paused_s
        now_s += paused_s
        application = self.application
        while now_s < end_s and self.steps < application.steps:
            epoch = application.epoch_of(self.steps)
            last = application.steps * (epoch + 1) / application.epochs
            speed = application.speed(self.steps, self.place, servers, self.batch)
            took_s = min((last - self.steps) / speed, end_s - now_s)
            self.steps = last if took_s < end_s - now_s else self.steps + speed * took_s
            now_s += took_s
        if self.steps >= application.steps * (1 - FEWEST_STEPS):
            self.end_s, self.place = now_s, None


class Scheduler(Protocol):
    """Says where each job is in the next round."""

    def __call__(self, now_s: float, jobs: Sequence[Running]) -> Mapping[str, Place]: ...


def play(jobs: Iterable[Running], scheduler: Scheduler, servers: Servers, round_s: float = 60.0) -> list[Running]:
    """All jobs from their arrival to their end."""
    jobs, now_s = sorted(jobs, key=lambda job: job.arrival_s), 0.0
    while any(math.isinf(job.end_s) for job in jobs):
        for job in jobs:
            job.advance(now_s, round_s, servers)
        now_s += round_s
        live = [job for job in jobs if job.arrival_s <= now_s and math.isinf(job.end_s)]
        places = scheduler(now_s, live) if live else {}
        for job in live:
            job.go(places.get(job.name))
    return jobs
