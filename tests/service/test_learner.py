"""A learner beside a service: it reads the log, writes weights, and the scheduler decides by them under load."""

import asyncio
import json
import sys
import time
from pathlib import Path

import pytest

from experiments.deployed.local import ROOT, LocalCluster, Machine
from gavelx.mechanism import DEFAULT
from gavelx.mechanism.events import PolicyChanged
from gavelx.policies.network import Network
from gavelx.prices import Prices
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.timing import Timing
from gavelx.service.state.replay import read_history
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.log import Log
from gavelx.service.store.records import entry_of
from gavelx.throughputs import Setting, Throughputs
from tests.service.running import run
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.slow
pytest.importorskip("torch")

TEACHER = "elastic(srtf_program)"
CONFIGURATION = Configuration(Throughputs({Setting("m", "a"): 1.0}), Prices({"a": 1.0}), DEFAULT.with_round(1.0))


def job(steps: float) -> wire.JobSpec:
    return wire.JobSpec(job_type="m", total_steps=steps, command=["sleep", "1"])


async def followed(cluster: LocalCluster, folder: Path, seed: int) -> dict[str, str]:
    """`gavelx learn follow` in a process of its own."""
    command = [
        *(sys.executable, "-m", "gavelx", "learn", "follow", cluster.log, "--weights", str(folder)),
        *("--scheduler", cluster.address, "--teacher", TEACHER, "--seed", str(seed)),
        *("--rounds", "1", "--steps", "40", "--slot", "1000", "--json"),
    ]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=-1, stderr=-1)
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return dict(json.loads(out))


def test_weights_are_exchanged_under_load_and_no_lease_is_disturbed(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.mkdir()

    async def main() -> None:
        timing = Timing(heartbeat_s=0.2, valid_for_s=30.0, grace_s=5.0)
        async with LocalCluster(tmp_path / "run", CONFIGURATION, TEACHER, timing) as cluster:
            await cluster.join(Machine("one", "a", 2, emulate=True), Machine("two", "a", 2, emulate=True))
            long = await cluster.submit(job(10_000.0), job(10_000.0))
            await cluster.submit(job(1.0))
            await in_state(cluster, long, "running")
            first = await followed(cluster, weights, 1)
            second = await followed(cluster, weights, 2)
            assert (first["before"], second["before"]) == (TEACHER, first["policy"])
            short = await cluster.submit(job(1.0))
            await in_state(cluster, short, "complete")
            for job_id in long:
                (status,) = await cluster.jobs([job_id])
                assert status.state == "running"
                await cluster.cancel(job_id)
            await cluster.until_ended(PATIENCE_S, at_least=4)

    run(main())
    state, history = read_history(str(tmp_path / "run" / "log"))
    files = {str(path) for path in weights.iterdir()}
    assert {Network.load(path).digest in path for path in files} == {True}
    changed = policies(str(tmp_path / "run" / "log"))
    assert changed[0] == TEACHER
    assert {f"elastic({path})" for path in files} == set(changed[1:])
    assert len(changed) == 3
    assert state.policy == changed[-1]
    assert [len(history.of(job_id)) for job_id in range(4)] == [1] * 4, "an exchange of policies disturbs no lease"


async def in_state(cluster: LocalCluster, job_ids: list[int], state: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not all(job.state == state for job in await cluster.jobs(job_ids)):
        assert time.monotonic() < end_s, f"jobs {job_ids} are not {state}"
        await asyncio.sleep(0.1)


def policies(log_place: str) -> list[str]:
    log = Log(log_place, read_only=True)
    try:
        entries = [entry_of(record) for record in log.read()]
    finally:
        log.close()
    return [entry.note["policy"] for entry in entries if isinstance(entry.event, PolicyChanged)]
