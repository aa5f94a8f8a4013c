"""Scripts that know nothing of leases, on a real cluster: they save nothing, and still come to their end."""

import json
from collections.abc import Awaitable, Callable
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
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.slow

TAKES_S = 6
"""What the scheduler is told; a script runs until there is the file that it waits for."""
ROUNDS = 5
"""So many rounds pass with a job that is protected: time enough to preempt it."""
CONFIGURATION = Configuration(
    Throughputs({Setting("other", "cpu"): 1.0}), Prices({"cpu": 3600.0}), DEFAULT.with_round(1.0)
)


class Scripts:
    """A cluster of one device, and scripts that say that they begin, and run until they are let go."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self._state = cluster._service.scheduler.state

    async def submit(self, gate: str, **more: Any) -> int:
        command = ["sh", "-c", f"echo begun >> begun; until [ -e {self.folder / gate} ]; do sleep 0.1; done"]
        speeds = {"cpu": 1.0 / TAKES_S}
        spec = wire.JobSpec(job_type="script", total_steps=1.0, steps_per_s=speeds, command=command, **more)
        (job_id,) = await self.cluster.submit(spec)
        return job_id

    def let_go(self, gate: str) -> None:
        (self.folder / gate).touch()

    def begun(self, job_id: int) -> int:
        """How often the script of a job began."""
        (path,) = (self.folder / "shared" / "jobs").glob(f"{job_id}-*/begun")
        return len(path.read_text().splitlines())

    def launched(self, job_id: int) -> bool:
        return self._state.jobs[job_id].launches > 0

    async def explained(self, job_id: int) -> dict[str, Any]:
        reply = await self.cluster.call("Explain", wire.ExplainRequest(version=1, job_id=job_id))
        return dict(json.loads(reply.explanation_json))

    async def kept(self, *ids: int) -> dict[str, dict[str, Any]]:
        """Wait until one of these jobs runs that has lost its work, and others wait; by state, what is said."""

        async def found() -> dict[str, dict[str, Any]]:
            by_state = {each["state"]: each for each in [await self.explained(i) for i in ids]}
            lost_s = by_state.get("running", {}).get("lost_s", 0.0)
            return by_state if "waiting" in by_state and lost_s > 0 else {}

        said: dict[str, dict[str, Any]] = await until(found, "a job that has lost its work runs")
        return said

    async def rounds_pass(self) -> None:
        mechanism = self._state.mechanism
        end = mechanism.rounds + ROUNDS
        await until(lambda: mechanism.rounds >= end, f"{ROUNDS} rounds pass", lambda: mechanism.rounds)


def play(folder: Path, scene: Callable[[Scripts], Awaitable[None]]) -> None:
    async def main() -> None:
        timing = Timing(heartbeat_s=0.2, valid_for_s=60.0, grace_s=1.0)
        async with LocalCluster(folder, CONFIGURATION, timing=timing) as cluster:
            await cluster.join(Machine("one", "cpu"))
            await scene(Scripts(cluster, folder))

    run(main())


def test_two_scripts_that_take_turns_begin_anew_once_at_most(tmp_path: Path) -> None:
    async def scene(scripts: Scripts) -> None:
        ids = [await scripts.submit("go") for _ in range(2)]
        await scripts.kept(*ids)
        await scripts.rounds_pass()
        scripts.let_go("go")
        jobs = await scripts.cluster.until_ended(PATIENCE_S, at_least=2)
        assert [job.state for job in jobs] == ["complete", "complete"]
        for job in jobs:
            # one that lost time may have been stopped before it said that it begins
            assert scripts.begun(job.job_id) in ({1, 2} if job.lost_s > 0 else {1}), job
            assert job.failures == 0

    play(tmp_path, scene)
    recorded = read_recorded(str(tmp_path / "log"))
    assert False in [job.checkpoints for job in recorded.jobs], "a replay has to know that it saves nothing"


def test_what_was_lost_is_explained(tmp_path: Path) -> None:
    async def scene(scripts: Scripts) -> None:
        ids = [await scripts.submit("never") for _ in range(2)]
        await scripts.kept(*ids)
        await scripts.rounds_pass()
        said = await scripts.kept(*ids)  # now both are said of the same state: nothing changes any more
        kept, waiting = said["running"], said["waiting"]
        assert kept["protected"]
        assert "of work are lost, so once it runs it is not preempted" in kept["why"]
        assert "jobs that would lose their work hold cpu" in waiting["why"]
        (status,) = [job for job in await scripts.cluster.jobs() if job.job_id == kept["job_id"]]
        assert status.protected and status.lost_s == kept["lost_s"]
        for job_id in ids:
            await scripts.cluster.cancel(job_id)

    play(tmp_path, scene)


def test_a_script_that_is_not_to_be_preempted_begins_once(tmp_path: Path) -> None:
    async def scene(scripts: Scripts) -> None:
        kept = await scripts.submit("first", preemptible="no")
        others = [await scripts.submit("go"), await scripts.submit("go", weight=50.0)]
        document = await scripts.explained(kept)
        assert (document["preemptible"], document["lost_s"]) == ("no", 0.0)
        await until(lambda: scripts.launched(kept), "the one that is kept runs")
        await scripts.rounds_pass()
        scripts.let_go("first")
        scripts.let_go("go")
        jobs = await scripts.cluster.until_ended(PATIENCE_S, at_least=3)
        assert {job.state for job in jobs} == {"complete"}
        assert scripts.begun(kept) == 1
        assert max(scripts.begun(job_id) for job_id in others) <= 2

    play(tmp_path, scene)
