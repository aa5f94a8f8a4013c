"""The simulated cluster in order: which servers go and come back, and what a stretch of a lease did."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from gavelx.cluster import Cluster, Server
from gavelx.jobs import Job
from gavelx.measurements import Way
from gavelx.mechanism.commands import Device, Launch
from gavelx.mechanism.events import ArrivalsEnded, WorkerDrained, WorkerJoined, WorkerLost
from gavelx.simulator.backend import SimulatedCluster
from gavelx.simulator.capacity import Capacity
from gavelx.simulator.ledger import Ledger
from gavelx.simulator.runs import Run, Stretches
from gavelx.throughputs import Pairing, Setting, Throughputs
from tests.simulator.test_backend import a_pair, ends, lease


def changes(shares: Sequence[tuple[float, float]]) -> Iterator[tuple[float, str, int]]:
    """When which of four servers is drained, lost, or joins again."""
    cluster = Cluster.of({"v100": 4}, devices_per_server=1)
    speeds = Throughputs({Setting("net", "v100"): 1.0})
    jobs = [Job(0, "net", 1.0), Job(1, "net", 1.0, arrival_s=1e5)]
    backend = SimulatedCluster(jobs, cluster, speeds, capacities=[Capacity("v100", shares, notice_s=20.0)])
    for event in backend.events():
        if isinstance(event, ArrivalsEnded):
            return
        if isinstance(event, WorkerDrained):
            yield event.time_s, "drained", event.server_id
        elif isinstance(event, WorkerLost):
            yield event.time_s, "lost", event.server_id
        elif isinstance(event, WorkerJoined) and event.time_s > 0.0:
            yield event.time_s, "joins", event.server.id


def test_the_last_servers_go_and_those_come_back_that_are_next_to_the_ones_that_stayed() -> None:
    """So that the first ones are there whenever as many are."""
    assert list(changes([(100.0, 1.0), (100.0, 0.25), (100.0, 0.75), (100.0, 0.5), (1e9, 1.0)])) == [
        *((80.0, "drained", server_id) for server_id in (1, 2, 3)),
        *((100.0, "lost", server_id) for server_id in (1, 2, 3)),
        *((200.0, "joins", server_id) for server_id in (1, 2)),
        (280.0, "drained", 2),
        (300.0, "lost", 2),
        *((400.0, "joins", server_id) for server_id in (2, 3)),
    ]


def test_who_was_left_alone_on_a_device_says_for_how_long_it_ran_so() -> None:
    backend = a_pair()
    said: list[tuple[Way, float, float]] = []
    backend.ran = lambda way, steps_per_s, seconds: said.append((way, steps_per_s, seconds))
    ends(backend)
    assert said == [(Pairing("net", "net", "v100"), 1.0, 100.0), (Setting("net", "v100"), 2.0, 25.0)]


def test_a_gang_that_fills_as_few_servers_as_can_hold_it_runs_at_its_speed_in_one() -> None:
    wide = {Setting("net", "v100", 4): 4.0, Setting("net", "v100", 4, consolidated=False): 1.0}
    backend = SimulatedCluster(
        [Job(0, "net", 100.0, scale_factor=4)], Cluster.of({"v100": 4}, 2), Throughputs(wide)
    )
    devices = [Device(server_id, slot) for server_id in (0, 1) for slot in (0, 1)]
    for event in backend.events():
        if isinstance(event, ArrivalsEnded):
            break
    backend.execute(Launch(lease(1, 0, *devices, steps=100.0)))
    assert [event.time_s for event in ends(backend)] == [25.0]


def test_devices_of_a_server_that_joins_or_goes_after_the_run_are_not_missing_from_it() -> None:
    ledger = Ledger()
    ledger.joined(Server(0, "v100", 2))
    ledger.joined(Server(1, "v100", 4), 80.0)
    ledger.lost(0, 100.0)
    assert [ledger.available_s("v100", end_s) for end_s in (50.0, 100.0, 110.0)] == [100.0, 280.0, 320.0]


@pytest.mark.parametrize("turn_s", [100.0, 599.0, 700.0, 1300.0])
def test_checkpoints_keep_their_rhythm_when_a_new_stretch_begins(turn_s: float) -> None:
    """One every 600 s since the lease began: what all leases report at once is what each would say alone."""
    run = Run(
        lease=lease(1, 0),
        job=Job(0, "net", 1e6),
        start_s=0.0,
        begin_s=20.0,
        from_s=20.0,
        from_steps=5.0,
        until_step=1e6,
        steps_per_s=2.0,
        saved_steps=5.0,
        checkpoint_every_s=600.0,
    )
    run.turn(turn_s)
    stretches = Stretches()
    stretches.put(run)
    for time_s in np.arange(turn_s + 1.0, 3000.0, 50.0).tolist():
        report = stretches.progress(time_s)
        assert report.steps_done_L.tolist() == [run.steps_at(time_s)]
        assert report.saved_steps_L.tolist() == [run.saved_at(time_s)]
        written = math.floor((time_s - 20.0) / 600.0)
        assert run.saved_at(time_s) == 5.0 + written * 600.0 * 2.0
