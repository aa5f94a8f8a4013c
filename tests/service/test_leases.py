"""Leases under all that happens to agents: no job runs twice at once, and none is forgotten."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from gavelx.mechanism.events import JobCancelled, WorkerDrained, WorkerLost
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.refused import RefusedError
from gavelx.service.agents.registry import AgentRegistry, AgentSession, Make, Stream
from gavelx.service.store.records import Entry
from tests.clocks import Clock
from tests.service.agents import PATIENT, QUICK, FakeAgent, Seen, configuration, records_of, serving, spec, user_of
from tests.service.desk import Desk, Remembered
from tests.service.running import run
from tests.waiting import until

pytestmark = pytest.mark.slow

LONG = 1e6


def test_an_agent_that_is_cut_off_is_lost_only_when_its_leases_are_surely_over(
    tmp_path: Path, clock: Clock
) -> None:
    async def main() -> None:
        seen = Seen()
        one, two = (FakeAgent("", name, seen=seen) for name in ("one", "two"))
        async with serving(tmp_path) as service, user_of(service) as user:
            for agent in (one, two):
                agent.access = user.access
            async with one:
                (job_id,) = await user.submit(spec(LONG))
                await one.until_going()
                async with two:
                    await two.until_renewed()
                    await one.cut()
                    (lease,) = one.going.values()
                    await clock.turn(PATIENT.valid_for_s - 10.0, two)
                    assert one.going or clock.now_s() >= lease.until_s  # where that took long
                    assert not two.going
                    await clock.turn(10.0, two)
                    await until(lambda: not one.going, "its lease is over")
                    assert not two.going and (await user.servers())["one"].state == "silent"
                    await clock.turn(PATIENT.surely_over_s, two)
                    await two.until_going()
                    assert (await user.servers())["one"].state == "lost"
                    (job,) = await user.jobs(job_id)
                    assert job.servers == ["two"]
                    one.connect()  # it comes back: with its late report, as a server with a new epoch
                    await user.until_server("serving", "one")
                    await one.until_acknowledged()
                    assert service.scheduler.state.machine_named("one").epoch == 1  # type: ignore[union-attr]
        assert not seen.twice

    run(main())


def test_an_agent_that_comes_back_in_time_goes_on_with_its_lease(tmp_path: Path, clock: Clock) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user:
            async with FakeAgent(service.address) as agent:
                (job_id,) = await user.submit(spec(100.0 * (PATIENT.valid_for_s + 60.0)))
                await agent.until_going()
                lease = set(agent.going)
                await agent.cut()
                await clock.turn(PATIENT.valid_for_s / 2)
                await user.until_server("silent", "one")
                agent.connect()
                await agent.until_renewed()
                await clock.turn(PATIENT.valid_for_s + 60.0, agent)
                (job,) = await user.until("complete", job_id)
                assert (job.restarts, agent.seen.launches) == (0, 1)
                assert agent.ended == lease
                assert service.scheduler.state.machines[0].epoch == 0

    run(main())


def test_a_machine_that_boots_again_is_believed_when_its_old_leases_are_over(tmp_path: Path, clock: Clock) -> None:
    async def main() -> None:
        seen = Seen()
        async with serving(tmp_path) as service, user_of(service) as user:
            agent = FakeAgent(service.address, seen=seen)
            agent.connect()
            (job_id,) = await user.submit(spec(LONG))
            await agent.until_going()
            await agent.cut(jobs_too=True)
            async with FakeAgent(service.address, boot_id="another", seen=seen) as again:
                await again.until_refused("old leases")
                await clock.turn(PATIENT.valid_for_s + PATIENT.surely_over_s)
                await again.until_going()
                assert (await user.jobs(job_id))[0].state == "running"
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
            await until(lambda: agent.server_id >= 0, "the agent is here")
            if busy:
                await user.submit(spec(LONG))
                await agent.until_going()
            other.connect()
            told = "ALREADY_EXISTS: another agent is called one, and is here (at 127.0.0.1); --name NAME"
            await until(lambda: other.refusals.count(told) >= 3, "it is told three times", lambda: other.refusals)
            assert not agent.refusals and not other.going and len(agent.going) == busy
            assert [each.kind for each in records_of(service)].count("WorkerJoined") == 1
            await agent.cut(jobs_too=True)  # its name is free when it has gone, and its leases are over
            await until(
                lambda: other.server_id >= 0 or any("old leases" in refusal for refusal in other.refusals),
                "the other one is let in, or waits for leases",
                lambda: other.refusals,
            )
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
                await one.until_going()
                await two.until_going()
                parts = [next(iter(agent.going.values())).launch for agent in (one, two)]
                assert sorted(part.first_rank for part in parts) == [0, 1]
                assert {(part.world_size, part.processes, part.master_address) for part in parts} == {
                    (2, 1, "127.0.0.1")
                }
                assert len({part.master_port for part in parts}) == 1
                (job,) = await user.until("complete", *job_ids)
                assert job.steps_done == 200.0
                await one.until_acknowledged()
                await two.until_acknowledged()

    run(main())


def test_a_part_that_fails_stops_the_gang_and_its_steps_are_those_of_rank_0(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user:
            async with FakeAgent(service.address) as one, FakeAgent(service.address, "two") as two:
                (job_id,) = await user.submit(spec(LONG, workers=2))
                await one.until_going()
                await two.until_going()
                first, second = sorted(
                    (one, two), key=lambda agent: next(iter(agent.going.values())).launch.first_rank
                )
                second._end(next(iter(second.going)), failed=True)
                await until(lambda: first.seen.launches == 2, "it is launched again")
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
            await until(lambda: agent.forgotten, "a launch is lost")
            agent.forgetful = False
            await user.until("complete", job_id)

    run(main())


def test_a_cancelled_job_stops_wherever_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user, FakeAgent(service.address) as agent:
            running, waiting = await user.submit(spec(LONG), spec(LONG))
            await agent.until_going()
            for _ in range(2):  # once more changes nothing
                for job_id in (waiting, running):
                    assert (
                        await user.call("Cancel", wire.CancelRequest(version=1, job_id=job_id))
                    ).state == "cancelled"
            await until(lambda: not (agent.going or service.scheduler.state.runs), "nothing runs")
            assert [job.state for job in await user.jobs()] == ["cancelled"] * 2
            (next_one,) = await user.submit(spec())
            await user.until("complete", next_one)

    run(main())


def test_a_drained_server_is_left_without_losing_a_step_and_stays_so_over_a_restart(
    tmp_path: Path, clock: Clock
) -> None:
    async def main() -> None:
        one, two = FakeAgent(""), FakeAgent("", "two")
        async with serving(tmp_path) as service, user_of(service) as user:
            one.access = user.access
            one.connect()
            (job_id,) = await user.submit(spec(LONG))
            await one.until_going()
            reply = await user.call("Drain", wire.DrainRequest(version=1, server="one"))
            assert reply.leases == 1
            await user.until_server("drained", "one")
            assert not one.going
            steps = (await user.jobs(job_id))[0].steps_done
            assert steps > 0
            await one.cut()
        async with serving(tmp_path) as service, user_of(service) as user:
            one.access = two.access = user.access
            one.connect()
            await one.until_renewed()
            async with two:
                await two.until_going()
                assert not one.going
                assert next(iter(two.going.values())).launch.saved_steps == steps
            await user.call("Drain", wire.DrainRequest(version=1, server="one", undo=True))
            await clock.turn(PATIENT.valid_for_s + PATIENT.surely_over_s, one)  # two is gone
            await one.until_going()
            await one.cut()

    run(main())


def test_another_policy_decides_while_jobs_run(tmp_path: Path) -> None:
    async def main() -> None:
        quick = configuration(round_s=0.3)
        async with serving(tmp_path, configuration=quick) as service, user_of(service) as user:
            async with FakeAgent(service.address) as agent:
                first, second = await user.submit(spec(LONG), spec(LONG))
                await until(lambda: agent.seen.launches >= 3, "they take turns")
                reply = await user.call("SetPolicy", wire.SetPolicyRequest(version=1, policy="fifo"))
                assert (reply.policy, reply.before) == ("fifo", "max_min_fairness")

                mechanism = service.scheduler.state.mechanism
                trigger = mechanism._trigger  # the policy before may have one more answer on its way
                answered = lambda: not trigger.dirty and trigger.pending_since_s is None  # noqa: E731
                await until(answered, "the other policy has answered")
                await user.until("running", first)
                launches, rounds = agent.seen.launches, mechanism.rounds
                await until(lambda: mechanism.rounds >= rounds + 5, "five rounds pass", lambda: mechanism.rounds)
                assert agent.seen.launches <= launches + 1
                (waits,) = await user.jobs(second)
                assert waits.state == "waiting"
                with pytest.raises(grpc.aio.AioRpcError, match="unknown policy"):
                    await user.call("SetPolicy", wire.SetPolicyRequest(version=1, policy="os.system('true')"))
                (tmp_path / "mine.py").write_text("from gavelx.policies import Fifo\nFifo.opens = {'sizes', 7}")
                with pytest.raises(grpc.aio.AioRpcError, match="its opens is") as refused:
                    wanted = f"{tmp_path}/mine.py:Fifo"
                    await user.call("SetPolicy", wire.SetPolicyRequest(version=1, policy=wanted))
                assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    run(main())


def test_what_a_job_wrote_is_fetched_from_where_it_ran(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user, FakeAgent(service.address):
            (job_id,) = await user.submit(spec())
            await user.until("complete", job_id)
            request = wire.LogsRequest(version=1, job_id=job_id, follow=True)
            texts = [chunk.text async for chunk in user.stub.Logs(request)]
            assert texts == [b"job 0 on one\n"]

    run(main())


def test_explain_says_why_a_job_waits_and_what_it_received(tmp_path: Path) -> None:
    async def main() -> None:
        quick = configuration(round_s=0.3)
        async with serving(tmp_path, configuration=quick) as service, user_of(service) as user:
            jobs = await user.submit(spec(LONG), spec(LONG))
            seen = dict[str, dict[str, Any]]()

            async def explained() -> None:
                for job_id in jobs:
                    reply = await user.call("Explain", wire.ExplainRequest(version=1, job_id=job_id))
                    document = json.loads(reply.explanation_json)
                    seen[document["state"]] = document

            async def no_server() -> bool:
                await explained()
                return str(seen["waiting"]["why"]) == "no server is here"

            async def ahead() -> bool:
                """The one that runs had more than its share; they take turns, so it is not always so."""
                seen.clear()
                await explained()
                both = {"running", "waiting"} <= seen.keys()
                return both and seen["waiting"]["behind_s"] > 0 > seen["running"]["behind_s"]

            await until(no_server, "a round has seen that there is no server", lambda: seen)
            async with FakeAgent(service.address):
                await until(ahead, "one runs and is ahead of one that waits", lambda: seen)
                assert seen["waiting"]["promised_share"] == pytest.approx(0.5)
                assert "in full use: v100" in seen["waiting"]["why"]
                assert seen["running"]["servers"] == ["one"]

    run(main())


def say(desk: Desk, session: AgentSession, stream: Stream, sent_s: float, *leases: int) -> None:
    reports = [wire.LeaseReport(lease_id=lease_id, job_id=0) for lease_id in leases]
    desk.here.receive(session, stream, wire.FromAgent(heartbeat=wire.Heartbeat(sent_s=sent_s, leases=reports)))
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
        assert (float(live.spent_usd[0]), float(live.saved_steps[0])) == (pytest.approx(30.0), 0.0)
        again, stream = await desk.agent("one", 1)
        for launched in list(desk.state.runs):
            desk.state.runs.end(launched)  # what was launched since is another matter
        ended = wire.Ended(report_id="r", lease_id=lease_id, job_id=0, steps_done=500.0, held_s=20.0)
        before = len(desk.log)
        for _ in range(3):
            desk.here.receive(again, stream, wire.FromAgent(ended=ended))
            desk.settle()
        assert [type(entry.event).__name__ for entry in desk.log[before:]] == ["LeaseEnded"]
        assert float(live.spent_usd[0]) == pytest.approx(20.0)
        assert float(live.saved_steps[0]) == 500.0
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
        assert desk.state.jobs[0].failures == 0

    run(main())


def test_processes_of_a_complete_job_that_do_not_end_elsewhere_are_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    still = SimpleNamespace(monotonic=lambda: still.now_s, now_s=0.0)
    for module in ("registry", "completions"):
        monkeypatch.setattr(f"gavelx.service.agents.{module}.time", still)

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
        still.now_s = QUICK.grace_s
        desk.here.tick()
        assert stops(other) == [lease_id]
        ended = wire.Ended(report_id="s", lease_id=lease_id, job_id=0, reason="stopped: the job is complete")
        desk.here.receive(two, other, wire.FromAgent(ended=ended))
        desk.settle()
        assert desk.state.jobs[0].ended == "complete"

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
        session = await coming
        assert (desk.here.here, session.given_up) == ({0: session}, False)
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
        assert desk.state.jobs[0].spent_usd == pytest.approx(10.0)
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
        job = desk.state.jobs[0]
        assert (job.ended, job.reason, job.failures) == ("cancelled", "cancelled by ada", 0)
        assert not desk.state.leases_lost
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
        desk.here = AgentRegistry(desk.state, QUICK, Remembered(desk.log), desk._post)  # the service starts again
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
