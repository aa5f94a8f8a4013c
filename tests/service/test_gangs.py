"""Gangs of which a part is lost, late, cut off or refused: no other part goes on, and what was held is paid."""

import pytest

from gavelx.mechanism.events import LeaseEnded, WorkerDrained, WorkerLost
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.part_states import PartState
from gavelx.service.agents.registry import AgentRegistry
from gavelx.service.agents.session import AgentSession, Stream
from gavelx.service.store.records import Entry
from tests.service.agents import QUICK
from tests.service.desk import Desk, Remembered
from tests.service.running import run

LONG = 1e6


def said(stream: Stream) -> list[wire.ToAgent]:
    """What an agent was told since we looked last."""
    queued = [stream._queue.get_nowait() for _ in range(stream._queue.qsize())]
    return [message for message in queued if message is not None]


def beat(desk: Desk, session: AgentSession, stream: Stream, sent_s: float, *leases: int) -> None:
    reports = [wire.LeaseReport(lease_id=i, job_id=0) for i in leases]
    desk.here.receive(session, stream, wire.FromAgent(heartbeat=wire.Heartbeat(sent_s=sent_s, leases=reports)))
    desk.settle()


async def gang(desk: Desk) -> tuple[int, list[tuple[AgentSession, Stream]]]:
    """Two servers, and a gang over both of them."""
    agents = [await desk.agent("one", 1), await desk.agent("two", 1)]
    desk.submit_gang(2, LONG)
    desk.wake()
    (lease_id,) = desk.state.runs
    return lease_id, agents


@pytest.mark.parametrize("restart", [False, True])
def test_a_part_that_was_not_there_to_hear_the_stop_is_stopped_when_it_is_back(*, restart: bool) -> None:
    """Its stream was broken when another part of its gang failed: it hears so on the next one."""

    async def main() -> None:
        desk = Desk()
        lease_id, [(one, a), (two, b)] = await gang(desk)
        beat(desk, one, a, 2.0, lease_id)
        beat(desk, two, b, 2.0, lease_id)
        if restart:
            desk.here = AgentRegistry(desk.state, QUICK, Remembered(desk.log), desk._post)
            one, a = await desk.agent("one", 1)
            two = desk.here.here[two.server_id]
        else:
            desk.here.left(two, b)
        ended = wire.Ended(report_id="r", lease_id=lease_id, job_id=0, held_s=1.0, failed=True)
        desk.here.receive(one, a, wire.FromAgent(ended=ended))
        desk.settle()
        assert lease_id in desk.state.runs
        two, b = await desk.agent("two", 1)
        for n in range(10):
            beat(desk, two, b, 3.0 + n, lease_id)
        assert lease_id not in [m.renewed for m in said(b) if m.HasField("renewed")][-1].lease_ids

    run(main())


def test_a_part_that_does_not_know_of_a_gang_that_has_ended_is_not_launched_again() -> None:
    """The stop found no stream, and the launch was lost."""

    async def main() -> None:
        desk = Desk()
        lease_id, [(one, a), (two, b)] = await gang(desk)
        beat(desk, one, a, 2.0, lease_id)
        desk.here.left(two, b)
        ended = wire.Ended(report_id="r", lease_id=lease_id, job_id=0, held_s=1.0)
        desk.here.receive(one, a, wire.FromAgent(ended=ended))
        desk.settle()
        two, b = await desk.agent("two", 1)
        for n in range(10):
            beat(desk, two, b, 3.0 + n)
        ends = [e.event for e in desk.log if isinstance(e.event, LeaseEnded)]
        assert not [m for m in said(b) if m.HasField("launch") and m.launch.lease_id == lease_id]
        assert [e.lease_id for e in ends] == [lease_id]

    run(main())


@pytest.mark.parametrize("complete", [False, True])
def test_a_part_that_was_told_to_stop_and_never_was_there_is_no_failure(*, complete: bool) -> None:
    async def main() -> None:
        desk = Desk()
        lease_id, [(one, a), (two, b)] = await gang(desk)
        ended = wire.Ended(report_id="r", lease_id=lease_id, job_id=0, held_s=1.0, complete=complete)
        desk.here.receive(one, a, wire.FromAgent(ended=ended))
        if complete:
            desk.here.completions.hurry(float("inf"))
        assert [m.stop.lease_id for m in said(b) if m.HasField("stop")] == [lease_id]
        desk.here.receive(two, b, wire.FromAgent(refused=wire.Refused(lease_id=lease_id, reason="it is not here")))
        desk.settle()
        (end,) = [e.event for e in desk.log if isinstance(e.event, LeaseEnded)]
        job = desk.state.jobs[0]
        assert (end.failed, job.failures, job.ended) == (False, 0, "complete" if complete else "")

    run(main())


def test_a_gang_that_is_lost_where_it_runs_and_was_not_launched_elsewhere_is_charged() -> None:
    async def main() -> None:
        desk = Desk()
        (one, _), (two, b) = await desk.agent("one", 1), await desk.agent("two", 1)
        desk.here.left(two, b)  # cut off, and not lost yet
        desk.submit_gang(2, LONG)
        desk.wake()
        (lease_id,) = desk.state.runs
        states = [desk.here.tracked.part(lease_id, session.server_id).state for session in (one, two)]
        assert states == [PartState.LAUNCHING, PartState.QUEUED]
        desk.now_s += 30.0
        desk._apply([Entry(WorkerLost(desk.now_s, one.server_id, 0))])
        desk.settle()
        live = desk.state.mechanism.live
        assert lease_id not in desk.state.runs
        assert float(live.spent_usd[0]) == pytest.approx(2 * 30.0)

    run(main())


def test_a_gang_that_was_launched_nowhere_is_not_charged_when_a_server_is_lost() -> None:
    async def main() -> None:
        desk = Desk()
        (one, a), (two, b) = await desk.agent("one", 1), await desk.agent("two", 1)
        desk.here.left(two, b)
        desk.here.left(one, a)
        desk.submit_gang(2, LONG)
        desk.wake()
        assert desk.state.runs
        desk.now_s += 30.0
        desk._apply([Entry(WorkerLost(desk.now_s, one.server_id, 0))])
        desk.settle()
        assert float(desk.state.mechanism.live.spent_usd[0]) == pytest.approx(0.0)

    run(main())


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("speaks", [0, 1])
def test_a_gang_is_charged_for_the_part_that_nobody_heard_until_it_is_taken_back(
    *, speaks: int, complete: bool
) -> None:
    async def main() -> None:
        desk = Desk()
        agents = [await desk.agent("one", 1), await desk.agent("two", 1)]
        desk.submit_gang(2, LONG)
        desk.wake()
        (lease_id,) = desk.state.runs
        desk.now_s += 30.0
        (speaker, stream), (silent, _) = agents[speaks], agents[1 - speaks]
        ended = wire.Ended(report_id="r", lease_id=lease_id, job_id=0, held_s=20.0, complete=complete)
        desk.here.receive(speaker, stream, wire.FromAgent(ended=ended))
        desk._apply([Entry(WorkerLost(desk.now_s, silent.server_id, 0))])
        desk.now_s += 5.0
        desk.settle()
        (end,) = [entry.event for entry in desk.log if isinstance(entry.event, LeaseEnded)]
        assert (end.held_s, lease_id in desk.state.runs) == (30.0, False)
        job = desk.state.jobs[0]
        usd = job.spent_usd if job.ended else float(desk.state.mechanism.live.spent_usd[0])
        assert usd == pytest.approx(2 * 30.0)

    run(main())


def test_the_late_word_of_rank_0_does_not_speak_for_the_other_servers_of_its_gang() -> None:
    async def main() -> None:
        desk = Desk()
        (one, _), (two, _) = await desk.agent("one", 1), await desk.agent("two", 1)
        desk.submit_gang(2, LONG)
        desk.wake()
        (lease_id,) = desk.state.runs
        desk.now_s += 30.0
        desk._apply([Entry(WorkerLost(desk.now_s, each.server_id, 0)) for each in (one, two)])
        again, stream = await desk.agent("one", 1)
        ended = wire.Ended(report_id="r", lease_id=lease_id, job_id=0, steps_done=500.0, held_s=20.0)
        desk.here.receive(again, stream, wire.FromAgent(ended=ended))
        desk.settle()
        live = desk.state.mechanism.live
        assert (float(live.spent_usd[0]), float(live.saved_steps[0])) == (pytest.approx(2 * 30.0), 500.0)

    run(main())


def test_of_the_parts_the_one_that_failed_says_how() -> None:
    """Rank 0 was only stopped: neither its reason nor its exit code is why the gang ended."""

    async def main() -> None:
        desk = Desk()
        lease_id, [(one, a), (two, b)] = await gang(desk)
        beat(desk, one, a, 2.0, lease_id)
        beat(desk, two, b, 2.0, lease_id)
        for session, stream, exit_code, failed in ((two, b, 5, True), (one, a, -15, False)):
            report_id, reason = f"r{exit_code}", f"exit code {exit_code}"
            ended = wire.Ended(report_id=report_id, lease_id=lease_id, job_id=0, failed=failed, reason=reason)
            ended.exit_code = exit_code
            desk.here.receive(session, stream, wire.FromAgent(ended=ended))
            desk.settle()
        (note,) = [entry.note for entry in desk.log if isinstance(entry.event, LeaseEnded)]
        assert (note["reason"], note["exit_code"]) == ("exit code 5", 5)

    run(main())


def test_gangs_of_two_schedulers_on_one_server_meet_at_other_ports() -> None:
    """Both number their leases from 1 on."""

    async def port(log_id: str) -> int:
        _, [(_, a), (_, b)] = await gang(Desk(log_id))
        (port,) = {m.launch.master_port for stream in (a, b) for m in said(stream) if m.HasField("launch")}
        return port

    async def main() -> None:
        assert await port("one") == await port("one") != await port("two")

    run(main())


def test_a_gang_is_complete_though_the_server_of_rank_0_is_lost_after_it_reported() -> None:
    async def main() -> None:
        desk = Desk()
        lease_id, [(one, a), (two, b)] = await gang(desk)
        beat(desk, one, a, 2.0, lease_id)
        beat(desk, two, b, 2.0, lease_id)
        done = wire.Ended(report_id="r", lease_id=lease_id, job_id=0, held_s=1.0, steps_done=LONG, complete=True)
        desk.here.receive(one, a, wire.FromAgent(ended=done))
        desk._apply([Entry(WorkerLost(desk.now_s, one.server_id, 0))])
        desk.here.receive(two, b, wire.FromAgent(ended=done))
        desk.settle()
        (end,) = [e.event for e in desk.log if isinstance(e.event, LeaseEnded)]
        assert (end.complete, end.steps_done, desk.state.jobs[0].ended) == (True, LONG, "complete")

    run(main())


def test_a_server_may_come_back_with_other_devices_after_its_part_has_reported() -> None:
    """Nothing of the gang runs there any more: it ends with its other part, and the new devices are used."""

    async def main() -> None:
        desk = Desk()
        lease_id, [(one, a), (two, b)] = await gang(desk)
        beat(desk, one, a, 2.0, lease_id)
        beat(desk, two, b, 2.0, lease_id)
        done = wire.Ended(report_id="r", lease_id=lease_id, job_id=0, held_s=1.0, steps_done=LONG, complete=True)
        desk.here.receive(one, a, wire.FromAgent(ended=done))
        one, a = await desk.agent("one", 2)
        desk.here.receive(two, b, wire.FromAgent(ended=done))
        desk.settle()
        (end,) = [e.event for e in desk.log if isinstance(e.event, LeaseEnded)]
        assert (end.complete, desk.state.jobs[0].ended) == (True, "complete")
        desk.submit_gang(2, LONG)
        desk.now_s += 1.0
        desk.wake()
        (again,) = desk.state.runs.values()
        assert [(part.server_id, part.slots) for part in again.parts] == [(one.server_id, (0, 1))]
        desk.state.mechanism.validate()

    run(main())


def test_a_lease_that_was_never_launched_leaves_the_reason_of_the_one_before() -> None:
    async def main() -> None:
        desk = Desk()
        one, a = await desk.agent("one", 1)
        desk.submit(LONG)
        desk.wake()
        (lease_id,) = desk.state.runs
        desk.here.left(one, a)
        oom = wire.Ended(report_id="r", lease_id=lease_id, job_id=0, failed=True, reason="the disk is full")
        desk.here.completions.hear(one.server_id, oom)
        desk.settle()
        desk.now_s += 120.0
        desk.wake()
        (again,) = desk.state.runs
        desk._apply([Entry(WorkerDrained(desk.now_s, one.server_id, 0))])
        desk.settle()
        assert again != lease_id and not desk.state.runs
        assert desk.state.jobs[0].reason == "the disk is full"

    run(main())
