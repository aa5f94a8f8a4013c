"""Scripts that know nothing of leases, on a real cluster: they save nothing, and still come to their end."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from experiments.deployed.local import LocalCluster, Machine
from gavelx.mechanism import DEFAULT
from gavelx.prices import Prices
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.timing import Timing
from gavelx.service.state.replay import read_recorded
from gavelx.service.store.configuration import Configuration
from gavelx.throughputs import Setting, Throughputs
from tests.service.running import run
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.slow

TAKES_S = 6
CONFIGURATION = Configuration(
    Throughputs({Setting("other", "cpu"): 1.0}), Prices({"cpu": 3600.0}), DEFAULT.with_round(1.0)
)


def script(takes_s: int = TAKES_S, **more: Any) -> wire.JobSpec:
    """Says that it begins, and sleeps for longer than its turn takes."""
    command = ["sh", "-c", f"echo begun >> begun; sleep {takes_s}"]
    return wire.JobSpec(
        job_type="script", total_steps=1.0, steps_per_s={"cpu": 1.0 / takes_s}, command=command, **more
    )


async def explained(cluster: LocalCluster, job_id: int) -> dict[str, Any]:
    reply = await cluster.call("Explain", wire.ExplainRequest(version=1, job_id=job_id))
    return dict(json.loads(reply.explanation_json))


def begun(folder: Path, job_id: int) -> int:
    """How often the script of a job began."""
    (path,) = (folder / "shared" / "jobs").glob(f"{job_id}-*/begun")
    return len(path.read_text().splitlines())


def cluster_in(folder: Path) -> LocalCluster:
    return LocalCluster(folder, CONFIGURATION, timing=Timing(heartbeat_s=0.2, valid_for_s=6.0, grace_s=1.0))


def test_two_scripts_that_take_turns_begin_anew_once_at_most(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster_in(tmp_path) as cluster:
            await cluster.join(Machine("one", "cpu"))
            await cluster.submit(script(), script())
            jobs = await cluster.until_ended(PATIENCE_S, at_least=2)
            assert [job.state for job in jobs] == ["complete", "complete"]
            assert max(job.lost_s for job in jobs) > 0
            for job in jobs:
                assert begun(tmp_path, job.job_id) == (2 if job.lost_s > 0 else 1), job
                assert job.failures == 0

    run(main())
    recorded = read_recorded(str(tmp_path / "log"))
    assert False in [job.checkpoints for job in recorded.jobs], "a replay has to know that it saves nothing"


def test_what_was_lost_is_explained(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster_in(tmp_path) as cluster:
            await cluster.join(Machine("one", "cpu"))
            ids = await cluster.submit(script(1000), script(1000))
            by_state: dict[str, dict[str, Any]] = {}
            while not by_state.get("running", {}).get("protected") or "waiting" not in by_state:
                await asyncio.sleep(0.1)
                by_state = {each["state"]: each for each in [await explained(cluster, i) for i in ids]}
            kept, waiting = by_state["running"], by_state["waiting"]
            assert kept["lost_s"] > 0
            assert "of work are lost, so once it runs it is not preempted" in kept["why"]
            assert "jobs that would lose their work hold cpu" in waiting["why"]
            (status,) = [job for job in await cluster.jobs() if job.job_id == kept["job_id"]]
            assert status.protected and status.lost_s == kept["lost_s"]
            for job_id in ids:
                await cluster.cancel(job_id)

    run(main())


def test_a_script_that_is_not_to_be_preempted_begins_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster_in(tmp_path) as cluster:
            await cluster.join(Machine("one", "cpu"))
            (kept,) = await cluster.submit(script(preemptible="no"))
            others = await cluster.submit(script(), script(weight=50.0))
            document = await explained(cluster, kept)
            assert (document["preemptible"], document["lost_s"]) == ("no", 0.0)
            jobs = await cluster.until_ended(PATIENCE_S, at_least=3)
            assert {job.state for job in jobs} == {"complete"}
            assert begun(tmp_path, kept) == 1
            assert max(begun(tmp_path, job_id) for job_id in others) <= 2

    run(main())
