"""Gangs on devices of several types: each process is told the parts of every rank; they are replayed, and paid."""

import pytest

from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT
from gavelx.mechanism.events import JobCancelled, JobSubmitted, LeaseEnded, PolicyChanged
from gavelx.mixes import setting_of
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.session import Stream
from gavelx.service.state.leases import LeaseRecord
from gavelx.service.state.state import State
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.records import Entry, entry_of, record_of
from gavelx.throughputs import Setting, Throughputs
from gavelx.worker.sizes import words_of
from tests.service.agents import PATIENT
from tests.service.desk import Desk
from tests.service.running import run

FASTER = {"v100": 2.0, "k80": 1.0}
TABLE = Throughputs({Setting("net", name, n): each * n for name, each in FASTER.items() for n in (1, 2, 3)})


class Mixed(Desk):
    """A server with two k80s, and one with a v100, at a dollar and two a second."""

    policy = "elastic(max_min_fairness)"
    timing = PATIENT
    made_with = Configuration(TABLE, Prices({"v100": 7200.0, "k80": 3600.0}), DEFAULT.with_round(60.0))

    async def begin(self, **spec: object) -> list[wire.Launch]:
        """A job in twelve parts is launched; what the two agents are told."""
        self._apply([Entry(PolicyChanged(0.0, load_policy(self.policy).opens), {"policy": self.policy})])
        streams = [(await self.agent(name, n, accelerator=name))[1] for name, n in (("k80", 2), ("v100", 1))]
        job = Job(0, "net", 1e6, elastic=Elastic.of("workers:1-3/12/mixed"))
        self._apply([Entry(JobSubmitted(0.0, job), {"command": ["true"], **spec})])
        self.wake()
        self.here.tick()
        self.settle()
        return [launch for stream in streams for launch in launches(stream)]

    def lease(self) -> LeaseRecord:
        (run_,) = self.state.runs.values()
        return run_


def launches(stream: Stream) -> list[wire.Launch]:
    queued = [stream._queue.get_nowait() for _ in range(stream._queue.qsize())]
    return [message.launch for message in queued if message is not None and message.HasField("launch")]


@pytest.mark.parametrize(("one_each", "parts"), [(False, [3, 3, 6]), (True, [6, 6])])
def test_each_rank_has_as_many_parts_as_its_device_is_fast(one_each: bool, parts: list[int]) -> None:
    """With one process for each server it has the parts of all devices there."""

    async def main() -> None:
        desk = Mixed()
        slow, fast = await desk.begin(one_process_per_server=one_each)
        assert desk.lease().lease.configuration.types == "k80+v100"
        assert (slow.first_rank, fast.first_rank) == (0, len(parts) - 1)
        assert slow.steps_per_s == fast.steps_per_s == pytest.approx(4.0)
        if one_each:
            assert list(desk.lease().parts_of_rank) == parts
            return
        for launch in (slow, fast):
            assert list(launch.size.parts_of_rank) == parts
            assert words_of(launch)["parts_of_rank"] == parts

    run(main())


def test_the_log_leads_to_the_same_gang() -> None:
    async def main() -> None:
        desk = Mixed()
        await desk.begin()
        again = State(desk.made_with)
        for number, entry in enumerate(desk.log):
            again.apply(entry_of(record_of(number + 1, entry)))
        (replayed,) = again.runs.values()
        assert replayed.lease == desk.lease().lease
        assert replayed.parts_of_rank == desk.lease().parts_of_rank == (3, 3, 6)
        assert again.way_of(replayed) == setting_of(again.jobs[0].job, (("v100", 1), ("k80", 2)))

    run(main())


def test_each_device_is_paid_at_the_price_of_its_type_also_after_the_end() -> None:
    """Four dollars a second for all three, ten seconds long, and for two more until the job has stopped."""

    async def main() -> None:
        desk = Mixed()
        await desk.begin()
        lease_id = desk.lease().lease.id
        desk.state.apply(Entry(JobCancelled(10.0, 0)))
        assert desk.state.jobs[0].spent_usd == pytest.approx(40.0)
        desk.state.apply(Entry(LeaseEnded(12.0, lease_id, 0, 5.0, 12.0)))
        assert desk.state.jobs[0].spent_usd == pytest.approx(48.0)

    run(main())
