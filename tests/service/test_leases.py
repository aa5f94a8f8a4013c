"""Leases under all that happens to agents: no job runs twice at once, and none is forgotten."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest

from gavelx.mechanism.events import JobCancelled, WorkerDrained, WorkerLost
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.attendance import Attendance, Attendee, Make, Stream
from gavelx.service.records import Entry
from gavelx.service.refusals import RefusedError
from gavelx.service.timing import Timing
from tests.service.agents import QUICK, FakeAgent, Seen, configuration, serving, spec, user_of
from tests.service.desk import Desk, Remembered
from tests.service.running import run

LONG = 1e6
PATIENT = Timing(heartbeat_s=0.1, valid_for_s=30.0, grace_s=0.3)
"""A busy machine is no silence."""


def test_an_agent_that_is_cut_off_is_lost_only_when_its_leases_are_surely_over(tmp_path: Path) -> None:
    async def main() -> None:
        seen = Seen()
        one, two = (FakeAgent("", name, seen=seen) for name in ("one", "two"))
        async with serving(tmp_path) as service, user_of(service) as user:
            for agent in (one, two):
                agent.access = user.access
            async with one:
                (job_id,) = await user.submit(spec(LONG))
                await user.until("running", job_id)
                while not one.going:
                    await asyncio.sleep(0.02)
                async with two:
                    await asyncio.sleep(0.3)
                    cut_s = time.monotonic()
                    await one.cut()
                    while not two.going:
                        assert time.monotonic() < cut_s + 10
                        await asyncio.sleep(0.02)
                    assert time.monotonic() - cut_s >= QUICK.valid_for_s + QUICK.grace_s
                    assert not one.going
                    assert (await user.servers())["one"].state == "lost"
                    (job,) = await user.jobs(job_id)
                    assert job.servers == ["two"]
                    one.connect()  # it comes back: with its late report, as a server with a new epoch
                    while (await user.servers())["one"].state != "serving" or one.unacknowledged:
                        await asyncio.sleep(0.05)
                    assert service.scheduler.state.machine_named("one").epoch == 1  # type: ignore[union-attr]
        assert not seen.twice

    run(main())


def test_an_agent_that_comes_back_in_time_goes_on_with_its_lease(tmp_path: Path) -> None:
    async def main() -> None:
        patient = Timing(heartbeat_s=0.1, valid_for_s=5.0, grace_s=0.3)
        async with serving(tmp_path, timing=patient) as service, user_of(service) as user:
            async with FakeAgent(service.address) as agent:
                (job_id,) = await user.submit(spec(200.0))
                while not agent.going:
                    await asyncio.sleep(0.02)
                lease = set(agent.going)
                await agent.cut()
                await asyncio.sleep(0.7)
                assert (await user.servers())["one"].state == "silent"
                agent.connect()
                (job,) = await user.until("complete", job_id)
                assert (job.restarts, agent.seen.launches) == (0, 1)
                assert agent.ended == lease
                assert service.scheduler.state.machines[0].epoch == 0

    run(main())


def test_a_machine_that_boots_again_is_believed_when_its_old_leases_are_over(tmp_path: Path) -> None:
    async def main() -> None:
        seen = Seen()
        async with serving(tmp_path) as service, user_of(service) as user:
            agent = FakeAgent(service.address, seen=seen)
            agent.connect()
            (job_id,) = await user.submit(spec(150.0))
            while not agent.going:
                await asyncio.sleep(0.02)
            await agent.cut(jobs_too=True)
            async with FakeAgent(service.address, boot_id="another", seen=seen) as again:
                await user.until("complete", job_id)
                assert any("old leases" in refusal for refusal in again.refusals)
        assert not seen.twice
        assert seen.launches == 2

    run(main())


@pytest.mark.parametrize("other_boot", ["another", "boot"], ids=["another folder", "a copy of the folder"])
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_of_two_agents_of_one_name_the_one_that_is_here_stays(tmp_path: Path, busy: bool, other_boot: str) -> None:
    async def main() -> None:
        async with serving(tmp_path, timing=PATIENT) as service, user_of(service) as user:
            agent, other = FakeAgent(service.address), FakeAgent(service.address, boot_id=other_boot)
            agent.connect()
            if busy:
                await user.submit(spec(LONG))
            while agent.server_id < 0 or busy > len(agent.going):
                await asyncio.sleep(0.02)
            other.connect()
            told = "ALREADY_EXISTS: another agent is called one, and is here (at 127.0.0.1); --name NAME"
            while other.refusals.count(told) < 3:
                await asyncio.sleep(0.02)
            assert not agent.refusals and not other.going and len(agent.going) == busy
            assert [each.kind for each in service.log.read()].count("WorkerJoined") == 1
            await agent.cut(jobs_too=True)  # its name is free when it has gone, and its leases are over
            while other.server_id < 0 and not any("old leases" in refusal for refusal in other.refusals):
                await asyncio.sleep(0.02)
            await other.cut(jobs_too=True)

    run(main())


def test_an_agent_may_come_again_while_its_old_stream_seems_to_hold() -> None:
    async def main() -> None:
        desk = Desk()
        one, before = await desk.agent("one", 1)
        again, after = await desk.agent("one", 1)
        assert again is one and one.stream is after and before.closed
        assert len(desk.log) == 1

    run(main())


def test_a_name_is_free_when_its_agent_was_silent_for_long() -> None:
    async def main() -> None:
        desk = Desk()
        one, _ = await desk.agent("one", 1)
        hello = wire.Hello(version=1, name="one", accelerator="v100", devices=1, boot_id="boot", agent_id="other")
        with pytest.raises(RefusedError, match="another agent is called one, and is here"):
            await desk.here.hello(hello, Stream())
        one.heard_s -= QUICK.silent_s
        assert await desk.here.hello(hello, Stream()) is one
        assert len(desk.log) == 1  # of the same folder: what is leased there stands

    run(main())


def test_a_gang_runs_on_two_servers_and_ends_when_all_its_parts_have(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user:
            async with FakeAgent(service.address) as one, FakeAgent(service.address, "two") as two:
                job_ids = await user.submit(spec(200.0, workers=2))
                while not (one.going and two.going):
                    await asyncio.sleep(0.02)
                parts = [next(iter(agent.going.values())).launch for agent in (one, two)]
                assert sorted(part.first_rank for part in parts) == [0, 1]
                assert {(part.world_size, part.processes, part.master_address) for part in parts} == {
                    (2, 1, "127.0.0.1")
                }
                assert len({part.master_port for part in parts}) == 1
                (job,) = await user.until("complete", *job_ids)
                assert job.steps_done == 200.0
                assert not one.unacknowledged and not two.unacknowledged

    run(main())


def test_a_part_that_fails_stops_the_gang_and_its_steps_are_those_of_rank_0(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user:
            async with FakeAgent(service.address) as one, FakeAgent(service.address, "two") as two:
                (job_id,) = await user.submit(spec(LONG, workers=2))
                while not (one.going and two.going):
                    await asyncio.sleep(0.02)
                await asyncio.sleep(0.3)
                first, second = sorted(
                    (one, two), key=lambda agent: next(iter(agent.going.values())).launch.first_rank
                )
                second._end(next(iter(second.going)), failed=True)
                while first.seen.launches < 2:  # launched again
                    await asyncio.sleep(0.02)
                (job,) = await user.jobs(job_id)
                assert (job.failures, job.reason) == (1, "exit code 1")
                assert next(iter(first.going.values())).launch.saved_steps > 0

    run(main())


def test_a_job_that_always_fails_is_given_up(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user, FakeAgent(service.address) as agent:
            agent.fail_jobs = {0}
            bad, good = await user.submit(spec(LONG), spec())
            (job,) = await user.until("failed", bad)
            assert (job.failures, job.reason) == (5, "exit code 1")
            await user.until("complete", good)

    run(main())


def test_a_launch_that_is_lost_is_sent_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user, FakeAgent(service.address) as agent:
            agent.forgetful = True
            (job_id,) = await user.submit(spec())
            await user.until("running", job_id)
            await asyncio.sleep(0.3)
            agent.forgetful = False
            await user.until("complete", job_id)

    run(main())


def test_a_cancelled_job_stops_wherever_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        from gavelx.rpc import wire_pb2 as wire

        async with serving(tmp_path) as service, user_of(service) as user, FakeAgent(service.address) as agent:
            running, waiting = await user.submit(spec(LONG), spec(LONG))
            while not agent.going:
                await asyncio.sleep(0.02)
            for _ in range(2):  # once more changes nothing
                for job_id in (waiting, running):
                    assert (
                        await user.call("Cancel", wire.CancelRequest(version=1, job_id=job_id))
                    ).state == "cancelled"
            while agent.going or service.scheduler.state.runs:
                await asyncio.sleep(0.02)
            assert [job.state for job in await user.jobs()] == ["cancelled"] * 2
            (next_one,) = await user.submit(spec())
            await user.until("complete", next_one)

    run(main())


def test_a_drained_server_is_left_without_losing_a_step_and_stays_so_over_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        from gavelx.rpc import wire_pb2 as wire

        one, two = FakeAgent(""), FakeAgent("", "two")
        async with serving(tmp_path) as service, user_of(service) as user:
            one.access = user.access
            one.connect()
            (job_id,) = await user.submit(spec(LONG))
            while not one.going:
                await asyncio.sleep(0.02)
            reply = await user.call("Drain", wire.DrainRequest(version=1, server="one"))
            assert reply.leases == 1
            while (await user.servers())["one"].state != "drained":
                await asyncio.sleep(0.02)
            assert not one.going
            steps = (await user.jobs(job_id))[0].steps_done
            assert steps > 0
            await one.cut()
        async with serving(tmp_path) as service, user_of(service) as user:
            one.access = two.access = user.access
            one.connect()
            await asyncio.sleep(0.5)
            assert not one.going
            async with two:
                while not two.going:
                    await asyncio.sleep(0.02)
                assert next(iter(two.going.values())).launch.saved_steps == steps
            await user.call("Drain", wire.DrainRequest(version=1, server="one", undo=True))
            while not one.going:
                await asyncio.sleep(0.02)
            await one.cut()

    run(main())


def test_another_policy_decides_while_jobs_run(tmp_path: Path) -> None:
    async def main() -> None:
        from gavelx.rpc import wire_pb2 as wire

        quick = configuration(round_s=0.3)
        async with serving(tmp_path, configuration=quick) as service, user_of(service) as user:
            async with FakeAgent(service.address) as agent:
                first, second = await user.submit(spec(LONG), spec(LONG))
                while agent.seen.launches < 3:  # they take turns
                    await asyncio.sleep(0.02)
                reply = await user.call("SetPolicy", wire.SetPolicyRequest(version=1, policy="fifo"))
                assert (reply.policy, reply.before) == ("fifo", "max_min_fairness")
                await user.until("running", first)
                launches = agent.seen.launches
                await asyncio.sleep(1.5)
                assert agent.seen.launches <= launches + 1
                (waits,) = await user.jobs(second)
                assert waits.state == "waiting"
                with pytest.raises(grpc.aio.AioRpcError, match="unknown policy"):
                    await user.call("SetPolicy", wire.SetPolicyRequest(version=1, policy="os.system('true')"))

    run(main())


def test_what_a_job_wrote_is_fetched_from_where_it_ran(tmp_path: Path) -> None:
    async def main() -> None:
        from gavelx.rpc import wire_pb2 as wire

        async with serving(tmp_path) as service, user_of(service) as user, FakeAgent(service.address):
            (job_id,) = await user.submit(spec())
            await user.until("complete", job_id)
            request = wire.LogsRequest(version=1, job_id=job_id, follow=True)
            texts = [chunk.text async for chunk in user.stub.Logs(request)]
            assert texts == [b"job 0 on one\n"]

    run(main())


def test_explain_says_why_a_job_waits_and_what_it_received(tmp_path: Path) -> None:
    async def main() -> None:
        import json

        from gavelx.rpc import wire_pb2 as wire

        async with serving(tmp_path) as service, user_of(service) as user:

            async def explained(job_id: int) -> dict[str, object]:
                reply = await user.call("Explain", wire.ExplainRequest(version=1, job_id=job_id))
                return dict(json.loads(reply.explanation_json))

            first, second = await user.submit(spec(LONG), spec(LONG))
            await asyncio.sleep(0.2)
            assert (await explained(first))["why"] == "no server is here"
            async with FakeAgent(service.address) as agent:
                while not agent.going:
                    await asyncio.sleep(0.02)
                await asyncio.sleep(1.3)
                documents = [await explained(job_id) for job_id in (first, second)]
                waits = next(document for document in documents if document["state"] == "waiting")
                runs = next(document for document in documents if document["state"] == "running")
                assert waits["promised_share"] == pytest.approx(0.5)
                assert "in full use: v100" in str(waits["why"])
                assert float(str(waits["behind_s"])) > 0 > float(str(runs["behind_s"]))
                assert runs["servers"] == ["one"]

    run(main())


def say(desk: Desk, attendee: Attendee, stream: Stream, sent_s: float, *leases: int) -> None:
    reports = [wire.LeaseReport(lease_id=lease_id, job_id=0) for lease_id in leases]
    desk.here.receive(attendee, stream, wire.FromAgent(heartbeat=wire.Heartbeat(sent_s=sent_s, leases=reports)))
    desk.settle()


def test_a_lease_whose_launch_may_still_be_obeyed_is_not_over() -> None:
    """What the agent hears is slow, what it says is quick: it does not know of the lease yet, and it will."""

    async def main() -> None:
        desk = Desk()
        one, stream = await desk.agent("one", 1)
        desk.submit(LONG)
        desk.wake()
        (lease_id,) = desk.state.runs
        desk._apply([Entry(JobCancelled(desk.now_s, 0), {})])
        for n in range(9):
            say(desk, one, stream, 1.1 + 0.1 * n)
        assert set(desk.state.runs) == {lease_id}  # the launch is good until 1.0 + 1 s
        for n in range(3):
            say(desk, one, stream, 2.1 + 0.1 * n)
        assert not desk.state.runs

    run(main())


def test_heartbeats_that_were_overtaken_say_nothing() -> None:
    async def main() -> None:
        desk = Desk()
        one, stream = await desk.agent("one", 1)
        desk.submit(LONG)
        desk.wake()
        (lease_id,) = desk.state.runs
        say(desk, one, stream, 9.0, lease_id)
        desk._apply([Entry(JobCancelled(desk.now_s, 0), {})])
        for n in range(9):
            say(desk, one, stream, 8.0 + 0.1 * n)
        assert set(desk.state.runs) == {lease_id}

    run(main())


def test_a_late_report_of_a_lost_server_counts_once_and_as_what_it_is() -> None:
    async def main() -> None:
        desk = Desk()
        one, _ = await desk.agent("one", 1)
        desk.submit(LONG)
        desk.wake()
        (lease_id,) = desk.state.runs
        desk.now_s += 30.0
        desk._apply([Entry(WorkerLost(desk.now_s, one.server_id, 0))])
        live = desk.state.mechanism.live
        assert (float(live["spent_usd"][0]), float(live["saved_steps"][0])) == (pytest.approx(30.0), 0.0)
        again, stream = await desk.agent("one", 1)
        for launched in list(desk.state.runs):
            desk.state.runs.end(launched)  # what was launched since is another matter
        ended = wire.Ended(report_id="r", lease_id=lease_id, job_id=0, steps_done=500.0, held_s=20.0)
        before = len(desk.log)
        for _ in range(3):
            desk.here.receive(again, stream, wire.FromAgent(ended=ended))
            desk.settle()
        assert [type(entry.event).__name__ for entry in desk.log[before:]] == ["LeaseEnded"]
        assert float(live["spent_usd"][0]) == pytest.approx(20.0)
        assert float(live["saved_steps"][0]) == 500.0
        said = [stream._queue.get_nowait() for _ in range(stream._queue.qsize())]
        assert sum(message.HasField("acknowledged") for message in said if message) == 3

    run(main())


def test_a_lease_that_is_stopped_where_it_never_was_is_over_and_no_failure() -> None:
    async def main() -> None:
        desk = Desk()
        one, stream = await desk.agent("one", 1)
        desk.submit(LONG)
        desk.wake()
        (lease_id,) = desk.state.runs
        desk._apply([Entry(WorkerDrained(desk.now_s, one.server_id, 0))])
        refused = wire.Refused(lease_id=lease_id, reason="it is not here")
        desk.here.receive(one, stream, wire.FromAgent(refused=refused))
        desk.settle()
        assert not desk.state.runs
        assert desk.state.book[0].failures == 0

    run(main())


def test_processes_of_a_complete_job_that_do_not_end_elsewhere_are_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        desk = Desk()
        one, stream = await desk.agent("one", 1)
        two, other = await desk.agent("two", 1)
        desk.submit_gang(2, LONG)
        desk.wake()
        (lease_id,) = desk.state.runs
        ended = wire.Ended(report_id="r", lease_id=lease_id, job_id=0, steps_done=LONG, complete=True)
        desk.here.receive(one, stream, wire.FromAgent(ended=ended))
        desk.here.tick()
        assert not stops(other)  # it may be on its way out
        later_s = time.monotonic() + QUICK.grace_s
        monkeypatch.setattr("gavelx.service.attendance.time", SimpleNamespace(monotonic=lambda: later_s))
        desk.here.tick()
        assert stops(other) == [lease_id]
        ended = wire.Ended(report_id="s", lease_id=lease_id, job_id=0, reason="stopped: the job is complete")
        desk.here.receive(two, other, wire.FromAgent(ended=ended))
        desk.settle()
        assert desk.state.book[0].ended == "complete"

    run(main())


def stops(stream: Stream) -> list[int]:
    """The leases that an agent was told to stop since we looked last."""
    said = [stream._queue.get_nowait() for _ in range(stream._queue.qsize())]
    return [message.stop.lease_id for message in said if message is not None and message.HasField("stop")]


def test_a_server_whose_stream_breaks_as_it_joins_may_come_again() -> None:
    async def main() -> None:
        desk = Desk()
        hello = wire.Hello(version=1, name="one", accelerator="v100", devices=1, boot_id="boot")
        coming = asyncio.create_task(desk.here.hello(hello, Stream()))
        await asyncio.sleep(0)
        desk.settle()  # it has joined,
        coming.cancel()  # and nobody is there to hear it
        await asyncio.gather(coming, return_exceptions=True)
        again, _ = await desk.agent("one", 1)
        assert desk.here.here == {again.server_id: again}
        assert len(desk.log) == 1

    run(main())


def test_a_server_that_comes_in_is_not_declared_lost() -> None:
    """Its old self was silent for long enough, just when the new one's hello is on its way to the disk."""

    async def main() -> None:
        desk = Desk()
        one, stream = await desk.agent("one", 1)
        desk.here.left(one, stream)
        hello = wire.Hello(version=1, name="one", accelerator="v100", devices=1, boot_id="another boot")
        coming = asyncio.create_task(desk.here.hello(hello, Stream()))
        await asyncio.sleep(0)
        one.heard_s = one.valid_until_s = -1e9
        desk.here.tick()
        desk.settle()
        assert (await coming).server_id == one.server_id
        assert not desk.state.machines[one.server_id].lost


def test_a_server_that_came_back_is_not_lost_by_an_old_word() -> None:
    async def main() -> None:
        desk = Desk()
        desk.here.left(*await desk.agent("one", 1))
        hello = wire.Hello(version=1, name="one", accelerator="v100", devices=1, boot_id="another")
        coming = asyncio.create_task(desk.here.hello(hello, Stream()))
        await asyncio.sleep(0)
        desk.here.here[0].given_up = True
        desk._post(lambda now_s: [Entry(WorkerLost(now_s, 0, 0))])
        desk.settle()
        attendee = await coming
        assert (desk.here.here, attendee.given_up) == ({0: attendee}, False)
        assert not desk.state.machines[0].lost
        assert desk.state.machines[0].epoch == 1

    run(main())


@pytest.mark.parametrize("a_round_later", [False, True])
def test_the_late_word_on_a_cancelled_job_puts_its_bill_right_and_nothing_else(*, a_round_later: bool) -> None:
    async def main() -> None:
        desk = Desk()
        one, a = await desk.agent("one", 1)
        desk.submit(LONG)
        desk.wake()
        (lease_id,) = desk.state.runs
        desk.here.left(one, a)  # cut off
        desk.now_s += 10.0
        desk._apply([Entry(JobCancelled(desk.now_s, 0), {"reason": "cancelled by ada"})])
        desk.settle()
        assert desk.state.book[0].spent_usd == pytest.approx(10.0)
        desk.now_s += 0.3
        desk._apply([Entry(WorkerLost(desk.now_s, one.server_id, 0))])
        desk.settle()
        if a_round_later:
            desk.now_s += 30.0
            desk.wake()
            desk.submit(LONG)
            desk.wake()
            desk.now_s += 30.0
            desk.wake()
        again, stream = await desk.agent("one", 1)
        ended = wire.Ended(report_id="r", lease_id=lease_id, job_id=0, steps_done=500.0, held_s=14.0, failed=True)
        for _ in range(2):
            desk.here.receive(again, stream, wire.FromAgent(ended=ended))
            desk.settle()
        job = desk.state.book[0]
        assert (job.ended, job.reason, job.failures) == ("cancelled", "cancelled by ada", 0)
        assert not desk.state.unheard
        assert job.spent_usd == pytest.approx(14.0)
        assert job.received_s == pytest.approx(14.0)

    run(main())


def test_a_new_server_never_gets_the_number_of_another_one() -> None:
    async def main() -> None:
        desk = Desk()
        await desk.agent("one", 1)
        hello = wire.Hello(version=1, name="gone", accelerator="v100", devices=1, boot_id="boot")
        coming = asyncio.create_task(desk.here.hello(hello, Stream()))
        await asyncio.sleep(0)
        coming.cancel()  # its stream breaks before it is in the log: the scheduler drops what nobody waits for
        await asyncio.gather(coming, return_exceptions=True)
        desk._waiting = [(make, done) for make, done in desk._waiting if not done.cancelled()]
        three, _ = await desk.agent("three", 1)
        desk.here = Attendance(desk.state, QUICK, Remembered(desk.log), desk._post)  # the service starts again
        four, _ = await desk.agent("four", 1)
        assert four.server_id != three.server_id
        assert sorted(m.name for m in desk.state.machines.values()) == ["four", "one", "three"]

    run(main())


def test_reports_of_another_logs_lease_of_the_same_number_are_not_believed() -> None:
    """After --restored an agent stops what ran for the old log, and speaks of it until it has ended."""

    async def main() -> None:
        desk = Desk()
        one, a = await desk.agent("one", 1)
        desk.submit(LONG)
        desk.wake()
        (lease_id,) = desk.state.runs
        report = wire.LeaseReport(lease_id=lease_id, job_id=7, steps_done=5000.0, saved_steps=5000.0)
        desk.here.receive(one, a, wire.FromAgent(heartbeat=wire.Heartbeat(sent_s=2.0, leases=[report])))
        desk.settle()
        assert desk.here.progress.saved_steps(desk.state.runs[lease_id]) == 0.0

    run(main())


def apply_together(desk: Desk, *makes: Make) -> None:
    """As the scheduler does: what waits is made first, then written, then applied."""
    desk._apply([entry for make in makes for entry in make(desk.now_s)])


@pytest.mark.parametrize("first", ["join", "drain"])
def test_a_server_that_is_drained_as_it_comes_back_is_drained(first: str) -> None:
    async def main() -> None:
        desk = Desk()
        one, a = await desk.agent("one", 1)
        desk.here.left(one, a)
        hello = wire.Hello(version=1, name="one", accelerator="v100", devices=1, boot_id="another")
        coming = asyncio.create_task(desk.here.hello(hello, Stream()))
        await asyncio.sleep(0)
        ((join, done),) = desk._waiting
        desk._waiting.clear()

        def drain(now_s: float) -> list[Entry]:
            return desk.here.drain("one", now_s, undo=False)

        with pytest.raises(RefusedError, match="comes in just now; try again"):
            apply_together(desk, *((join, drain) if first == "join" else (drain, join)))
        apply_together(desk, join)
        done.set_result(None)
        await coming
        apply_together(desk, drain)
        desk.submit(LONG)
        desk.wake()
        assert desk.state.machines[0].drained
        assert not desk.state.runs

    run(main())
