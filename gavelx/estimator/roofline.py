"""A roofline of today's jobs: memory they need, and the time of a step from arithmetic, traffic and network.

    t_step  =  ( (t_arithmetic + t_memory + t_launch)^2 + t_sync^2 )^(1/2)

    t_arithmetic = batch / devices x FLOP(sample) / peak       peak: dense TFLOP/s of the precision
    t_memory     = bytes of weights, gradients and states that a step moves / (devices x bandwidth)
    t_launch     = LAUNCH_S x layers
    t_sync       = bytes between devices / (bandwidth of the link, the bus or the network)

The measured speed is this one times an *efficiency*: a log-linear model with effects of the kind of job, the
model's size, the precision and the device, fitted to all measured speeds whose names can be read. Bayesian linear
regression gives mean and variance of each estimate (Rasmussen and Williams 2006, section 2.1.1). A device that was
never measured has the mean efficiency of its chip or of all, and a wider interval.

FLOP of a sample: 6 P for each token, and 12 layers x width x tokens^2 for attention (Korthikanti et al. 2022);
LoRA needs no gradients of weights: 4 P. In gangs weights, gradients and states are sharded over the devices
(ZeRO stage 3, Rajbhandari et al. 2020), activations are recomputed, and a batch is divided into micro-batches of
one sample if need be. A gang wider than its batch divides each sample too, by tensor, pipeline or context
parallelism (Shoeybi et al. 2019, Narayanan et al. 2021). So a job *cannot run* only if the devices together have
too little memory for its states, or one of them for its part of a sample.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gavelx.accelerators import Specification
from gavelx.estimator.job_names import NamedJob
from gavelx.throughputs import Setting

Floats = NDArray[np.float64]
LAUNCH_S = 2e-4
"""Seconds of a layer's kernel launches in a step."""
STATE_BYTES = {"pretrain": 16.0, "full": 8.0, "lora": 2.0, "qlora": 0.6}
"""Bytes of a parameter: weights, gradients and states of the optimizer (mixed precision; bf16; frozen; 4 bits)."""
MOVED_BYTES = {"pretrain": 30.0, "full": 16.0, "lora": 4.0, "qlora": 1.2}
"""Bytes of a parameter that a step reads and writes."""
RESERVED = 0.93
"""Part of a device's memory that a job can use; the rest belongs to the driver and to fragments."""
VOCABULARY = 32_000
LINK_USE = 0.8
"""Part of its link that a device uses in a gang: of NVLink, PyTorch's model of NCCL (torch/_inductor) takes
120 GB/s of 150 on Volta, 240 of 300 on Ampere, 370 of 450 on Hopper."""
BUS_GB_S = 16.0
"""Of a device without links of its own, and of a slice of one: the PCIe of a server, which its devices share."""
NETWORK_GB_S, NETWORK_USE, NETWORK_SD = 10.0, 0.2, 0.9
"""Between servers: the least, and the part of its link that a device with one has there. Servers of such devices
have a network card for each or one for all: the logarithm has this standard deviation."""
WIDER_SD = 0.2
"""Standard deviation of the logarithm of efficiency for each octave outside what was measured."""
GFLOP_FORWARD = {"sd1.5": 678.0, "sd2": 680.0, "sdxl": 5980.0, "dit-xl2": 237.0, "flux": 110_000.0}
"""Of one image at the usual resolution, without the frozen encoders."""
GFLOP_ENCODERS = {"sd1.5": 1100.0, "sd2": 1100.0, "sdxl": 4500.0, "dit-xl2": 270.0, "flux": 5000.0}
USUAL_PIXELS = {"sd1.5": 512, "sd2": 512, "sdxl": 1024, "dit-xl2": 256, "flux": 1024}
TOKENS_A_SECOND = 25.0
"""Of speech, on average over encoder and decoder."""
DLRM_MFLOP, DLRM_KB = 15.0, 40.0


def needed_gb(job: NamedJob, devices: int) -> float:
    """Memory in GB that each device needs for one sample, or its part of one, with sharded states."""
    states = STATE_BYTES[job.method] * job.parameters / devices
    if job.kind == "recommendation":
        return (4.0 * job.parameters / devices + DLRM_KB * 1e3 * job.batch / devices) / 1e9
    tokens = _tokens(job)
    kept = 2.0 * tokens * job.width * job.depth
    working = 34.0 * tokens * job.width + (10.0 * tokens * VOCABULARY if job.kind == "llm" else 0.0)
    if job.kind == "diffusion":
        working += 400.0 * job.length**2 * 12.0
    return (states + (kept + working) / _split(job, devices) + 0.7e9) / 1e9


def _split(job: NamedJob, devices: int) -> float:
    """Over how many devices each sample is divided: 1 where the batch has a sample for each device."""
    return max(1.0, devices / job.batch)


def why_not(job: NamedJob, way: Setting, specification: Specification) -> str:
    """Why the job cannot run there; an empty text if it can, or if the memory of the device is not known."""
    needed, has = needed_gb(job, way.scale_factor), specification.memory_gb
    if needed <= RESERVED * has or math.isnan(has):
        return ""
    each = " on each device" if way.scale_factor > 1 else ""
    return f"cannot run: needs {math.ceil(needed / RESERVED)} GB{each}, has {has:.0f}"


def step_seconds(job: NamedJob, way: Setting, specification: Specification) -> float:
    """Seconds of a step at full efficiency; NaN if the data sheet lacks a figure."""
    busy_s, sync_s = _busy_and_sync(job, way, specification)
    return math.hypot(busy_s, sync_s)


def network_share(job: NamedJob, way: Setting, specification: Specification) -> float:
    """By how much a step is slower, as logarithms, on a slower network: 0 in one server."""
    if way.consolidated:
        return 0.0
    busy_s, sync_s = _busy_and_sync(job, way, specification)
    return sync_s**2 / (busy_s**2 + sync_s**2)


def _busy_and_sync(job: NamedJob, way: Setting, specification: Specification) -> tuple[float, float]:
    n = way.scale_factor
    arithmetic_s = job.batch / n * _flop(job) / (_peak(job, specification) * 1e12)
    if job.kind == "recommendation":
        memory_s = job.batch / n * DLRM_KB * 1e3 / (specification.bandwidth_gb_s * 1e9)
    else:
        memory_s = MOVED_BYTES[job.method] * job.parameters / n / (specification.bandwidth_gb_s * 1e9)
    link_gb_s = _link_gb_s(specification) if way.consolidated else _network_gb_s(specification)
    return arithmetic_s + memory_s + LAUNCH_S * job.depth, _synced_bytes(job, n) / (link_gb_s * 1e9)


def _peak(job: NamedJob, specification: Specification) -> float:
    """TFLOP/s of the precision; tensor cores for all but fp32."""
    return specification.fp32_tflops if job.precision == "fp32" else specification.tensor_tflops


def _tokens(job: NamedJob) -> float:
    if job.kind == "llm":
        return float(job.length)
    if job.kind == "vit":
        return (job.length / float(job.model.lstrip("vit-slbhg") or 16)) ** 2
    if job.kind == "speech":
        return TOKENS_A_SECOND * job.length
    return (job.length / 16.0) ** 2


def _flop(job: NamedJob) -> float:
    """FLOP of a sample in a step, without recomputation."""
    passes = 4.0 if job.method in {"lora", "qlora"} else 6.0
    if job.kind == "recommendation":
        return DLRM_MFLOP * 1e6
    if job.kind == "diffusion":
        area = (job.length / USUAL_PIXELS[job.model]) ** 2
        return area * (passes / 2.0 * GFLOP_FORWARD[job.model] + GFLOP_ENCODERS[job.model]) * 1e9
    tokens = _tokens(job)
    return passes * job.parameters * tokens + 2.0 * passes * job.depth * job.width * tokens**2


def _synced_bytes(job: NamedJob, devices: int) -> float:
    """Bytes that a device exchanges in a step: gradients, and sharded weights twice."""
    if devices == 1:
        return 0.0
    trained = 6.0 if job.method in {"pretrain", "full"} else 0.06
    if job.kind == "recommendation":
        return 2.0 * job.batch / devices * 26 * 128 * 2.0
    return trained * job.parameters * (devices - 1) / devices


def _link_gb_s(specification: Specification) -> float:
    """Bandwidth of a device to the others of its server."""
    return BUS_GB_S if math.isnan(specification.link_gb_s) else LINK_USE * specification.link_gb_s


def _network_gb_s(specification: Specification) -> float:
    """Bandwidth of a device to those of other servers."""
    link_gb_s = specification.link_gb_s
    return NETWORK_GB_S if math.isnan(link_gb_s) else max(NETWORK_GB_S, NETWORK_USE * link_gb_s)


# -- efficiency -----------------------------------------------------------------------------------------------


PRIOR = {
    "mean": (-0.9, 0.5),
    "kind": (0.0, 0.4),
    "method": (0.0, 0.25),
    "size": (0.04, 0.06),
    "width": (-0.03, 0.03),
}
PRIOR |= {"precision": (0.0, 0.3), "device": (0.0, 0.08), "chip": (0.0, 0.18), "model": (0.0, 0.15)}
PRIOR |= {"split": (-0.05, 0.25)}
PRIOR |= {"peak": (-0.25, 0.08), "chip of kind": (0.0, 0.12)}
PRIOR |= {"length": (-0.05, 0.05), "small": (-0.05, 0.05), "precision on chip": (0.0, 0.15), "type": (0.0, 0.2)}
"""Mean and standard deviation of each effect on the logarithm of efficiency; tf32, fp8 and fp4 have their own."""
OF_PRECISION = {"tf32": (-0.7, 0.2), "fp8": (0.4, 0.3), "fp4": (0.7, 0.4)}
NOISE, SMALL_TOKENS = 0.12, 8192


@dataclass(frozen=True)
class Efficiency:
    """Effects on the logarithm of efficiency, with their covariance: a Normal posterior."""

    names: Mapping[tuple[str, ...], int]
    mean_F: Floats
    covariance_FF: Floats
    noise: float
    measured: Mapping[str, tuple[float, float]]
    """The least and most octaves of each figure that were measured (``_octaves``)."""

    def ask(self, job: NamedJob, way: Setting, device: str, specification: Specification) -> tuple[float, float]:
        """Mean and standard deviation of the logarithm of efficiency there."""
        outside = WIDER_SD * sum(
            max(low - octave, octave - high, 0.0)
            for name, octave in _octaves(job, way, specification).items()
            for low, high in [self.measured.get(name, (octave, octave))]
        )
        network = NETWORK_SD * network_share(job, way, specification)
        mean, variance = 0.0, self.noise**2 + outside**2 + network**2
        x_F = np.zeros(len(self.mean_F))
        for name, value in _features(job, way, device, specification).items():
            if (column := self.names.get(name)) is None:
                prior_mean, sd = _prior(name)
                mean, variance = mean + value * prior_mean, variance + (value * sd) ** 2
            else:
                x_F[column] = value
        return mean + float(x_F @ self.mean_F), math.sqrt(variance + float(x_F @ self.covariance_FF @ x_F))


def fit_efficiency(
    cells: Sequence[tuple[NamedJob, Setting, str, Specification]], log_efficiency_N: Floats
) -> Efficiency:
    """The posterior of the effects, given measured logarithms of efficiency (cells: job, way, device, data sheet).

    The noise is the standard deviation of what the effects do not explain, with NOISE as ten more residuals.
    """
    rows = [_features(*cell) for cell in cells]
    names = {name: column for column, name in enumerate(dict.fromkeys(name for row in rows for name in row))}
    if not names:
        return Efficiency({}, np.zeros(0), np.zeros((0, 0)), NOISE, {})
    prior_F = np.array([_prior(name) for name in names])
    x_NF = np.zeros((len(rows), len(names)))
    for n, row in enumerate(rows):
        for name, value in row.items():
            x_NF[n, names[name]] = value
    noise = NOISE
    for _ in range(3):
        precision_FF = np.diag(prior_F[:, 1] ** -2) + x_NF.T @ x_NF / noise**2
        covariance_FF = np.linalg.inv(precision_FF)
        mean_F = covariance_FF @ (prior_F[:, 0] * prior_F[:, 1] ** -2 + x_NF.T @ log_efficiency_N / noise**2)
        free = len(rows) - float(np.trace(covariance_FF @ (x_NF.T @ x_NF)) / noise**2)
        squares = float(np.sum((log_efficiency_N - x_NF @ mean_F) ** 2))
        noise = math.sqrt((squares + 10 * NOISE**2) / (max(free, 0.0) + 10))
    octaves = [_octaves(job, way, specification) for job, way, _, specification in cells]
    measured = {
        name: (min(of_all), max(of_all))
        for name in dict.fromkeys(name for one in octaves for name in one)
        if (of_all := [one[name] for one in octaves if name in one])
    }
    return Efficiency(names, mean_F.astype(np.float64), covariance_FF.astype(np.float64), noise, measured)


def _octaves(job: NamedJob, way: Setting, specification: Specification) -> dict[str, float]:
    """Octaves of parameters and tokens, by kind, and of devices and their TFLOP/s."""
    return {
        f"{job.kind} parameters": math.log2(job.parameters),
        f"{job.kind} tokens": math.log2(_tokens(job)),
        "devices": math.log2(way.scale_factor),
        "peak": math.log2(specification.tensor_tflops),
    }


def _features(
    job: NamedJob, way: Setting, device: str, specification: Specification
) -> dict[tuple[str, ...], float]:
    chip = device.partition("-")[0]
    return {
        ("mean",): 1.0,
        ("kind", job.kind): 1.0,
        ("method", job.kind, job.method): 1.0,
        ("size", job.kind): math.log(job.parameters / 1e9),
        ("length",): math.log2(_tokens(job) / 2048.0) if job.kind == "llm" else 0.0,
        ("width",): math.log2(way.scale_factor),
        ("split",): math.log2(_split(job, way.scale_factor)),
        ("small",): max(0.0, math.log2(SMALL_TOKENS * way.scale_factor / (_tokens(job) * job.batch))),
        ("peak",): math.log(specification.tensor_tflops / 300.0),
        ("chip", chip): 1.0,
        ("chip of kind", chip, job.kind): 1.0,
        ("precision on chip", job.precision, chip): 1.0,
        ("type", way.job_type): 1.0,
        ("precision", job.precision): 1.0,
        ("device", device): 1.0,
        ("model", job.model): 1.0,
    }


def _prior(name: tuple[str, ...]) -> tuple[float, float]:
    return OF_PRECISION.get(name[1], PRIOR["precision"]) if name[0] == "precision" else PRIOR[name[0]]
