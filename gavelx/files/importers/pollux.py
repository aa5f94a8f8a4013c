"""Workloads of Pollux, AdaptDL and Sia (``workload-*.csv``), and ElasticFlow's list made of them.

A workload says when a job arrives, which application it trains, on how many replicas and with which batch size in
total; not how long it takes, since that is what those schedulers change. We take the time of the run as submitted:

    duration = samples / batch size * (alpha + beta * batch size / replicas)

where ``samples`` is what the published validation runs processed at the application's first batch size, and alpha
and beta are fitted (relative least squares) to the published step times on one V100: the worst single figure is
off by 31 %, the median one of an application by 0.4 to 14 %. Time to exchange gradients is not in it, and a larger
batch needs no more samples: both are the business of the elastic schedulers, and make our durations shorter ones.

Sources: A. Qiao et al., Pollux (OSDI 2021), T_grad in section 3.2, and petuum/adaptdl ``simulator/traces``;
S. Jayaram Subramanya et al., Sia (SOSP 2023), and siasosp23/artifacts.
"""

from typing import NamedTuple

from gavelx.files.csvs import Row
from gavelx.files.importers.recorded import NO_GPUS, Outcome, Recorded, devices, once, ran, seconds
from gavelx.files.limits import WHOLE_MAX


class Application(NamedTuple):
    """Work of one run in samples, and step time on one V100: alpha_s + beta_s * samples."""

    samples: float
    alpha_s: float
    beta_s: float


APPLICATIONS = {
    "bert": Application(12 * 14_774, 0.1086, 0.02065),  # 2 epochs of SQuAD
    "cifar10": Application(128 * 39_062, 0.0828, 0.0001523),  # 100 epochs
    "deepspeech2": Application(20 * 28_536, 0.1221, 0.01166),  # 80 epochs of CMU-ARCTIC
    "imagenet": Application(200 * 576_525, 0.1198, 0.001241),  # 90 epochs
    "ncf": Application(256 * 194_174, 0.1263, 2.944e-6),  # 10 epochs of MovieLens
    "yolov3": Application(8 * 103_444, 0.2046, 0.008092),  # 50 epochs of PASCAL-VOC
}


def pollux_job(row: Row) -> Outcome:
    """A job of a Pollux, AdaptDL or Sia workload."""
    name = row.text("application", known=APPLICATIONS)
    replicas = devices(row, "num_replicas")
    batch_size = row.whole("batch_size", low=1)
    arrival_s = seconds(row, "time")
    if replicas == 0:
        return NO_GPUS
    work = APPLICATIONS[name]
    step_s = work.alpha_s + work.beta_s * batch_size / replicas
    return Recorded(
        arrival_s=arrival_s,
        gpus=replicas,
        duration_s=work.samples / batch_size * step_s,
        model=name,
        batch_size=batch_size / replicas,
        told=once(row.text("name", ""), arrival_s),
    )


def elasticflow_job(row: Row) -> Outcome:
    """A job of ElasticFlow's list: with its duration on the GPUs it asked for, and its deadline."""
    arrival_s, gpus = seconds(row, "arrival_s"), devices(row, "num_gpus")
    duration_s, deadline_s = seconds(row, "duration_s"), None
    if row.has("deadline_s"):
        deadline_s = seconds(row, "deadline_s")
        if deadline_s <= arrival_s:
            raise row.mistake(
                "deadline_s", f"{deadline_s:.15g} s is not after the arrival", expected="a later time"
            )
    return ran(gpus, duration_s) or Recorded(
        arrival_s=arrival_s,
        gpus=gpus,
        duration_s=duration_s,
        deadline_s=deadline_s,
        model=row.text("model"),
        batch_size=row.whole("global_batch_size", low=1, high=WHOLE_MAX) / gpus if gpus else None,
        told=once(row.text("job_id", ""), arrival_s, duration_s),
    )
