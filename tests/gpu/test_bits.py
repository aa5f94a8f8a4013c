"""The promised bits on a GPU: those of torch's wrapper, whatever processes compute them.

All processes share one GPU, so they exchange gradients over gloo, by way of the host, and so does torch's wrapper.
The order of sums is therefore named: a job on GPUs takes ``rank`` by itself.

A failure names what differs, losses by step first:

* in step 0, another kernel computed a loss: ``prepare_gpu`` came too late on one side, or does not cover it;
* from a later step on, of all models: another order of sums (`ordered`), or other buckets (`layout`);
* of one model alone: kernels of its gradients that do not repeat themselves, such as those of attention;
* in no loss, but at the end: the last update, the optimizer, or buffers.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from experiments.parts.models import MODELS, OPTIMIZERS
from experiments.parts.runs import Job, Reached, differences, one_by_one, reference
from experiments.parts.scripts import Script

ALL = tuple((model, optimizer) for model in MODELS for optimizer in OPTIMIZERS)
NAMED = (("determinism", "elastic"),)
AS_GLOO = (*NAMED, ("order", "torch-ddp"))
SCRIPTS = {
    4: Script(ALL, steps=8, batch_size=4, device="cuda", options=AS_GLOO),
    3: Script(ALL, steps=8, batch_size=4, chunks=2, autocast=True, device="cuda", options=AS_GLOO),
}
"""By the number of parts."""

pytestmark = pytest.mark.slow


@cache
def under_torch(parts: int) -> Reached:
    return reference(SCRIPTS[parts], parts, one_by_one)


def check_equal(reached: Reached, expected: Reached) -> None:
    found = differences(reached, expected)
    assert not found, "\n".join([f"{len(found)} of {len(expected)} differ:", *found[:20]])


def killed(job: Job) -> None:
    job.script = replace(job.script, die=(1, 4), options=(*AS_GLOO, ("every_s", 0.0)))
    job.killed(2)


@pytest.mark.parametrize("parts", SCRIPTS)
def test_torchs_wrapper_repeats_itself(parts: int) -> None:
    """Without this the other tests show nothing: the fault is then of kernels, and not of our sums."""
    check_equal(reference(SCRIPTS[parts], parts, one_by_one), under_torch(parts))


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
    check_equal(job.reached(one_by_one), under_torch(parts))
    assert (job.report()["determinism"], job.report()["order"]) == ("elastic", "torch-ddp")


def test_jobs_have_the_same_bits_whatever_processes_they_begin_with(tmp_path: Path) -> None:
    """Alone on a GPU, a job does not know that its next processes share it."""
    reached = []
    for processes in (1, 3):
        folder = tmp_path / str(processes)
        folder.mkdir()
        job = Job(replace(SCRIPTS[3], options=NAMED), 3, folder)
        job.live([(processes, 8)])
        assert (job.report()["determinism"], job.report()["order"]) == ("elastic", "rank")
        reached.append(job.reached(one_by_one))
    check_equal(reached[1], reached[0])
