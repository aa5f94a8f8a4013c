"""The rule that turns a recorded job into a job of a throughput table.

A recorded job with a job type and steps (Gavel, Shockwave, our own CSV) is taken as it is. Any other is known by
its duration d on g devices, and becomes a job of a throughput table:

=============  ====================================================================================
job type       the model's own types where the table has the model; else those of the closest model
               (``CLOSEST``); else all types. Of these the one whose batch size is nearest (in ratio) to
               the recorded one, or without one a draw by the seed and the name of the job (so that all
               runs of a job have one type), among those known on the reference accelerator at the scale
               factor
scale factor   the smallest n >= g at which one of these types is known on the reference; the largest
               known where there is none. So half a device becomes one, 6 become 8, and 32 become 8.
               With estimated speeds: g, rounded up to whole devices, where the speed of one of these
               types is known or can be estimated
duration       d g / n: the device-time stays the same; a fraction of a device counts as a whole one,
               and the job keeps its duration
total steps    duration x steps/s of n reference accelerators
=============  ====================================================================================

Work in samples becomes samples / batch size of the job type steps, since the tables count the steps of every
device. A deadline stays where it is: the SLO is (deadline - arrival) / duration. Arrivals are shifted so that the
first is 0.

Rounding up keeps the load on the cluster and changes the shape of a job; so does a cut. Both are counted. An
estimated speed keeps the shape: on the reference the job then takes its recorded time, whatever the estimate, and
only on other accelerators and beside other jobs does the estimate matter.

The recorded start is kept unless it comes before the arrival, as where clocks were changed.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import NamedTuple

from gavelx.errors import OptionError, did_you_mean
from gavelx.files.importers.recorded import Recorded
from gavelx.jobs import Job
from gavelx.throughputs import Setting, Throughputs

REFERENCE = "v100"

CLOSEST = {
    "cifar10": "ResNet-18",  # the application of Pollux is this model on CIFAR-10
    "imagenet": "ResNet-50",  # and this one on ImageNet
    "vgg11": "ResNet-50",  # large convolutional networks
    "vgg16": "ResNet-50",
    "vgg19": "ResNet-50",
    "inceptionv3": "ResNet-50",
    "inception3": "ResNet-50",
    "inception4": "ResNet-50",
    "resnet101": "ResNet-50",
    "resnet152": "ResNet-50",
    "resnet50cifar10": "ResNet-50",
    "yolov3": "ResNet-50",
    "alexnet": "ResNet-18",  # light ones
    "googlenet": "ResNet-18",
    "bert": "Transformer",  # stacks of attention
    "gpt2": "Transformer",
    "gpt": "Transformer",
    "deepspeech2": "LM",  # recurrent networks over sequences
    "lstm": "LM",
    "ncf": "Recommendation",  # both recommend films of MovieLens
    "neumf": "Recommendation",
}
"""The closest model of the shipped tables, by kind of network and amount of computation."""

BATCH_SIZE = re.compile(r"(.*) \(batch size (\d{1,9})\)")


SpeedsOf = Callable[[Sequence[Setting]], Sequence[float | None]]
"""Estimates steps/s of settings that a table does not know: 0 where a job type cannot run, None if unknown."""
Width = tuple[str, int]
"""A job type and a scale factor."""


class Kind(NamedTuple):
    """A job type at one scale factor on the reference accelerator."""

    job_type: str
    batch_size: float | None
    steps_per_second: float


class Conversion:
    """Turns recorded jobs into jobs of a throughput table, one after the other, and counts what it changed.

    Raises :class:`OptionError` for a reference accelerator that the table does not know.
    """

    def __init__(
        self,
        throughputs: Throughputs,
        reference: str = REFERENCE,
        seed: int = 0,
        estimate: SpeedsOf | None = None,
    ) -> None:
        self.reference = reference.lower()
        self.kinds = _kinds(throughputs, self.reference)
        if not self.kinds:
            hint = did_you_mean(self.reference, throughputs.accelerators)
            problem = f"table {throughputs.name} knows no speed on {reference!r}"
            raise OptionError(problem, where="--reference", hint=hint)
        self.runs = {(s.job_type, s.scale_factor) for s, speed in throughputs.isolated.items() if speed > 0}
        self.seed, self.chance = seed, Random(seed)
        self.changes: Counter[str] = Counter()
        self.estimated: dict[Width, None] = {}
        self.estimate = estimate
        self.by_model, self.at_width = cache(self._by_model), cache(self._at_width)
        self.speeds = cache(self._speeds)

    def job(self, recorded: Recorded, job_id: int, start_s: float) -> Job:
        """The job, on a clock that is 0 at ``start_s``. Raises :class:`UserError` for numbers no job can have."""
        if recorded.total_steps is None:
            job_type, n, total_steps, duration_s = self._derived(recorded)
        else:
            job_type, n, total_steps = recorded.job_type, int(recorded.gpus), recorded.total_steps
            duration_s = recorded.duration_s
            if (job_type, n) not in self.runs and not self._takes_estimate(job_type, n):
                self.changes["runs_nowhere"] += 1
        first_s = recorded.start_s
        if first_s is not None and first_s < recorded.arrival_s:
            self.changes["starts_left_out"] += 1
            first_s = None
        slo = recorded.slo
        if recorded.deadline_s is not None and duration_s is not None:
            slo = (recorded.deadline_s - recorded.arrival_s) / duration_s
        return Job(
            id=job_id,
            job_type=job_type,
            total_steps=total_steps,
            scale_factor=n,
            weight=recorded.weight,
            arrival_s=recorded.arrival_s - start_s,
            slo=slo,
            duration_s=duration_s,
            owner=recorded.owner,
            preemptible=recorded.preemptible,
            checkpoints=recorded.checkpoints,
            recorded_start_s=None if first_s is None else first_s - start_s,
            requested_accelerator=recorded.accelerator.lower(),
            elastic=recorded.elastic.around(n) if recorded.elastic else None,
        )

    def _derived(self, recorded: Recorded) -> tuple[str, int, float, float | None]:
        """Job type, scale factor, total steps and duration, by the table at the head of this file."""
        width = math.ceil(recorded.gpus * (1 - 1e-9))  # ten tenths of a device are one
        self.changes["gpus_fractional"] += width > recorded.gpus * (1 + 1e-9)
        n, kind = self._choose(recorded, width)
        if recorded.samples is not None:
            total_steps = recorded.samples / (kind.batch_size or recorded.batch_size or 1.0)
            return kind.job_type, n, total_steps, total_steps / kind.steps_per_second
        assert recorded.duration_s is not None
        duration_s = recorded.duration_s * (width / n)
        return kind.job_type, n, duration_s * kind.steps_per_second, duration_s

    def _choose(self, recorded: Recorded, width: int) -> tuple[int, Kind]:
        """Scale factor and job type, for so many devices."""
        source, _ = self.by_model(recorded.model)
        n, kinds, estimated = self.at_width(recorded.model, width)
        self.changes[f"job_types_{source}"] += 1
        self.changes["gpus_rounded_up"] += n > width
        self.changes["gpus_cut"] += n < width
        wanted = recorded.batch_size
        if wanted is None or any(kind.batch_size is None for kind in kinds):
            chance = Random(f"{self.seed} {recorded.name}") if recorded.name else self.chance
            kind = chance.choice(kinds)
        else:
            kind = min(kinds, key=lambda kind: abs(math.log((kind.batch_size or 1.0) / wanted)))
        if estimated:
            self._count_estimated(kind.job_type, n)
        return n, kind

    def _takes_estimate(self, job_type: str, n: int) -> bool:
        """Count the job among the estimated ones, if its speed at this scale factor can be estimated."""
        if not self.speeds(Setting(job_type, self.reference, n)):
            return False
        self._count_estimated(job_type, n)
        return True

    def _count_estimated(self, job_type: str, n: int) -> None:
        self.changes["gpus_estimated"] += 1
        self.estimated[job_type, n] = None

    def _at_width(self, model: str, width: int) -> tuple[int, list[Kind], bool]:
        """Scale factor and job types for a model on so many devices, and whether their speeds are estimated."""
        _, kinds = self.by_model(model)
        n = next((n for n in kinds if n >= width), max(kinds))
        if n != width:
            speeds = self.speeds(*(Setting(kind.job_type, self.reference, width) for kind in kinds[n]))
            if able := [kind for kind in kinds[n] if kind.job_type in speeds]:
                return width, [kind._replace(steps_per_second=speeds[kind.job_type]) for kind in able], True
        return n, kinds[n], False

    def _speeds(self, *settings: Setting) -> dict[str, float]:
        """Estimated steps/s by job type, of those that can run there; none without an estimator."""
        if self.estimate is None:
            return {}
        found = zip(settings, self.estimate(settings), strict=True)
        return {setting.job_type: speed for setting, speed in found if speed and math.isfinite(speed)}

    def _by_model(self, model: str) -> tuple[str, dict[int, list[Kind]]]:
        """By scale factor, the job types of a model, of the one closest to it, or all; and which of the three."""
        name = _plain(model)
        for source, wanted in (("named", name), ("closest", _plain(CLOSEST.get(name, "")))):
            found = {
                n: [kind for kind in kinds if wanted and _plain(_model_of(kind.job_type)[0]) == wanted]
                for n, kinds in self.kinds.items()
            }
            if found := {n: kinds for n, kinds in found.items() if kinds}:
                return source, found
        return "drawn", self.kinds


def _kinds(throughputs: Throughputs, reference: str) -> dict[int, list[Kind]]:
    """By rising scale factor, what is known to run on the reference accelerator, in the table's order."""
    kinds: dict[int, list[Kind]] = {}
    for (job_type, accelerator, n, consolidated), speed in throughputs.isolated.items():
        if accelerator == reference and consolidated and speed > 0:
            kinds.setdefault(n, []).append(Kind(job_type, _model_of(job_type)[1], speed))
    return dict(sorted(kinds.items()))


def _model_of(job_type: str) -> tuple[str, float | None]:
    """Model and batch size of ``LM (batch size 5)``; of any other name, the name and None."""
    if found := BATCH_SIZE.fullmatch(job_type):
        return found[1], float(found[2]) or None
    return job_type, None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
