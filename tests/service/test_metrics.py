"""The figures for Prometheus are served, and right."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from gavelx.rpc import wire_pb2 as wire
from gavelx.service.metrics import Metrics
from tests.service.agents import FakeAgent, configuration, serving, spec, user_of
from tests.service.running import run


async def figures(address: str) -> dict[str, float]:
    """All samples; labels follow the name."""

    def read() -> str:
        with urlopen(f"http://{address}/metrics", timeout=10) as reply:
            text: str = reply.read().decode()
            return text

    samples: dict[str, float] = {}
    for family in text_string_to_metric_families(await asyncio.to_thread(read)):
        assert family.name.startswith("gavelx_")
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            samples[sample.name.removeprefix("gavelx_") + (f"[{labels}]" if labels else "")] = sample.value
    return samples


async def until(address: str, **wanted: float) -> dict[str, float]:
    while True:
        found = await figures(address)
        if all(found[name] == value for name, value in wanted.items()):
            return found
        await asyncio.sleep(0.1)


def test_prometheus_is_told_how_many_are_how_and_how_long_things_take(tmp_path: Path) -> None:
    async def main() -> None:
        made_with: dict[str, Any] = {"configuration": configuration(round_s=0.5), "metrics": "127.0.0.1:0"}
        async with serving(tmp_path, **made_with) as service, user_of(service) as user:
            where = service.metrics_address
            async with FakeAgent(service.address, devices=2):
                done, *_ = await user.submit(spec(), *(spec(1e9) for _ in range(3)))
                await user.call("Cancel", wire.CancelRequest(version=1, job_id=done + 1))
                await user.until("complete", done)
                here = {"jobs_complete": 1, "jobs_cancelled": 1, "jobs_running": 2, "jobs_waiting": 0}
                found = await until(where, servers_here=1, servers_silent=0, devices=2, devices_leased=2, **here)
                assert found["calls_total[code=OK,method=Submit]"] == 1
                assert found["log_sequence"] >= 7
                assert found["log_failing"] == found["log_failures"] == found["solver_failures"] == 0
                assert found["solver_answers"] > 0 < found["solver_seconds"]
                assert found["rounds"] > 0
                for name in ("heartbeat", "log_append", "apply", "plan", "round_late", "loop_late"):
                    count, most = found[f"{name}_seconds_count"], found[f"{name}_max_seconds"]
                    assert count > 0
                    assert 0 < most <= found[f"{name}_seconds_sum"] <= most * count * (1 + 1e-9)
                    assert found[f"{name}_seconds_bucket[le=+Inf]"] == count
            await until(where, servers_here=0, servers_silent=1)
            await until(where, servers_silent=0, devices=0, jobs_running=0, jobs_waiting=2)

    run(main())


def test_a_loop_that_stood_still_is_noticed() -> None:
    async def main() -> None:
        import time

        metrics = Metrics()
        pulse = asyncio.create_task(metrics.feel_the_pulse())
        await asyncio.sleep(0.12)
        time.sleep(0.3)  # what nobody should do
        await asyncio.sleep(0.06)
        pulse.cancel()
        assert metrics.loop_late.longest_s > 0.2

    run(main())
