"""Intervals hold what they say: counted over many made tables, of devices that nobody knows well and of pairs."""

import itertools
import math

import numpy as np
import pytest

from gavelx.estimator.completion import Completion
from gavelx.estimator.names import read_name
from gavelx.files.data_sheets import load_data_sheets
from gavelx.measurements import Measurement, Way
from gavelx.throughputs import Pairing, Setting

DEVICES = ("k80", "t4", "v100", "a100-40gb", "h100-80gb")
JOBS = [f"{model} (batch size {size})" for model in ("bert", "vgg16", "gpt", "lstm") for size in (16, 64, 256)]
LEVEL, TABLES = 0.9, 12


def alone(random: np.random.Generator) -> dict[Way, float]:
    """Speeds by data sheets, with a part of its own for each device, and for each model and job on it."""
    sheets, of_models = load_data_sheets(), random.uniform(0.05, 0.25)
    speed: dict[Way, float] = {}
    for device in DEVICES:
        by_sheet = random.uniform(0.6, 0.8) * math.log(sheets.find(device).bandwidth_gb_s) + random.normal(0, 0.15)
        suits = {job.split()[0]: random.normal(0, of_models) for job in JOBS}
        for job in JOBS:
            log = by_sheet + suits[job.split()[0]] + random.normal(0, of_models / 3)
            speed[Setting(job, device)] = math.exp(log)
    return speed


def held(truth: dict[Way, float], known: set[Way]) -> dict[str, float]:
    """The share of hidden cells in their intervals, on each device."""
    estimator = Completion(load_data_sheets())
    estimator.observe(Measurement(way, truth[way]) for way in truth if way in known)
    wanted = [way for way in truth if way not in known]
    hits: dict[str, list[bool]] = {}
    for way, one in zip(wanted, estimator.estimate(wanted, LEVEL), strict=True):
        hits.setdefault(way.accelerator, []).append(one.lower <= truth[way] <= one.upper)
    return {device: float(np.mean(of_device)) for device, of_device in hits.items()}


def test_a_device_of_which_two_jobs_are_known_over_many_tables() -> None:
    """Cells of one device are wrong together, so the error is that of independent tables, not of cells."""
    shares = []
    for seed in range(TABLES):
        random = np.random.default_rng([seed, 11])
        truth, device = alone(random), DEVICES[seed % len(DEVICES)]
        few = set(random.choice(JOBS, 2, replace=False))
        known = {way for way in truth if way.accelerator != device or way.job_type in few}
        shares.append(held(truth, known)[device])
    error = float(np.std(shares, ddof=1)) / math.sqrt(TABLES)
    assert abs(np.mean(shares) - LEVEL) < 0.05 + 2 * error


@pytest.mark.parametrize("cells", [10, 25])
def test_small_tables_over_many(cells: int) -> None:
    """Any few cells of a table are known; the share is that of tables, with two standard errors and 5 %."""
    shares = []
    for seed in range(3 * TABLES):
        random = np.random.default_rng([seed, 12])
        trend = {job.split()[0]: random.normal(-0.5, 0.2) for job in JOBS}
        speed = alone(random)
        size = {way: float(read_name(way.job_type).batch_size) for way in speed if isinstance(way, Setting)}
        truth = {way: speed[way] * (b / 64) ** trend[way.job_type.split()[0]] for way, b in size.items()}
        known = {list(truth)[i] for i in random.permutation(len(truth))[:cells]}
        shares.append(float(np.mean(list(held(dict(truth), set(known)).values()))))
    error = float(np.std(shares, ddof=1)) / math.sqrt(len(shares))
    assert abs(np.mean(shares) - LEVEL) < 0.05 + 2 * error


def test_pairs_on_devices_where_partners_matter_more_or_less() -> None:
    """Each device is held to the level, not only their mean: five standard errors of a binomial, and 3 %."""
    random = np.random.default_rng(5)
    truth = alone(random)
    amplitude = dict(zip(DEVICES, (0.5, 0.75, 1.0, 1.5, 2.0), strict=True))
    suffers, harms = ({(j, d): random.normal(0, 0.15) for j in JOBS for d in DEVICES} for _ in range(2))
    for a, b, device in itertools.product(JOBS, JOBS, DEVICES):
        together = suffers[a, device] + harms[b, device] + random.normal(0, 0.2)
        truth[Pairing(a, b, device)] = truth[Setting(a, device)] * math.exp(amplitude[device] * together - 0.5)
    known = {way for way in truth if isinstance(way, Setting) or random.random() < 0.2}
    shares = held(truth, known)
    cells = 0.8 * len(JOBS) ** 2
    most = 0.03 + 5 * math.sqrt(LEVEL * (1 - LEVEL) / cells)
    assert all(abs(share - LEVEL) < most for share in shares.values()), shares
