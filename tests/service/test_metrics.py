"""The figures for Prometheus are served, and right."""

import asyncio
import itertools
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gavelx.rpc import wire_pb2 as wire
from gavelx.service.loop.metrics import Metrics
from tests.clocks import Clock
from tests.service.agents import PATIENT, FakeAgent, configuration, serving, spec, user_of
from tests.service.running import run
from tests.waiting import PATIENCE_S, until


async def figures(address: str) -> dict[str, float]:
    """All samples; labels follow the name."""

    def read() -> str:
        with urlopen(f"http://{address}/metrics", timeout=PATIENCE_S) as reply:
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


async def until_they_are(address: str, **wanted: float) -> dict[str, float]:
    found = dict[str, float]()

    async def there() -> bool:
        found.update(await figures(address))
        return all(found[name] == value for name, value in wanted.items())

    await until(there, f"the figures are {wanted}", lambda: {name: found[name] for name in wanted})
    return found


@pytest.mark.slow
def test_prometheus_is_told_how_many_are_how_and_how_long_things_take(tmp_path: Path, clock: Clock) -> None:
    async def main() -> None:
        made_with: dict[str, Any] = {"configuration": configuration(round_s=0.5), "metrics": "127.0.0.1:0"}
        async with serving(tmp_path, **made_with) as service, user_of(service) as user:
            where = service.metrics_address
            async with FakeAgent(service.address, devices=2):
                done, *_ = await user.submit(spec(), *(spec(1e9) for _ in range(3)))
                await user.call("Cancel", wire.CancelRequest(version=1, job_id=done + 1))
                await user.until("complete", done)
                jobs = {"jobs_complete": 1, "jobs_cancelled": 1, "jobs_running": 2, "jobs_waiting": 0}
                here = {"servers_here": 1, "servers_silent": 0, "devices": 2, "devices_leased": 2}
                found = await until_they_are(where, **jobs, **here)
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
            await until_they_are(where, servers_here=0, servers_silent=1)
            await clock.turn(PATIENT.valid_for_s + PATIENT.surely_over_s)
            await until_they_are(where, servers_silent=0, devices=0, jobs_running=0, jobs_waiting=2)

    run(main())


def test_figures_are_read_between_two_observations() -> None:
    """Each is longer than all before it, so sum, count and maximum follow from one another."""
    metrics, over = Metrics(), threading.Event()

    def observe() -> None:
        for n in itertools.count(1):
            metrics.heartbeat.observe(float(n))
            if over.is_set():
                return

    observing, before_s = threading.Thread(target=observe), sys.getswitchinterval()
    observing.start()
    try:
        sys.setswitchinterval(1e-6)
        for _ in range(100):
            families = metrics.registry.collect()
            found = {sample.name: sample.value for family in families for sample in family.samples}
            n = found["gavelx_heartbeat_seconds_count"]
            assert found["gavelx_heartbeat_max_seconds"] == n
            assert found["gavelx_heartbeat_seconds_sum"] == n * (n + 1) / 2
    finally:
        sys.setswitchinterval(before_s)
        over.set()
        observing.join()


def test_a_loop_that_stood_still_is_noticed() -> None:
    async def main() -> None:
        metrics = Metrics()
        pulse = asyncio.create_task(metrics.feel_the_pulse())
        late_s = lambda: metrics.loop_late.longest_s  # noqa: E731
        await until(lambda: late_s() > 0.0, "the pulse is felt")
        time.sleep(0.3)  # what nobody should do
        await until(lambda: late_s() > 0.2, "it is noticed", late_s)
        pulse.cancel()

    run(main())
