"""What the state makes of entries, beyond what the mechanism does."""

from dataclasses import replace

import numpy as np
import pytest

from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.measurements import Measurement, Way
from gavelx.mechanism import DEFAULT
from gavelx.mechanism.commands import Resize, Stop
from gavelx.mechanism.events import (
    JobCancelled,
    JobSubmitted,
    LeaseEnded,
    PolicyChanged,
    Progress,
    ServerOffers,
    WorkerDrained,
    WorkerLost,
)
from gavelx.mixes import setting_of, speed_on
from gavelx.overheads import Overhead, Overheads
from gavelx.prices import Prices
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.session import Stream
from gavelx.service.state.plain import from_plain, to_plain
from gavelx.service.state.state import State
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.records import Entry, Measured, Started
from gavelx.throughputs import Pairing, Setting, Throughputs
from tests.service.agents import configuration
from tests.service.desk import Desk
from tests.service.running import run


def test_a_job_that_was_complete_when_it_had_to_stop_needs_no_other_lease() -> None:
    """It was asked to stop, came to its end in the grace time, and had been given devices elsewhere meanwhile."""

    async def main() -> None:
        desk = Desk()
        await desk.agent("one", 1)
        desk.submit(1e6)
        desk.wake()
        (first,) = desk.state.runs
        machine = desk.state.machines[0]
        desk.state.apply(Entry(LeaseEnded(0.0, 999, 0, 0.0, 0.0)))  # of a lease that nobody knows
        other, _ = await desk.agent("two", 1)
        desk._apply([Entry(WorkerLost(desk.now_s, machine.server.id, machine.epoch))])
        desk.wake()
        (second,) = desk.state.runs
        assert second > first and desk.state.runs[second].parts[0].server_id == other.server_id
        commands = desk.state.apply(Entry(LeaseEnded(1.0, first, 0, 1e6, 5.0, complete=True)))
        assert Stop(second) in commands
        known = desk.state.jobs[0]
        assert (known.ended, known.steps_done, desk.state.ended["complete"]) == ("complete", 1e6, 1)

    run(main())


def test_a_gang_is_over_when_its_last_server_is_lost() -> None:
    async def main() -> None:
        desk = Desk()
        one, _ = await desk.agent("one", 1)
        two, stream = await desk.agent("two", 1)
        desk.submit_gang(2, 1e6)
        desk.wake()
        (run_,) = desk.state.runs.values()
        assert [part.server_id for part in run_.parts] == [one.server_id, two.server_id]
        desk._apply([Entry(WorkerLost(desk.now_s, one.server_id, 0))])
        assert run_.stopping and desk.state.runs  # the other part has yet to say its last word
        lease_id = run_.lease.id
        ended = wire.Ended(report_id="r", lease_id=lease_id, job_id=0, steps_done=7.0, held_s=2.0)
        desk.here.receive(two, stream, wire.FromAgent(ended=ended))
        desk.settle()
        assert not desk.state.runs

    run(main())


@pytest.mark.parametrize(
    ("warm_s", "took_s", "held_s"),
    [(0.0, 0.0, 10.0), (3.0, 0.0, 7.0), (9.0, 0.0, 4.0), (0.0, 2.0, 8.0), (3.0, 2.0, 7.0), (0.0, 9.0, 4.0)],
)
def test_a_lease_is_paid_for_until_its_last_part_ends_but_for_what_was_before_it(
    warm_s: float, took_s: float, held_s: float
) -> None:
    """Rank 0's server held its devices for 4 s, the other for 10 s; the job went over in between.

    The other may have had them a moment before, and its job on the lease before, which is paid for until then.
    """

    async def main() -> None:
        desk = Desk()
        agents = [await desk.agent(name, 1) for name in ("one", "two")]
        desk.submit_gang(2, 1e6)
        desk.wake()
        (run_,) = desk.state.runs.values()
        run_.warm_s, desk.here.tracked[run_.lease.id].took_s = warm_s, took_s
        for (session, stream), seconds in zip(agents, (4.0, 10.0), strict=True):
            ended = wire.Ended(report_id="r", lease_id=run_.lease.id, job_id=0, steps_done=7.0, held_s=seconds)
            desk.here.receive(session, stream, wire.FromAgent(ended=ended))
            desk.settle()
        (event,) = [entry.event for entry in desk.log if isinstance(entry.event, LeaseEnded)]
        assert event.held_s == held_s

    run(main())


def test_a_job_that_is_cancelled_while_it_is_resized_pays_for_its_old_devices_until_they_are_free() -> None:
    """A dollar a second for a device. It has two from the beginning, and one is to be given back from 10 s on."""
    rules = replace(DEFAULT, overheads=Overheads(Overhead(resize_s=1.0)))

    class Elastics(Desk):
        policy, made_with = "elastic(max_min_fairness)", configuration(rules)

    async def main() -> None:
        desk = Elastics()
        desk._apply([Entry(PolicyChanged(0.0, frozenset({"sizes"})), {"policy": desk.policy})])
        session, _ = await desk.agent("one", 2)
        job = Job(0, "net", 1e6, 2, elastic=Elastic.of("workers:1-2"))
        desk._apply([Entry(JobSubmitted(0.0, job), {"command": ["true"]})])
        desk.wake()
        (before,) = desk.state.runs
        (resize,) = desk.state.apply(Entry(ServerOffers(10.0, session.server_id, 1)))[:1]
        assert isinstance(resize, Resize) and resize.lease.continues == before
        desk.state.apply(Entry(JobCancelled(14.0, 0)))
        assert desk.state.jobs[0].spent_usd == pytest.approx(2 * 14.0)
        desk.state.apply(Entry(LeaseEnded(17.0, before, 0, 0.0, 16.0)))
        desk.state.apply(Entry(LeaseEnded(17.0, resize.lease.id, 0, 0.0, 0.0)))
        known = desk.state.jobs[0]
        assert (known.spent_usd, known.received_s) == (pytest.approx(2 * 16.0), pytest.approx(16.0))

    run(main())


def launched(stream: Stream) -> list[int]:
    """Leases of the launches that are on their way, and nothing else stays on it."""
    messages = [stream._queue.get_nowait() for _ in range(stream._queue.qsize())]
    return [message.launch.lease_id for message in messages if message and message.HasField("launch")]


def test_a_launch_waits_for_the_lease_before_it_and_not_for_a_heartbeat() -> None:
    """Two jobs take turns on one device: the second is told of as soon as the first has ended."""

    async def main() -> None:
        desk = Desk()
        session, stream = await desk.agent("one", 1)
        desk.submit(1e6, 1e6)
        desk.wake()
        (first,) = launched(stream)
        while len(desk.state.runs) < 2:
            desk.now_s += 1.0
            desk.wake()
        second = max(desk.state.runs)
        assert launched(stream) == []
        ended = wire.Ended(report_id="r", lease_id=first, job_id=desk.state.runs[first].lease.job_id, held_s=1.0)
        desk.here.receive(session, stream, wire.FromAgent(ended=ended))
        assert launched(stream) == []  # it is not on disk yet
        desk.settle()
        assert launched(stream) == [second]

    run(main())


def test_a_launch_goes_when_what_it_waited_for_went_with_its_server() -> None:
    async def main() -> None:
        desk = Desk()
        one, _ = await desk.agent("one", 1)
        desk.submit(1e6)
        desk.wake()
        (first,) = desk.state.runs
        _, stream = await desk.agent("two", 1)
        desk._apply([Entry(WorkerDrained(desk.now_s, one.server_id, 0))])
        desk.wake()
        (second,) = set(desk.state.runs) - {first}
        assert desk.state.runs[first].stopping
        assert launched(stream) == []
        desk._apply([Entry(WorkerLost(desk.now_s, one.server_id, 0))])
        assert launched(stream) == [second]

    run(main())


def test_a_job_that_moves_goes_on_from_the_last_word_on_its_last_lease() -> None:
    """Its devices elsewhere were given out before it said how far it came."""

    async def main() -> None:
        desk = Desk()
        one, first = await desk.agent("one", 1)
        desk.submit(1e6)
        desk.wake()
        _, second = await desk.agent("two", 1)
        desk._apply([Entry(WorkerDrained(desk.now_s, one.server_id, 0))])
        desk.wake()
        lease_id, later = desk.state.runs
        ended = wire.Ended(report_id="r", lease_id=lease_id, job_id=0, steps_done=40.0, held_s=2.0)
        desk.here.receive(one, first, wire.FromAgent(ended=ended))
        desk.settle()
        second._queue.put_nowait(None)
        launches = [m.launch async for m in second.messages() if m.HasField("launch")]
        assert [(launch.lease_id, launch.saved_steps) for launch in launches] == [(later, 40.0)]

    run(main())


def test_the_bill_of_a_job_goes_on_until_its_devices_are_back() -> None:
    """Cancelled after 10 s and asked to stop, its processes end 4 s later."""

    async def main() -> None:
        desk = Desk()
        await desk.agent("one", 1)
        desk.submit(1e6)
        desk.wake()
        (lease_id,) = desk.state.runs
        begin_s, desk.now_s = desk.now_s, desk.now_s + 10.0
        desk._apply([Entry(JobCancelled(desk.now_s, 0), {"reason": "cancelled"})])
        known = desk.state.jobs[0]
        assert (known.ended, known.spent_usd) == ("cancelled", pytest.approx(desk.now_s - begin_s))
        desk.now_s += 5.0
        desk.wake()
        desk._apply([Entry(LeaseEnded(desk.now_s, lease_id, 0, 700.0, 14.0))])
        assert (known.spent_usd, known.received_s, known.steps_done) == (pytest.approx(14.0), 14.0, 700.0)
        assert not desk.state.runs

    run(main())


def test_a_cancelled_job_has_done_what_it_saved() -> None:
    """It did 13 steps and saved 10, was cancelled, and failed before it saw that."""

    async def main() -> None:
        desk = Desk()
        await desk.agent("one", 1)
        desk.submit(1e6)
        desk.wake()
        (lease_id,) = desk.state.runs
        steps = (np.array([lease_id]), np.array([0]), np.array([13.0]), np.array([10.0]))
        desk._apply([Entry(Progress(desk.now_s, *steps))])
        desk._apply([Entry(JobCancelled(desk.now_s, 0), {"reason": "cancelled"})])
        desk._apply([Entry(LeaseEnded(desk.now_s, lease_id, 0, 10.0, 1.0, failed=True))])
        assert desk.state.jobs[0].steps_done == 10.0

    run(main())


def test_a_lease_that_was_given_out_in_vain_costs_nothing() -> None:
    """It was complete when it had to stop; the devices that it had been given next were never used."""

    async def main() -> None:
        desk = Desk()
        one, stream = await desk.agent("one", 1)
        desk.submit(1e6)
        desk.wake()
        (first,) = desk.state.runs
        await desk.agent("two", 1)
        desk._apply([Entry(WorkerDrained(desk.now_s, one.server_id, 0))])
        desk.wake()
        assert len(desk.state.runs) == 2
        desk.now_s += 3.0
        ended = wire.Ended(report_id="r", lease_id=first, job_id=0, steps_done=1e6, held_s=2.0, complete=True)
        desk.here.receive(one, stream, wire.FromAgent(ended=ended))
        desk.settle()
        assert not desk.state.runs
        assert desk.state.jobs[0].spent_usd == pytest.approx(2.0)

    run(main())


def test_leases_of_services_before_are_remembered_for_as_long_as_they_may_run() -> None:
    state = State(configuration())
    for time_s, valid_for_s in ((0.0, 60.0), (100.0, 10.0)):
        state.apply(Entry(Started(time_s, "boot", time_s, valid_for_s)))
    assert state.leased_for_s == 60.0  # the first one renewed until it was gone, at 100
    state.apply(Entry(Started(130.0, "boot", 130.0, 10.0)))
    assert state.leased_for_s == 30.0
    state.apply(Entry(Started(200.0, "boot", 200.0, 10.0)))
    assert state.leased_for_s == 10.0


def measured(state: State, way: Way, *speeds: float) -> None:
    for speed in speeds:
        state.apply(Entry(Measured(1.0, Measurement(way, speed, 0.01, 60.0, "now", "a lease"))))


def test_measured_beats_table_alone_spread_and_beside_a_partner() -> None:
    together, spread = Setting("net", "v100", 2), Setting("net", "v100", 2, consolidated=False)
    pair = Pairing("net", "net", "v100")
    table = Throughputs({together: 10.0, spread: 4.0, Setting("net", "v100"): 8.0}, {pair: 6.0})
    state = State(Configuration(table, Prices({})))
    measured(state, together, 5.0, 5.1)
    assert state.speeds == dict(table.isolated)
    measured(state, together, 4.9)
    assert (state.speeds[together], state.speeds[spread]) == (5.0, 2.0)  # as much slower as it was said to be
    measured(state, spread, 3.0, 3.0, 3.0)
    measured(state, together, *[9.0] * 6)
    assert (state.speeds[together], state.speeds[spread]) == (9.0, 3.0)  # measured by itself
    measured(state, pair, 3.0, 3.0, 3.0)
    assert state.mechanism.throughputs.colocated[pair] == 3.0
    assert state.said == {**table.isolated, **table.colocated}
    assert set(state.online.wrong()) == {together, spread, pair}
    again = from_plain(to_plain(state), like=State(Configuration(table, Prices({}))))
    assert again.speeds == state.speeds and again.online.wrong() == state.online.wrong()


def test_leases_on_several_types_measure_the_speed_of_that_mix() -> None:
    """It replaces that of the plan, and says nothing of the types by themselves; a snapshot keeps it."""
    speeds = {Setting("net", name, n): 1.0 * n for name in ("v100", "k80") for n in (1, 2, 3)}
    job, mix = Job(0, "net", 1e6, elastic=Elastic.of("workers:1-3/12/mixed")), (("v100", 1), ("k80", 2))
    state = State(Configuration(Throughputs(speeds), Prices({})))
    way = setting_of(job, mix)
    assert speed_on(job, mix, 0, state.mechanism.throughputs) == pytest.approx(3.0)
    measured(state, way, 2.0, 2.1, 1.9)
    assert state.mixed == {way: 2.0} and state.speeds == speeds
    again = from_plain(to_plain(state), State(Configuration(Throughputs(speeds), Prices({}))))
    for each in (state, again):
        assert speed_on(job, mix, 0, each.mechanism.throughputs) == 2.0
        assert speed_on(job, mix[::-1], 0, each.mechanism.throughputs) == 2.0
        other = replace(job, elastic=Elastic.of("workers:1-3/6/mixed"))
        assert speed_on(other, mix, 0, each.mechanism.throughputs) == pytest.approx(3.0)
