"""Speeds that data sheets say of jobs on a cluster: of types of the table on new devices, and of today's jobs."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from gavelx.estimated_speeds import with_estimates
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT
from gavelx.prices import Prices
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.state.foretelling import foretold, plain
from gavelx.service.store.configuration import Configuration
from gavelx.throughputs import Setting
from tests.service.agents import PATIENT, FakeAgent, serving, user_of
from tests.service.running import run
from tests.waiting import until

TABLE = load_throughputs("simulation")
NEVER_MEASURED = replace(PATIENT, measured_s=1e9, measured_again_s=1e9)
"""However long the leases of a busy machine last, what is gone by are the estimates."""
LLAMA, RESNET = "llama-7b-lora-bs16", "ResNet-50 (batch size 32)"


def of_type(job_type: str, workers: int = 1) -> wire.JobSpec:
    return wire.JobSpec(job_type=job_type, workers=workers, command=["true"])


def test_a_cluster_begins_with_the_estimates_of_compare(tmp_path: Path) -> None:
    """Those of a submission, those of a server that comes later, and the log says them again."""

    async def main() -> None:
        made = Configuration(TABLE, Prices({}), DEFAULT.with_round(1.0))
        async with serving(tmp_path, configuration=made, timing=NEVER_MEASURED) as service:
            state = service.scheduler.state
            async with user_of(service) as user, FakeAgent(service.address, "one", accelerator="h100"):
                await until(lambda: state.machines, "a server is there")
                ids = await user.submit(of_type(LLAMA), of_type(RESNET))
                llama = state.jobs[ids[0]].job.job_type
                jobs = [Job(0, LLAMA, 1.0), Job(1, RESNET, 1.0)]
                said = with_estimates(TABLE, jobs, ["h100", "a100"])
                assert plain(llama) == LLAMA != llama
                for name, kind in ((LLAMA, llama), (RESNET, RESNET)):
                    here = Setting(kind, "h100")
                    assert state.speeds[here] == pytest.approx(said.isolated[Setting(name, "h100")], rel=1e-6)
                    assert state.untold.ranges[here] == pytest.approx(said.ranges[Setting(name, "h100")], rel=1e-4)
                async with FakeAgent(service.address, "two", accelerator="a100"):
                    await until(lambda: len(state.machines) == 2, "another server is there")
                    there = Setting(llama, "a100")
                    assert state.speeds[there] == pytest.approx(said.isolated[Setting(LLAMA, "a100")], rel=1e-6)
            speeds, ranges = dict(state.speeds), dict(state.untold.ranges)
        async with serving(tmp_path, configuration=made) as service:
            assert (service.scheduler.state.speeds, service.scheduler.state.untold.ranges) == (speeds, ranges)

    run(main())


def test_nothing_is_foretold_of_names_that_say_nothing() -> None:
    kinds = [("train.py~1a2b3c4d", 1), ("llama-7b-lorra-bs16", 1), ("A3C", 1)]
    assert run_now(foretold(kinds, ["v100", "cpu"], TABLE)) == []
    rows = run_now(foretold([("A3C", 1), (f"{LLAMA}~1a2b3c4d", 1)], ["v100", "l4"], TABLE))
    assert {tuple(row[:3]) for row in rows} == {("A3C", 1, "l4")} | {
        (f"{LLAMA}~1a2b3c4d", 1, name) for name in ("v100", "l4")
    }
    assert all(low <= middle <= high for *_, middle, low, high in rows)


def run_now(coroutine):  # type: ignore[no-untyped-def]
    return asyncio.run(coroutine)
