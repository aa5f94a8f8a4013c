"""A size that leases measure slower than was thought is left while the job runs, and the log keeps that."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from gavelx.elastic import Elastic
from gavelx.estimator.online import ENOUGH
from gavelx.jobs import Job
from gavelx.measurements import Measurement
from gavelx.mechanism.events import JobSubmitted, PolicyChanged, WorkerLost
from gavelx.mechanism.rules import DEFAULT
from gavelx.overheads import Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.state.leases import LeaseRecord
from gavelx.service.state.state import State
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.records import Entry, Measured, entry_of, record_of
from gavelx.throughputs import Setting, Throughputs
from tests.service.agents import PATIENT
from tests.service.desk import Desk
from tests.service.running import run

SPEC = {"command": ["true"]}
LIVE = replace(DEFAULT.with_round(60.0), overheads=Overheads(Overhead(resize_s=0.0)))


class Elastically(Desk):
    """One agent with eight devices, and one job that may have any number of them."""

    policy = "elastic(easyscale)"
    timing = PATIENT

    def __init__(self, widths: Iterable[int]) -> None:
        even = Throughputs({Setting("net", "v100", n): float(n) for n in widths})
        self.made_with = Configuration(even, Prices({"v100": 1.0}), LIVE)
        super().__init__()

    async def begin(self) -> None:
        self.session, self.stream = await self.agent("one", 8)
        opens = load_policy(self.policy).opens
        self._apply([Entry(PolicyChanged(0.0, opens), {"policy": self.policy})])
        job = Job(0, "net", 1e6, elastic=Elastic.of("workers:1-8/840"))
        self._apply([Entry(JobSubmitted(0.0, job), SPEC)])
        self.wake()
        self.here.tick()
        self.settle()

    def leases(self) -> list[LeaseRecord]:
        return list(self.state.runs.on(self.session.server_id).values())

    def passes(self, seconds: float) -> None:
        self.now_s += seconds
        self.wake()

    def measured(self, devices: int, steps_per_s: float) -> None:
        """A lease has run for long enough, as often as is needed to believe it."""
        way = Setting("net", "v100", devices)
        found = Measurement(way, steps_per_s, seconds=600.0, source="lease")
        for _ in range(ENOUGH):
            self._apply([Entry(Measured(self.now_s, found))])
            self.passes(60.0)

    def runs(self) -> None:
        """The job says that it can be resized in the lease that it has, or has gone over to."""
        *_, lease = self.leases()
        report = wire.LeaseReport(lease_id=lease.lease.id, job_id=0, steps_done=10.0, held_s=5.0, sizes=1)
        if lease.lease.continues is not None:
            report.sizes, report.handover.before_id = lease.generation + 1, lease.lease.continues
        beat = wire.FromAgent(heartbeat=wire.Heartbeat(sent_s=2.0 + self.now_s, leases=[report]))
        self.here.receive(self.session, self.stream, beat)
        self.settle()

    def again(self) -> State:
        """What the log says, read as from disk."""
        state = State(self.made_with)
        for n, entry in enumerate(self.log, 1):
            state.apply(entry_of(record_of(n, entry)))
        return state


@pytest.mark.parametrize(
    ("widths", "steps_per_s", "back"),
    [
        (range(1, 9), 3.0, 7),  # slower than the size below, of which nothing else is known yet
        ((1, 2, 4, 8), 5.0, 4),  # faster, but it wastes more than 30 % of its devices
    ],
)
def test_a_size_that_disappoints_is_rolled_back_while_the_job_runs(
    widths: Iterable[int], steps_per_s: float, back: int
) -> None:
    async def main() -> None:
        desk = Elastically(widths)
        await desk.begin()
        (first,) = desk.leases()
        assert len(first.lease.devices) == 8
        desk.runs()
        desk.passes(600.0)
        assert desk.leases() == [first], "as long as it keeps what it promised"
        desk.measured(8, steps_per_s)
        assert first.continued_by is not None
        second = desk.state.runs[first.continued_by]
        assert second.lease.continues == first.lease.id, "it goes over while it runs"
        assert len(second.lease.devices) == back
        again = desk.again()
        assert again.runs[second.lease.id] == second
        assert again.allocation is not None and desk.state.allocation is not None
        memory = again.allocation.memory
        assert memory["devices"].tolist() == [8], "the log keeps what is barred"
        assert memory["until_s"].tolist() == desk.state.allocation.memory["until_s"].tolist()

    run(main())


def test_what_is_left_of_a_job_whose_next_servers_are_lost_is_told_to_stop() -> None:
    """It had three devices on two servers and was to go over to the two of one of them, which was lost."""

    async def main() -> None:
        desk = Elastically(range(1, 4))
        desk.session, desk.stream = await desk.agent("one", 1)
        two, stream = await desk.agent("two", 2)
        desk._apply([Entry(PolicyChanged(0.0, load_policy(desk.policy).opens), {"policy": desk.policy})])
        desk._apply([Entry(JobSubmitted(0.0, Job(0, "net", 1e6, elastic=Elastic.of("workers:1-3"))), SPEC)])
        desk.wake()
        (first,) = desk.leases()
        assert len(first.lease.devices) == 3
        report = wire.LeaseReport(lease_id=first.lease.id, job_id=0, steps_done=10.0, held_s=5.0, sizes=1)
        beat = wire.FromAgent(heartbeat=wire.Heartbeat(sent_s=2.0, leases=[report]))
        for session, way in ((desk.session, desk.stream), (two, stream)):
            desk.here.receive(session, way, beat)
        desk.settle()
        desk._apply([Entry(JobSubmitted(desk.now_s, Job(1, "net", 1e6)), SPEC)])
        desk.passes(60.0)
        assert first.continued_by is not None
        second = desk.state.runs[first.continued_by]
        assert {device.server_id for device in second.lease.devices} == {two.server_id}
        desk._apply([Entry(WorkerLost(desk.now_s, two.server_id, 0))])
        said = [desk.stream._queue.get_nowait() for _ in range(desk.stream._queue.qsize())]
        assert [one.stop.lease_id for one in said if one and one.HasField("stop")] == [first.lease.id]

    run(main())
