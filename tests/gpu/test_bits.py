"""The promised bits on a GPU: those of torch's wrapper, whatever processes compute them.

All processes share one GPU, so they exchange gradients over gloo, by way of the host.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from experiments.parts.models import MODELS, OPTIMIZERS
from experiments.parts.runs import Job, Reached, reference
from experiments.parts.scripts import Script

ALL = tuple((model, optimizer) for model in MODELS for optimizer in OPTIMIZERS)
NAMED = (("determinism", "elastic"),)
SCRIPTS = {
    4: Script(ALL, steps=8, batch_size=4, device="cuda", options=NAMED),
    3: Script(ALL, steps=8, batch_size=4, chunks=2, autocast=True, device="cuda", options=NAMED),
}
"""By the number of parts."""

pytestmark = pytest.mark.slow


@cache
def under_torch(parts: int) -> Reached:
    return reference(SCRIPTS[parts], parts)


def killed(job: Job) -> None:
    job.script = replace(job.script, die=(1, 4), options=(*NAMED, ("every_s", 0.0)))
    job.killed(2)


@pytest.mark.parametrize("parts", SCRIPTS)
@pytest.mark.parametrize(
    "life",
    [
        lambda job: job.live([(1, 8)]),
        lambda job: job.live([(3, 2), (2, 3), (1, 5), (3, 8)]),
        lambda job: job.restarted([(3, 3), (2, 6), (1, 8)]),
        killed,
    ],
    ids=["alone", "live", "restarted", "killed"],
)
def test_elastic_jobs_have_the_bits_of_torchs_wrapper(
    tmp_path: Path, parts: int, life: Callable[[Job], None]
) -> None:
    job = Job(SCRIPTS[parts], parts, tmp_path)
    life(job)
    assert job.reached() == under_torch(parts)
    assert (job.report()["determinism"], job.report()["order"]) == ("elastic", "torch-ddp")
