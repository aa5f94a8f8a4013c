"""Tables of jobs alone of which little is known: made ones, public measurements, and small parts of both.

``cases`` are the tables by name; ``drawn_at_random`` makes any number of others, whose models, batch sizes,
devices, widths, units of steps, spelling of names, noise and share of known cells are drawn. Nothing here is known
to the estimators: a made speed follows a roofline,

    seconds of a step = host + (arithmetic^4 + memory^4)^(1/4) [+ exchange of gradients between n devices]

with an efficiency of its own for each model on each device.
"""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gavelx.files.data_sheets import load_data_sheets
from gavelx.files.throughput_tables import load_throughputs
from gavelx.throughputs import Setting

Truth = dict[Setting, float]
Random = np.random.Generator
SPELLINGS = (
    *("{} (batch size {})", "{}_bs{}", "{}-bs{}", "{}-b{}", "{}_bs_{}", "{} batch={}", "{}, batch size {}"),
    *("{}_batch_size_{}", "{} ({})", "{}/bs={}", "{} bsz {}", "{}-batch{}"),
)
MODELS = (
    *("resnet50", "bert-base", "gpt2", "vgg16", "t5", "lstm_lm", "ViT-L", "dlrm", "yolov3", "unet3d", "wav2vec2"),
    *("ssd", "cyclegan", "tacotron2", "moe-8x", "mobilenet", "ResNeXt-101", "deepspeech2"),
)
DEVICES = (
    "k80",
    "p100",
    "t4",
    "v100",
    "rtx3090",
    "a10g",
    "l4",
    "a100-40gb",
    "a100-80gb",
    "l40s",
    "h100-80gb",
    "mi250x",
)
HEAVY_TAIL = 2.0


class Case(NamedTuple):
    """A table, and which of its cells are known."""

    truth: Truth
    known: frozenset[Setting]

    @property
    def hidden(self) -> list[Setting]:
        """Hidden cells of job types that are known somewhere."""
        jobs = {way.job_type for way in self.known}
        return [way for way in self.truth if way not in self.known and way.job_type in jobs]


def roofline(
    random: Random,
    *,
    models: int = 8,
    batches: Sequence[int] = (16, 32, 64, 128),
    devices: Sequence[str] = ("k80", "p100", "t4", "v100", "a100-40gb", "h100-80gb"),
    shapes: Sequence[tuple[int, bool]] = ((1, True), (2, True), (4, True), (8, True)),
    noise: float = 0.03,
    degrees: float = math.inf,
    efficiency: float = 0.2,
    cliff: float = 1.0,
    samples: bool = False,
    spelling: str = SPELLINGS[0],
    per_device: bool = True,
) -> Truth:
    """A made table. ``cliff`` is the slowdown of a batch that does not fit into memory; ``degrees`` are those of
    Student's t of the noise; speeds are in samples/s or in each model's own unit of steps."""
    sheets, truth = load_data_sheets(), Truth()
    names = [str(name) for name in random.permutation(MODELS)[:models]]
    host_of = {device: math.exp(random.normal(0, 0.3)) for device in devices}
    net_of = {
        device: math.exp(random.normal(math.log(sheets.find(device).bandwidth_gb_s / 20), 0.5))
        for device in devices
    }
    for name in names:
        gflop, gbyte = math.exp(random.normal(3.5, 1.0)), math.exp(random.normal(-1.0, 1.0))
        host_s, gradients_gb = math.exp(random.normal(-3.5, 0.7)), math.exp(random.normal(-1.0, 1.0))
        unit, memory_gb = math.exp(random.normal(0, 2.0)), math.exp(random.normal(-2.2, 0.8))
        for device in devices:
            sheet, own = sheets.find(device), math.exp(random.normal(0, efficiency))
            tflops = (
                0.35
                * own
                * (
                    sheet.fp32_tflops
                    if math.isnan(sheet.tensor_tflops)
                    else sheet.tensor_tflops**0.5 * sheet.fp32_tflops**0.5
                )
            )
            gb_s, spread = 0.6 * own * sheet.bandwidth_gb_s, math.exp(random.normal(-1.2, 0.4))
            for batch in batches:
                for width, together in shapes:
                    local = batch if per_device else batch / width
                    compute_s = ((local * gflop / 1e3 / tflops) ** 4 + (local * gbyte / gb_s) ** 4) ** 0.25
                    exchange_s = (
                        gradients_gb * 2 * (width - 1) / width / net_of[device] / (1 if together else spread)
                    )
                    step_s = host_s * host_of[device] + compute_s + exchange_s
                    step_s *= cliff if local * memory_gb > sheet.memory_gb else 1.0
                    speed = (batch * (width if per_device else 1) if samples else unit) / step_s
                    error = random.standard_t(degrees) if degrees < math.inf else random.normal()
                    truth[Setting(spelling.format(name, batch), device, width, together)] = speed * math.exp(
                        noise * error
                    )
    return truth


def unnamed(truth: Truth) -> Truth:
    """The same table with names of devices that are on no data sheet."""
    devices = sorted({way.accelerator for way in truth})
    return {way._replace(accelerator=f"chip-{devices.index(way.accelerator)}"): v for way, v in truth.items()}


@cache
def published(table: str) -> Mapping[Setting, float]:
    """Jobs alone of a shipped table that run."""
    return {way: speed for way, speed in load_throughputs(table).isolated.items() if speed > 0}


@cache
def sia(folder: Path) -> Mapping[Setting, float]:
    """Steps/s on one server in the profiles of the artifact of Sia: seven models, five types, 1 to 8 devices."""
    logs: dict[Setting, list[float]] = {}
    with (folder / "profiles_elastic.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if row["num_nodes"] == "1":
                job = f"{row['model']} (batch size {int(float(row['local_batch_size']))})"
                way = Setting(job, row["accelerator"].lower(), int(row["num_gpus"]))
                logs.setdefault(way, []).append(-math.log(float(row["step_time_s"])))
    return {way: math.exp(sum(some) / len(some)) for way, some in logs.items()}


@cache
def modern(folder: Path, source: str, *, sized: bool) -> Mapping[Setting, float]:
    """Samples/s of one source of the table of modern speeds; ``sized``: names have the batch size of a device."""
    logs: dict[Setting, list[float]] = {}
    with (folder / "modern.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if source not in row["source"] or (sized and not row["global_batch_size"]):
                continue
            name = " ".join(filter(None, (row["model"], row["variant"], row["precision"])))
            devices = int(row["num_gpus"])
            if sized:
                name += f" (batch size {max(1, round(float(row['global_batch_size']) / devices))})"
            way = Setting(name, row["accelerator"].lower(), devices)
            logs.setdefault(way, []).append(math.log(float(row["samples_per_second"])))
    return {way: math.exp(sum(some) / len(some)) for way, some in logs.items()}


def share(random: Random, truth: Mapping[Setting, float], known: float) -> Case:
    """This share of the cells is known, any of them."""
    ways = sorted(truth)
    some = random.permutation(len(ways))[: max(2, round(known * len(ways)))]
    return Case(dict(truth), frozenset(ways[i] for i in some))


def new_device(random: Random, truth: Truth, known: float) -> Case:
    """A device of which two job types are known; this share of all other cells."""
    device = str(random.choice(sorted({way.accelerator for way in truth})))
    rest = share(random, {way: v for way, v in truth.items() if way.accelerator != device}, known)
    few = set(random.choice(sorted({way.job_type for way in rest.known}), 2, replace=False))
    here = {way for way in truth if way.accelerator == device}
    # only the new device is asked for
    asked = {way: v for way, v in truth.items() if way in rest.known or way in here}
    return Case(asked, rest.known | {way for way in here if way.job_type in few})


def one_device(random: Random, truth: Mapping[Setting, float], known: float) -> Case:
    """A table of one device."""
    device = str(random.choice(sorted({way.accelerator for way in truth})))
    return share(random, {way: v for way, v in truth.items() if way.accelerator == device}, known)


def widths(truth: Mapping[Setting, float], *kept: int) -> Truth:
    """The cells of these numbers of devices."""
    return {way: speed for way, speed in truth.items() if way.scale_factor in kept}


def together(truth: Mapping[Setting, float]) -> Truth:
    """The cells in one server."""
    return {way: speed for way, speed in truth.items() if way.consolidated}


NARROW: Sequence[tuple[int, bool]] = ((1, True),)


def cases(folder: Path | None) -> dict[str, Callable[[Random], Case]]:
    """Every table by name, drawn anew by each random generator; those that need ``folder`` if there is one."""
    made: dict[str, Callable[[Random], Case]] = {
        "made, widths 1-8 (30 %)": lambda r: share(r, roofline(r), 0.3),
        "the same, unknown device names": lambda r: share(r, unnamed(roofline(r)), 0.3),
        "the same, speed cliff": lambda r: share(r, roofline(r, cliff=4.0), 0.3),
        "the same, heavy-tailed noise": lambda r: share(r, roofline(r, noise=0.12, degrees=HEAVY_TAIL), 0.3),
        "the same, a device known by 2 jobs": lambda r: new_device(r, roofline(r), 0.3),
        "made, width 1 (30 %)": lambda r: share(r, roofline(r, shapes=NARROW), 0.3),
        "made, width 1 (60 %)": lambda r: share(r, roofline(r, shapes=NARROW), 0.6),
        "shipped, width 1 (50 %)": lambda r: share(r, together(widths(published("simulation"), 1)), 0.5),
        "the same, marked spread as well (50 %)": lambda r: share(r, widths(published("simulation"), 1), 0.5),
        "shipped, one type (50 %)": lambda r: one_device(r, published("simulation"), 0.5),
    }
    if folder is None:
        return made
    return made | {
        "Lambda benchmark (30 %)": lambda r: share(r, modern(folder, "lambdal", sized=False), 0.3),
        "Sia profiles (40 %)": lambda r: share(r, sia(folder), 0.4),
        "Sia profiles (20 %)": lambda r: share(r, sia(folder), 0.2),
        "Sia profiles (10 %)": lambda r: share(r, sia(folder), 0.1),
        "Sia profiles, widths 1, 2, 4 (10 %)": lambda r: share(r, widths(sia(folder), 1, 2, 4), 0.1),
        "Sia profiles, width 1 (20 %)": lambda r: share(r, widths(sia(folder), 1), 0.2),
    }


def drawn_at_random(random: Random, folder: Path | None) -> Case:
    """A table of any kind: made, or a part of public measurements, of which 5 to 60 % is known."""
    real = [published("simulation"), published("physical")]
    if folder is not None:
        real += [
            sia(folder),
            sia(folder),
            modern(folder, "lambdal", sized=False),
            modern(folder, "NVIDIA", sized=True),
        ]
    truth = _made(random) if random.random() < 0.5 else _part(random, real[random.integers(len(real))])
    if random.random() < 0.15:
        truth = unnamed(truth)
    known = math.exp(random.uniform(math.log(0.05), math.log(0.6)))
    return share(random, truth, max(known, 8 / len(truth)))


def _made(random: Random) -> Truth:
    exponents = np.sort(random.permutation(11)[: random.integers(1, 7)])
    widths = [(1, True), (2, True), (4, True), (8, True), (2, False), (4, False), (8, False)]
    shapes = [widths[i] for i in sorted(random.permutation(len(widths))[: random.integers(1, 7)])]
    return roofline(
        random,
        models=int(random.integers(2, 13)),
        batches=[2 ** int(exponent) for exponent in exponents],
        devices=[str(name) for name in random.permutation(DEVICES)[: random.integers(1, 9)]],
        shapes=NARROW if random.random() < 0.4 else shapes,
        noise=float(random.choice([0.01, 0.03, 0.08])),
        degrees=float(random.choice([math.inf, math.inf, 3.0])),
        efficiency=float(random.choice([0.1, 0.2, 0.35])),
        cliff=float(random.choice([1.0, 1.0, 3.0])),
        samples=bool(random.random() < 0.5),
        spelling=str(random.choice(SPELLINGS)),
        per_device=bool(random.random() < 0.5),
    )


def _part(random: Random, truth: Mapping[Setting, float]) -> Truth:
    """Some models, devices and widths of a table; all if fewer than 12 cells are left."""
    jobs, devices = sorted({way.job_type for way in truth}), sorted({way.accelerator for way in truth})
    kept_jobs = set(random.choice(jobs, max(3, int(len(jobs) * random.uniform(0.2, 1.0))), replace=False))
    kept_devices = set(random.choice(devices, random.integers(1, len(devices) + 1), replace=False))
    widest = int(random.choice([1, 2, 8]))
    part = {
        way: speed
        for way, speed in truth.items()
        if way.job_type in kept_jobs and way.accelerator in kept_devices and way.scale_factor <= widest
    }
    return part if len(part) >= 12 else dict(truth)
