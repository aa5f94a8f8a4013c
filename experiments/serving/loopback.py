"""How soon a real job leaves devices that are taken back: an agent on loopback, and processes that train."""

import asyncio
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from experiments.deployed.local import PATIENCE_S, LocalCluster, Machine
from gavelx.mechanism import DEFAULT
from gavelx.overheads import Overhead, Overheads
from gavelx.prices import Prices
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.timing import Timing
from gavelx.service.store.configuration import Configuration
from gavelx.throughputs import Setting, Throughputs

ROUND_S, NOTICE_S, LOOK_S = 5.0, 60.0, 0.05
TABLE = Throughputs({Setting("net", "v100", n): float(n) for n in (1, 2)}, name="serving")
TIMING = Timing(heartbeat_s=0.5, valid_for_s=30.0, grace_s=10.0)


def seconds_until_back(times: int, layers: int) -> tuple[list[float], int]:
    """For each time, from the call until no job holds the device that is taken back; and how often it failed.

    The job has so many layers of 4 MiB.
    """
    return asyncio.run(_measure(times, layers))


async def _measure(times: int, layers: int) -> tuple[list[float], int]:
    rules = replace(DEFAULT.with_round(ROUND_S), overheads=Overheads(Overhead(resize_s=0.0)))
    configuration = Configuration(TABLE, Prices({"v100": 1.0}), rules)
    found = list[float]()
    with tempfile.TemporaryDirectory() as folder:
        async with LocalCluster(Path(folder), configuration, "elastic(easyscale)", TIMING) as cluster:
            await cluster.join(Machine("one", "v100", 2, emulate=False))
            command = [sys.executable, "-m", "experiments.live_resize.job", str(layers)]
            spec = wire.JobSpec(
                job_type="net", workers=2, total_steps=1e9, command=command, elasticity="workers:1-2"
            )
            (job_id,) = await cluster.submit(spec)
            for _ in range(times):
                await _until_it_runs_on(cluster, job_id, 2)
                begun_s = time.monotonic()
                while await cluster.offer("one", 1, NOTICE_S):
                    await asyncio.sleep(LOOK_S)
                found.append(time.monotonic() - begun_s)
                await _until_it_runs_on(cluster, job_id, 1)
                await cluster.offer("one", 2, 0.0)
            (job,) = await cluster.jobs([job_id])
            await cluster.cancel(job_id)
    return found, job.failures


async def _until_it_runs_on(cluster: LocalCluster, job_id: int, devices: int) -> None:
    """And has done some steps there, which it reports."""
    begun = list[float]()

    async def there() -> bool:
        (job,) = await cluster.jobs([job_id])
        if job.state != "running" or job.devices != devices:
            begun.clear()
            return False
        begun.append(job.steps_done)
        return job.steps_done >= begun[0] + 5

    deadline_s = time.monotonic() + PATIENCE_S
    while not await there():
        assert time.monotonic() < deadline_s, f"the job does not run on {devices} devices"
        await asyncio.sleep(LOOK_S)
