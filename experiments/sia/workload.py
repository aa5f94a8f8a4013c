"""Workloads like own-1: 40 jobs, 30 an hour, six in ten of them small, widths from 1 to 16.

A batch is the application's least one times the width.
"""

from typing import Any

import numpy as np

APPLICATIONS = {"cifar10": 0.6, "deepspeech2": 0.2, "bert": 0.2}
BATCH = {"cifar10": 128, "deepspeech2": 20, "bert": 12}
WIDTHS = (1, 2, 4, 8, 16)
JOBS, JOBS_PER_HOUR = 40, 30.0


def drawn(seed: int) -> list[list[Any]]:
    """Name, arrival (s), application, width and batch of each job."""
    chance = np.random.default_rng(seed)
    arrival_s = np.cumsum(chance.exponential(3600.0 / JOBS_PER_HOUR, JOBS)).astype(int).tolist()
    names = chance.choice(list(APPLICATIONS), JOBS, p=list(APPLICATIONS.values())).tolist()
    widths = chance.choice(WIDTHS, JOBS).tolist()
    return [
        [f"{name}-{n}", at_s, name, width, width * BATCH[name]]
        for n, (at_s, name, width) in enumerate(zip(arrival_s, names, widths, strict=True))
    ]
