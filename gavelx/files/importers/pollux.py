"""Workloads of Pollux, AdaptDL and Sia (``workload-*.csv``).

A workload says when a job arrives, which application it trains, on how many replicas and with which batch size in
total; not how long it takes, since that is what those schedulers change. We take the time of the run as submitted:

    duration = samples / batch size * (alpha + beta * batch size / replicas)

where ``samples`` is what the published validation runs processed at the application's first batch size, and alpha
and beta are fitted (relative least squares) to the published step times on one V100: the worst single figure is
off by 31 %, the median one of an application by 0.4 to 14 %. Time to exchange gradients is not in it, and a larger
batch needs no more samples: both are the business of the elastic schedulers, and make our durations shorter ones.
ElasticFlow's copies of these workloads have two more columns, ``ddl`` (a deadline) and ``samples`` (the work; then
the application may be any model). Jobs are elastic: on 1 to 64 devices, with any batch from the application's
first to its largest one; in ElasticFlow's copies the batch stays.

Sources: A. Qiao et al., Pollux (OSDI 2021), T_grad in section 3.2, and petuum/adaptdl ``simulator/traces``;
S. Jayaram Subramanya et al., Sia (SOSP 2023), and siasosp23/artifacts.
"""

from typing import NamedTuple

from gavelx.elastic import Elastic
from gavelx.files.csvs import Row
from gavelx.files.importers.recorded import NO_GPUS, Outcome, Recorded, deadline, devices, seconds

WIDEST = 64
"""The devices of a job, at most, in the simulators of these schedulers."""


class Application(NamedTuple):
    """Work of one run in samples; step time on one V100: alpha_s + beta_s * samples; the largest total batch.

    The least batch is that of which the work is counted.
    """

    batch_least: int
    steps: int
    batch_most: int
    alpha_s: float
    beta_s: float

    @property
    def samples(self) -> float:
        return float(self.batch_least * self.steps)

    def elastic(self, batch: int) -> Elastic:
        """What Pollux and Sia may change of a job with this total batch: it, and the devices."""
        sizes = batch, min(batch, self.batch_least), max(batch, self.batch_most)
        return Elastic("batch", 1, WIDEST, 0, *sizes)


APPLICATIONS = {
    "bert": Application(12, 14_774, 384, 0.1086, 0.02065),  # 2 epochs of SQuAD
    "cifar10": Application(128, 39_062, 4096, 0.0828, 0.0001523),  # 100 epochs
    "deepspeech2": Application(20, 28_536, 640, 0.1221, 0.01166),  # 80 epochs of CMU-ARCTIC
    "imagenet": Application(200, 576_525, 12_800, 0.1198, 0.001241),  # 90 epochs
    "ncf": Application(256, 194_174, 32_768, 0.1263, 2.944e-6),  # 10 epochs of MovieLens
    "yolov3": Application(8, 103_444, 512, 0.2046, 0.008092),  # 50 epochs of PASCAL-VOC
}


def pollux_job(row: Row) -> Outcome:
    """A job of a Pollux, AdaptDL or Sia workload."""
    samples = row.number("samples", above=0) if row.has("samples") else None
    name = row.text("application", known=None if samples else APPLICATIONS)
    replicas = devices(row, "num_replicas")
    batch_size = row.whole("batch_size", low=1)
    arrival_s = seconds(row, "time")
    deadline_s = deadline(row, "ddl", arrival_s)
    if replicas == 0:
        return NO_GPUS
    return Recorded(
        arrival_s=arrival_s,
        gpus=replicas,
        duration_s=None if samples else _duration_s(APPLICATIONS[name], replicas, batch_size),
        samples=samples,
        deadline_s=deadline_s,
        model=name,
        batch_size=batch_size / replicas,
        name=row.text("name", ""),
        elastic=Elastic("workers", 1, WIDEST) if samples else APPLICATIONS[name].elastic(batch_size),
    )


def _duration_s(work: Application, replicas: int, batch_size: int) -> float:
    """Seconds of the run as submitted, by the formula at the head of this file."""
    return work.samples / batch_size * (work.alpha_s + work.beta_s * batch_size / replicas)
