"""A learner beside a service: it reads the log, writes weights, and the scheduler decides by them under load."""

import asyncio
import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from experiments.deployed.local import ROOT, LocalCluster, Machine
from gavelx.mechanism import DEFAULT
from gavelx.mechanism.commands import Command, Resize, Stop
from gavelx.mechanism.events import PolicyChanged
from gavelx.mechanism.history import History
from gavelx.policies.network import Network
from gavelx.prices import Prices
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.timing import Timing
from gavelx.service.state.snapshots import configuration_of, replay
from gavelx.service.state.state import State
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.log import Log
from gavelx.slots.moves import FEATURES
from gavelx.throughputs import Setting, Throughputs
from tests.service.running import run
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.slow
pytest.importorskip("torch")

TEACHER = "elastic(srtf_program)"
SPEEDS = Throughputs({Setting("m", "a", width): speed for width, speed in ((1, 1.0), (2, 1.9))})
CONFIGURATION = Configuration(SPEEDS, Prices({"a": 1.0}), DEFAULT.with_round(1.0))
WAITS = 3
"""The feature of a move that says that its job has no device yet (`Moves.features`)."""


def one_device_each() -> Network:
    """A network for which it is worth something to begin a job, and nothing to let it grow."""
    weight_F1 = np.zeros((FEATURES, 1), dtype=np.float32)
    weight_F1[WAITS] = 2.0
    ones_F = np.ones(FEATURES, dtype=np.float32)
    return Network(0.0 * ones_F, ones_F, (weight_F1,), (np.array([-1.0], dtype=np.float32),))


def job(steps: float) -> wire.JobSpec:
    return wire.JobSpec(job_type="m", total_steps=steps, command=["sleep", "1"], elasticity="workers:1-2")


async def followed(cluster: LocalCluster, folder: Path, seed: int) -> dict[str, str]:
    """`gavelx learn follow` in a process of its own."""
    command = [
        *(sys.executable, "-m", "gavelx", "learn", "follow", cluster.log, "--weights", str(folder)),
        *("--scheduler", cluster.address, "--teacher", TEACHER, "--seed", str(seed)),
        *("--rounds", "1", "--steps", "200", "--slot", "1000", "--tolerance", "1", "--json"),
    ]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=-1, stderr=-1)
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return dict(json.loads(out))


def test_networks_that_disagree_are_exchanged_under_load_and_no_lease_is_disturbed(tmp_path: Path) -> None:
    """Under the first each job holds one device, and under those that are learned two: at the next round, in which
    the job goes on where it was."""
    weights = tmp_path / "weights"
    weights.mkdir()
    (tmp_path / "narrow.npz").write_bytes(one_device_each().to_bytes())
    narrow = f"elastic({tmp_path / 'narrow.npz'})"

    async def main() -> None:
        timing = Timing(heartbeat_s=0.2, valid_for_s=30.0, grace_s=5.0)
        async with LocalCluster(tmp_path / "run", CONFIGURATION, narrow, timing) as cluster:
            await cluster.join(Machine("one", "a", 3, emulate=True), Machine("two", "a", 3, emulate=True))
            long = await cluster.submit(job(10_000.0), job(10_000.0))
            await cluster.submit(job(1.0))
            await in_state(cluster, long, "running")
            first = await followed(cluster, weights, 1)
            await until_widths(cluster, long, 2)
            second = await followed(cluster, weights, 2)
            assert (first["before"], second["before"]) == (narrow, first["policy"])
            short = await cluster.submit(job(1.0))
            await in_state(cluster, short, "complete")
            for job_id in long:
                await in_state(cluster, [job_id], "running")
                await cluster.cancel(job_id)
            await cluster.until_ended(PATIENCE_S, at_least=4)

    run(main())
    files = {str(path) for path in weights.iterdir()}
    assert {Network.load(path).digest in path for path in files} == {True}
    changed, history, at_once = replayed(str(tmp_path / "run" / "log"))
    assert changed[0] == narrow
    assert {f"elastic({path})" for path in files} == set(changed[1:])
    assert len(changed) == 3
    assert not at_once, "an exchange of policies takes no lease back; the next round does"
    for job_id in range(2):
        leases = history.of(job_id)
        assert [len(held.lease.devices) for held in leases][:2] == [1, 2]
        assert not any(held.failed or held.lost for held in leases)
        done = [held.steps_done for held in leases]
        assert done == sorted(done) and done[0] > 0.0, "no step is lost"


async def in_state(cluster: LocalCluster, job_ids: list[int], state: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not all(job.state == state for job in await cluster.jobs(job_ids)):
        assert time.monotonic() < end_s, f"jobs {job_ids} are not {state}"
        await asyncio.sleep(0.1)


async def until_widths(cluster: LocalCluster, job_ids: list[int], width: int) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not all(job.state == "running" and job.devices == width for job in await cluster.jobs(job_ids)):
        assert time.monotonic() < end_s, f"jobs {job_ids} do not hold {width} devices"
        await asyncio.sleep(0.1)


def replayed(log_place: str) -> tuple[list[str], History, list[Command]]:
    """From the log alone: the policies that decided, who held what, and what exchanges themselves stopped."""
    log = Log(log_place, read_only=True)
    try:
        made_with = configuration_of(log)
        assert made_with is not None
        state, history = State(made_with), History()
        names, at_once = list[str](), list[Command]()
        for _, entry, commands in replay(log, state):
            history.note(entry.event, commands)
            if isinstance(entry.event, PolicyChanged):
                names.append(entry.note["policy"])
                at_once += [command for command in commands if isinstance(command, Stop | Resize)]
    finally:
        log.close()
    assert state.policy == names[-1]
    return names, history, at_once
