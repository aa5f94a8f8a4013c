"""The Slurm template on a real Slurm: an agent on each node, its jobs, and what scancel does."""

import asyncio
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

import pytest

import gavelx
from tests.deploy.slurm import Cluster, cluster, why_not
from tests.waiting import until
from tests.worker.machines import kill_all, pids_of
from tests.worker.scheduler import Scheduler
from tests.worker.test_processes import FOREVER, SAVE_ON_TERM

ROOT = Path(gavelx.__file__).parents[1]
TEMPLATE = ROOT / "deploy" / "slurm" / "gavelx-agents.sbatch"

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "it can be had")


@pytest.fixture
def slurm() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="gavelx-slurm-", dir="/tmp"))  # munge wants parents that all may enter
    folder.chmod(0o755)
    try:
        with cluster(folder) as one:
            yield one
    finally:
        kill_all(folder)
        shutil.rmtree(folder, ignore_errors=True)


def program(folder: Path) -> str:
    """A folder with a ``gavelx`` that runs this very code."""
    path = folder / "bin" / "gavelx"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nPYTHONPATH={quote(str(ROOT))} exec {quote(sys.executable)} -m gavelx "$@"\n')
    path.chmod(0o755)
    return str(path.parent)


@pytest.mark.slow
def test_agents_serve_on_every_node_and_leave_softly(slurm: Cluster) -> None:
    agents = slurm.folder / "agents"

    async def run() -> None:
        async with Scheduler() as scheduler:
            printed = slurm.run(
                *("sbatch", "--nodes=2", "--gres=gpu:v100:2", str(TEMPLATE)),
                GAVELX_SCHEDULER=scheduler.address,
                GAVELX_DEVICES="v100=2",
                GAVELX_FOLDER=str(agents),
                GAVELX_SHARED=str(slurm.folder / "shared"),
                PATH=program(slurm.folder) + ":" + slurm.environment["PATH"],
            )
            job = re.findall(r"\d+", printed)[-1]
            await until(lambda: len(scheduler.hellos) == 2, "an agent on each node", lambda: scheduler.hellos)
            assert {(hello.name, hello.accelerator, hello.devices) for hello in scheduler.hellos} == {
                ("n1", "v100", 2),
                ("n2", "v100", 2),
            }
            await scheduler.connected(2)
            code = (
                SAVE_ON_TERM
                + "print(os.environ['CUDA_VISIBLE_DEVICES'], 'SLURM_JOB_ID' in os.environ, flush=True)"
            )
            last = scheduler.hellos[-1].name  # the fake scheduler talks to whoever came last
            scheduler.launch_python(1, code + FOREVER, slots=[1])
            lease = agents / last / "leases" / "1"
            out = lease / "out.0.log"
            await until(lambda: out.exists() and "1 False" in out.read_text(), "a job runs on its device")
            slurm.run("scancel", job)
            ended = await scheduler.end_of(1)
            assert (ended.failed, ended.complete, ended.steps_done) == (False, False, 30.0)
            queue = lambda: slurm.ran("squeue", "--noheader")  # noqa: E731
            await until(lambda: (found := queue()).returncode == 0 and not found.stdout, "its job is over", queue)
            assert not pids_of(lease)

    asyncio.run(run())


@pytest.mark.slow
def test_it_says_what_is_missing(slurm: Cluster) -> None:
    slurm.run("sbatch", "--wait-all-nodes=0", "--output=lost.log", str(TEMPLATE))

    async def run() -> None:
        log = slurm.folder / "lost.log"
        await until(lambda: log.exists() and "GAVELX_SCHEDULER" in log.read_text(), "the log names the variable")

    asyncio.run(run())
