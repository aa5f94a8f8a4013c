"""Together means the same to all: a lone gang is as fast as its policy believed, be placements open or not.

Servers of any sizes, gangs of any width, servers that are drained before the gang starts or while it runs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.cluster import Cluster, Server
from gavelx.files.throughput_tables import load_throughputs
from gavelx.jobs import Job
from gavelx.mechanism import Mechanism
from gavelx.mechanism.commands import Command
from gavelx.mechanism.events import Event, JobSubmitted, WorkerDrained
from gavelx.policies import load_policy
from gavelx.policies.catalog import ours
from gavelx.prices import Prices
from gavelx.result import Result
from gavelx.simulator import simulate
from gavelx.simulator.backend import SimulatedCluster
from gavelx.throughputs import Setting, Throughputs

TYPES = ("v100", "p100", "k80")
BELL = "bell"
"""An accelerator type that only the signalling job can use, so that the gang competes with no job."""
PRICES = Prices({"v100": 1.6, "p100": 1.35, "k80": 0.9, BELL: 0.1})
PLACEABLE = sorted(name for name, policy in ours().items() if "placements" in policy.uses)
MODIFIED = [f"{kind}({{}})" for kind in ("agnostic", "robust", "packed")]
WIDTHS = st.integers(1, 16)
SIZES = st.lists(st.sampled_from((1, 2, 3, 4, 8, 16)), max_size=5)
SPEEDS = st.floats(0.5, 20.0).map(lambda speed: round(speed, 3))
APART = st.sampled_from((None, 0.0, 0.2, 0.9, 1.0, 1.3))
"""How fast the gang is over several servers, as a part of its speed in few; None where that is unknown."""


@dataclass
class Draining:
    """A backend of which some servers are drained at once, and others while the gang runs."""

    backend: SimulatedCluster
    at_once: Sequence[int]
    later: Sequence[int]
    now_s: float = 0.0

    def events(self) -> Iterator[Event]:
        for event in self.backend.events():
            self.now_s = self.backend.now_s
            yield event
            if isinstance(event, JobSubmitted):
                self._drain(self.later if event.job.id else self.at_once)

    def _drain(self, server_ids: Sequence[int]) -> None:
        for server_id in server_ids:
            self.backend.bring_about(WorkerDrained(self.now_s, server_id, 0))

    def execute(self, command: Command) -> None:
        self.backend.execute(command)

    def post(self, event: Event) -> None:
        self.backend.post(event)


def clusters() -> st.SearchStrategy[Cluster]:
    def of(sizes: Sequence[Sequence[int]]) -> Cluster:
        devices = [(name, size) for name, held in zip(TYPES, sizes, strict=True) for size in held]
        return Cluster(tuple(Server(n, name, size) for n, (name, size) in enumerate(devices)), TYPES)

    return st.tuples(SIZES, SIZES, SIZES).map(of)


@st.composite
def tables(draw: st.DrawFn, width: int) -> Throughputs:
    """No two types are equally fast: which of them a policy takes then is a tie."""
    speeds = {Setting("signal", BELL): 1.0}
    for name, together in zip(TYPES, draw(st.lists(SPEEDS, min_size=3, max_size=3, unique=True)), strict=True):
        part = draw(APART)
        speeds[Setting("net", name, width)] = together
        if part is not None:
            speeds[Setting("net", name, width, consolidated=False)] = together * part
    return Throughputs(speeds)


def run(
    policy: str,
    gang: Job,
    cluster: Cluster,
    table: Throughputs,
    drained: tuple[set[int], set[int]] = (set(), set()),
) -> Result:
    """The gang alone; another job, over in a moment on a server of its own, says when more servers are drained."""
    alone = Cluster((*cluster.servers, Server(99, BELL, 1)), (*TYPES, BELL))

    def watch(mechanism: Mechanism, backend: SimulatedCluster) -> Draining:
        return Draining(backend, *map(sorted, drained))

    signal = Job(1, "signal", 0.001, arrival_s=1000.0)
    return simulate(load_policy(policy), [gang, signal], alone, table, PRICES, watch=watch)


@pytest.mark.slow
@settings(max_examples=150)
@given(data=st.data(), width=WIDTHS, cluster=clusters(), policy=st.sampled_from(PLACEABLE))
def test_a_lone_gang_is_as_fast_where_placements_are_open(
    data: st.DataObject, width: int, cluster: Cluster, policy: str
) -> None:
    gang, table = Job(0, "net", 20_000.0, scale_factor=width), data.draw(tables(width))
    ids = [server.id for server in cluster.servers]
    some = st.sets(st.sampled_from(ids)) if ids else st.just(set[int]())
    drained = data.draw(st.tuples(some, some))
    if (cluster.devices_A < width).all():
        return  # it can run nowhere
    policy = data.draw(st.sampled_from(["{}", *MODIFIED])).format(policy)
    plain, placed = (run(text, gang, cluster, table, drained) for text in (policy, f"placed({policy})"))
    assert placed.completion_s_J[0] == pytest.approx(plain.completion_s_J[0], rel=1e-9, nan_ok=True)
    assert placed.cost_usd_J[0] == pytest.approx(plain.cost_usd_J[0], rel=1e-9)


@settings(max_examples=60)
@given(data=st.data(), width=WIDTHS, cluster=clusters(), placed=st.booleans())
def test_a_lone_gang_is_as_fast_as_believed_on_the_fastest_type_that_can_hold_it(
    data: st.DataObject, width: int, cluster: Cluster, placed: bool
) -> None:
    table = data.draw(tables(width))
    room = [name for name, devices in zip(TYPES, cluster.devices_A.tolist(), strict=True) if devices >= width]
    fits = [table.isolated[Setting("net", name, width)] for name in room]
    if not fits:
        return
    policy = "placed(max_sum_throughput)" if placed else "max_sum_throughput"
    result = run(policy, Job(0, "net", 20_000.0, scale_factor=width), cluster, table)
    assert result.jct_s_J[0] == pytest.approx(20_000.0 / max(fits))


@pytest.mark.parametrize("policy", ["shared_cloud_cost_fairness", "finish_time_fairness", "max_min_fairness"])
@pytest.mark.parametrize("per_server", [4, 8])
def test_eight_devices_over_two_servers_cost_what_they_cost_in_one(policy: str, per_server: int) -> None:
    """A real table, where the spread gang is five times as slow on a V100: nobody may believe in that speed."""
    cluster = Cluster.of({"v100": 12, "p100": 12, "k80": 12}, per_server)
    gang, table = Job(0, "LM (batch size 80)", 1e6, scale_factor=8), load_throughputs("simulation")
    for text in (policy, f"placed({policy})"):
        result = simulate(load_policy(text), [gang], cluster, table, PRICES)
        assert result.cost_usd_J[0] == pytest.approx(15.38, abs=0.01)
