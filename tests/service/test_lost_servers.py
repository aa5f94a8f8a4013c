"""A server that is lost is charged until its leases had ended by themselves, however late a scheduler sees it."""

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from gavelx.mechanism.events import JobCancelled, WorkerDrained, WorkerLost
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.registry import AgentRegistry
from gavelx.service.api.server import Service
from gavelx.service.state.state import State
from gavelx.service.store.records import Alive, Entry, Started
from tests.clocks import Clock
from tests.service.agents import PATIENT, QUICK, FakeAgent, configuration, records_of, serving, spec, user_of
from tests.service.desk import Desk, Remembered
from tests.service.running import run
from tests.waiting import until

LONG = 1e6
LATER_S = 1000.0


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    """The registry goes by the time of the desk."""
    desk = object.__new__(Desk)
    desk.now_s = 0.0
    for room in ("registry", "completions"):
        time = SimpleNamespace(monotonic=lambda: desk.now_s)
        monkeypatch.setattr(f"gavelx.service.agents.{room}.time", time)
    return desk


async def with_a_job(desk: Desk, *names: str) -> None:
    """These servers of a device each, and a job on all of them; they were renewed at 10 s, and heard no more."""
    desk.__init__()  # type: ignore[misc]
    desk._apply([Entry(Started(0.0, "boot", 0.0, QUICK.valid_for_s))])
    here = [await desk.agent(name, 1) for name in names]
    desk.submit_gang(len(names), LONG)
    desk.wake()
    desk.now_s = 10.0
    for session, stream in here:
        desk.here.receive(session, stream, wire.FromAgent(heartbeat=wire.Heartbeat(sent_s=2.0)))
        desk.here.left(session, stream)


def serve_again(desk: Desk, now_s: float) -> None:
    """Another service begins, on what is in the log."""
    desk.now_s, desk.state = now_s, State(desk.made_with)
    for entry in desk.log:
        desk.state.apply(entry)
    desk.here = AgentRegistry(desk.state, QUICK, Remembered(desk.log), desk._post)
    desk._apply([Entry(Started(now_s, "boot", now_s, QUICK.valid_for_s))])


def lost(desk: Desk) -> list[WorkerLost]:
    desk.here.tick()
    desk.settle()
    return [entry.event for entry in desk.log if isinstance(entry.event, WorkerLost)]


def test_a_service_that_stood_still_knows_when_it_renewed_for_the_last_time(desk: Desk) -> None:
    async def main() -> None:
        await with_a_job(desk, "one")
        desk.now_s = LATER_S
        over_s = 10.0 + QUICK.valid_for_s + QUICK.surely_over_s
        assert [event.lapsed_s for event in lost(desk)] == [pytest.approx(over_s)]
        assert desk.state.mechanism.live.spent_usd.tolist() == pytest.approx([over_s])

    run(main())


@pytest.mark.parametrize("alive_s", [10.0, 10.4, 600.0])
def test_what_a_service_renewed_that_is_no_more_follows_from_when_it_was_alive(desk: Desk, alive_s: float) -> None:
    """The last thing in its log is that it was there."""

    async def main() -> None:
        await with_a_job(desk, "one")
        desk._apply([Entry(Alive(alive_s))])
        serve_again(desk, LATER_S)
        assert lost(desk) == []  # it may yet come
        desk.now_s += QUICK.valid_for_s + QUICK.surely_over_s + 0.1
        over_s = alive_s + 1.5 * QUICK.valid_for_s + QUICK.surely_over_s
        assert [event.lapsed_s for event in lost(desk)] == [pytest.approx(over_s)]
        assert desk.state.mechanism.live.spent_usd.tolist() == pytest.approx([over_s])

    run(main())


def test_a_job_that_was_cancelled_between_is_charged_no_longer_either(desk: Desk) -> None:
    async def main() -> None:
        await with_a_job(desk, "one")
        desk.now_s = LATER_S
        desk._apply([Entry(JobCancelled(LATER_S, 0), {"reason": "cancelled"})])
        assert desk.state.jobs[0].spent_usd == pytest.approx(LATER_S)
        (event,) = lost(desk)
        assert event.lapsed_s is not None
        assert desk.state.jobs[0].spent_usd == pytest.approx(event.lapsed_s)
        assert desk.state.jobs[0].received_s == pytest.approx(event.lapsed_s)

    run(main())


def test_a_lease_that_was_taken_back_between_is_charged_no_longer_either(desk: Desk) -> None:
    async def main() -> None:
        await with_a_job(desk, "one")
        desk.now_s = LATER_S
        desk._apply([Entry(WorkerDrained(LATER_S, 0, 0))])
        (event,) = lost(desk)
        assert desk.state.mechanism.live.spent_usd.tolist() == pytest.approx([event.over_s])

    run(main())


def test_of_a_gang_the_part_on_a_lost_server_was_held_until_it_had_ended_there(desk: Desk) -> None:
    """The other part says that it has ended as its lease was not renewed."""

    async def main() -> None:
        await with_a_job(desk, "one", "two")
        desk._apply([Entry(Alive(10.0))])
        serve_again(desk, LATER_S)
        (lease_id,) = desk.state.runs
        two, stream = await desk.agent("two", 1, wire.FromAgent(heartbeat=wire.Heartbeat(sent_s=3.0)))
        ended = wire.Ended(report_id="r", lease_id=lease_id, job_id=0, held_s=11.0, reason="not renewed")
        desk.here.receive(two, stream, wire.FromAgent(ended=ended))
        desk.now_s += QUICK.valid_for_s + QUICK.surely_over_s + 0.1
        desk.here.receive(two, stream, wire.FromAgent(heartbeat=wire.Heartbeat(sent_s=4.0)))
        (event,) = lost(desk)
        desk.settle()
        assert event.server_id == 0
        assert desk.state.mechanism.live.spent_usd.tolist() == pytest.approx([2 * event.over_s])

    run(main())


@pytest.mark.slow
def test_a_service_writes_down_that_it_is_there_while_leases_stand(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing else is written: the round is long, and no progress is logged."""
    monkeypatch.setattr("gavelx.service.loop.event_loop.REPORT_S", 1e9)
    monkeypatch.setattr("gavelx.service.loop.event_loop.IDLE_S", IDLE_S)

    async def main() -> None:
        made_with = configuration(round_s=36_000.0)
        async with serving(tmp_path, configuration=made_with) as service, user_of(service) as user:
            async with FakeAgent("", access=user.access) as agent:
                await clock.turn(2 * PATIENT.valid_for_s, agent)
                assert "Alive" not in kinds(service)
                await clock.turn(2 * IDLE_S, agent)
                await until(lambda: "Alive" in kinds(service), "it says so now and then while nothing runs")
                before = kinds(service).count("Alive")
                await user.submit(spec(LONG))
                await agent.until_going()
                began_s = service.scheduler.state.now_s
                for said in range(before, before + 6):
                    await clock.turn(PATIENT.valid_for_s / 2, agent)
                    await until(
                        lambda: kinds(service).count("Alive") > said,  # noqa: B023
                        "it says so each half a minute or so",
                    )
                times_s = [record.time_s for record in records_of(service) if record.time_s > began_s]
                assert max(later - earlier for earlier, later in pairwise(times_s)) < PATIENT.valid_for_s

    run(main())


IDLE_S = 4 * PATIENT.valid_for_s


def kinds(service: Service) -> list[str]:
    return [record.kind for record in records_of(service)]
