"""Jobs of which the user says nothing: estimated, measured, believed; and the log says it all again."""

import asyncio
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from gavelx.cluster import Server
from gavelx.estimator.untold import Rate
from gavelx.jobs import Job
from gavelx.mechanism.events import JobSubmitted, WorkerJoined
from gavelx.policies import load_policy
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.convert import training_message
from gavelx.service.agents.session import AgentSession, Stream
from gavelx.service.api.explain import explained
from gavelx.service.api.status import Asked, _job
from gavelx.service.state.replay import read_recorded
from gavelx.service.state.state import State
from gavelx.service.store.log import Log
from gavelx.service.store.records import Entry, entry_of, record_of
from gavelx.simulator import simulate
from gavelx.throughputs import Setting
from gavelx.training_report import TrainingReport
from gavelx.ways_to_run import ways_to_run
from tests.service.agents import FakeAgent, configuration, serving, user_of
from tests.service.desk import Desk
from tests.service.running import run
from tests.waiting import until


class Untold(Desk):
    """One agent with one device, and one job of which nothing is said."""

    session: AgentSession
    stream: Stream
    beats = 1.0

    async def begin(self, jobs: int = 1, **more: Any) -> None:
        self.session, self.stream = await self.agent("one", 1)
        self.more(jobs, **more)

    def more(self, jobs: int = 1, **more: Any) -> None:
        for _ in range(jobs):
            job = Job(self.state.next_job_id, "train.py~1", arrival_s=self.now_s, owner="ada", **more)
            note = {"command": ["train.py"], "type": "train.py", "named_by": "command", "untold": True}
            self._apply([Entry(JobSubmitted(self.now_s, job), note)])
        self.wake()

    def report(
        self, held_s: float, steps: float, total: float = 0.0, training: TrainingReport | None = None
    ) -> None:
        """A heartbeat that says how far the running lease is; what is due is logged."""
        self.hears(held_s, steps, total, training_message(training))
        self.report_due()

    def report_due(self) -> None:
        self.now_s += 1.0
        self._apply(self.here.progress.entries(self.now_s))
        self.settle()
        self.wake()

    def hears(self, held_s: float, steps: float, total: float, training: wire.Training) -> None:
        self.beats += 1.0
        (run,) = self.state.runs.on(self.session.server_id).values()
        report = wire.LeaseReport(
            lease_id=run.lease.id, job_id=run.lease.job_id, steps_done=steps, held_s=held_s, total_steps=total
        )
        report.training.CopyFrom(training)
        beat = wire.FromAgent(heartbeat=wire.Heartbeat(sent_s=self.beats, leases=[report]))
        self.here.receive(self.session, self.stream, beat)

    def ends(self, held_s: float, **how: Any) -> None:
        (run,) = self.state.runs.on(self.session.server_id).values()
        ended = wire.Ended(
            report_id=f"e{run.lease.id}", lease_id=run.lease.id, job_id=run.lease.job_id, held_s=held_s
        )
        for name, value in how.items():
            setattr(ended, name, value)
        self.here.receive(self.session, self.stream, wire.FromAgent(ended=ended))
        self.settle()
        self.wake()

    def status(self, job_id: int) -> wire.JobStatus:
        return _job(self.state, self.here, job_id, self.now_s, Asked(self.state, [job_id], self.now_s))

    def speed(self) -> float:
        return self.state.speeds[Setting("train.py~1", "v100")]

    def again(self) -> State:
        """What the log says, read as from disk."""
        state = State(configuration())
        for n, entry in enumerate(self.log, 1):
            state.apply(entry_of(record_of(n, entry)))
        return state


def test_its_speed_is_estimated_and_then_measured() -> None:
    async def main() -> None:
        desk = Untold()
        await desk.begin()
        assert desk.speed() == 1.0, "a second of a V100 is a step"
        assert Setting("train.py~1", "v100") in desk.state.untold.ranges
        for second in range(40):
            desk.report(float(second), 7.0 * second, 400.0)
        desk.ends(40.0, steps_done=280.0, complete=True)
        assert desk.speed() == pytest.approx(7.0)
        live = desk.state.mechanism.live
        assert live.equal_share_speed[0] == pytest.approx(7.0), "in the steps that were measured"
        assert live.equal_share_s[0] == pytest.approx(35.0, abs=10.0), "alone its share is all, whatever a step is"
        assert Setting("train.py~1", "v100") not in desk.state.untold.ranges
        assert desk.state.jobs[0].ended == "complete"
        assert desk.state.jobs[0].steps_done == 280.0
        told = explained(desk.state, desk.here, 0, desk.now_s)["speeds"]["v100"]
        assert told == {"steps_per_s": pytest.approx(7.0), "from": "measured", "leases": 1}
        assert desk.state.mechanism.lengths.source(desk.state.jobs[0].job) == "1 job of its type before it"
        again = desk.again()
        assert again.jobs == desk.state.jobs
        assert again.speeds == desk.state.speeds
        assert again.untold.ranges == desk.state.untold.ranges
        job = desk.state.jobs[0].job
        assert again.mechanism.lengths.of(job) == desk.state.mechanism.lengths.of(job)

    run(main())


def test_a_type_of_device_that_comes_later_is_estimated_from_what_is_measured() -> None:
    async def main() -> None:
        desk = Untold()
        await desk.begin()
        for second in range(40):
            desk.report(float(second), 7.0 * second)
        desk.ends(40.0, complete=True)
        stream, hello = Stream(), wire.Hello(version=1, name="two", accelerator="k80", devices=1, boot_id="boot")
        coming = asyncio.create_task(desk.here.hello(hello, stream))
        while not coming.done():  # speeds are estimated in a thread
            await asyncio.sleep(0.01)
            desk.settle()
        await coming
        way = Setting("train.py~1", "k80")
        assert 0.5 < desk.state.speeds[way] < 7.0
        lower, upper = desk.state.untold.ranges[way]
        assert lower < desk.state.speeds[way] < upper
        assert desk.again().speeds == desk.state.speeds

    run(main())


def test_what_it_says_of_its_length_is_shown_and_not_obeyed() -> None:
    async def main() -> None:
        desk = Untold()
        await desk.begin()
        for second in range(1, 11):
            desk.report(float(second), 10.0 * second, 400.0)
        message = desk.status(0)
        assert (message.total_steps, message.said_steps) == (0.0, 400.0)
        assert message.left_lower_s < message.left_s < message.left_upper_s
        assert message.left_s == pytest.approx(30.0, rel=0.25)
        told = explained(desk.state, desk.here, 0, desk.now_s)
        assert told["left_from"] == "its own output"
        assert told["speeds"]["v100"]["from"] == "estimated"
        for second in range(11, 60):  # it lied
            desk.report(float(second), 10.0 * second, 400.0)
        assert desk.state.jobs[0].ended == ""
        told = explained(desk.state, desk.here, 0, desk.now_s)
        assert told["left_from"] == "jobs in general: none ended before it"

    run(main())


def test_its_losses_tell_how_much_is_left() -> None:
    """Jobs of 10 to 40 epochs end at a loss of 0.2; after some of them, the loss of another tells its own end."""

    def training(epochs: float, of: int) -> TrainingReport:
        return TrainingReport(epochs, 1000.0, 2.0, 2.0 - 1.8 * epochs / of)

    async def main() -> None:
        desk = Untold()
        await desk.begin()
        for n in range(12):
            of = 10 + 30 * (n % 4) // 3
            for epoch in range(1, of):
                desk.report(float(epoch), 100.0 * epoch, training=training(epoch, of))
            desk.ends(float(of), steps_done=100.0 * of, complete=True)
            desk.more()
        wide = desk.status(12)
        assert wide.left_upper_s > 5.0 * wide.left_lower_s
        assert explained(desk.state, desk.here, 12, desk.now_s)["left_from"] == "12 jobs of its type before it"
        for epoch in range(1, 11):
            desk.report(float(epoch), 100.0 * epoch, training=training(epoch, 40))
        message = desk.status(12)
        assert message.left_lower_s < 30.0 < message.left_upper_s
        assert message.left_s == pytest.approx(30.0, rel=0.3)
        told = explained(desk.state, desk.here, 12, desk.now_s)
        assert told["left_from"].startswith("its losses")
        assert explained(desk.again(), desk.here, 12, desk.now_s)["left_s"] == told["left_s"], (
            "the log says it all"
        )

    run(main())


def test_which_bits_it_keeps_is_in_the_log() -> None:
    """The level and the order are logged when they change, by a report or at the end; unknown words never."""

    def kept(desk: Untold) -> tuple[str, str]:
        message = desk.status(0)
        again = desk.again().jobs[0]
        assert (again.determinism, again.order) == (message.determinism, message.order), "the log says it all"
        return again.determinism, again.order

    def told(desk: Untold) -> int:
        return sum("bits" in entry.note for entry in desk.log)

    async def main() -> None:
        desk = Untold()
        await desk.begin()
        desk.report(1.0, 10.0)
        assert kept(desk) == ("", "")
        for second, words in enumerate(
            [("elastic", ""), ("elastic", "torch-ddp"), ("elastic", "torch-ddp"), ("rot13", "ring"), ("", "")], 2
        ):
            desk.hears(float(second), 10.0 * second, 0.0, wire.Training(determinism=words[0], order=words[1]))
            desk.report_due()
        assert kept(desk) == ("elastic", "torch-ddp")
        assert told(desk) == 2, "once for each change"
        desk.hears(9.0, 90.0, 0.0, wire.Training(determinism="none", order="torch-ddp"))
        desk.ends(9.0, steps_done=90.0, complete=True)
        assert desk.state.jobs[0].ended == "complete"
        assert kept(desk) == ("none", "torch-ddp"), "its last word came with a heartbeat, and not in a round"
        assert told(desk) == 3

    run(main())


@pytest.mark.parametrize("total", [math.nan, math.inf, -math.inf, -5.0, 1e400, 1e-300, 1e300])
@pytest.mark.parametrize("steps", [math.nan, math.inf, -1.0, 1e300, 0.0])
def test_numbers_that_lie(steps: float, total: float) -> None:
    async def main() -> None:
        desk = Untold()
        await desk.begin()
        for second in range(1, 4):
            desk.report(float(second), steps, total)
        message = desk.status(0)
        assert 0 < message.left_lower_s < message.left_upper_s < math.inf
        desk.ends(5.0, steps_done=steps, complete=True)
        assert desk.state.jobs[0].ended == "complete"
        assert math.isfinite(desk.state.jobs[0].steps_done)
        assert desk.again().jobs == desk.state.jobs

    run(main())


def test_each_waiting_job_says_why() -> None:
    async def main() -> None:
        desk = Untold()
        desk.submit(5.0)
        assert desk.status(0).reason == "no server is here"
        await desk.begin(jobs=3)
        waiting = [desk.status(i) for i in desk.state.live]
        assert all(job.reason for job in waiting if job.state == "waiting")
        desk.submit_gang(4, 5.0)
        assert "it needs 4 devices" in desk.status(4).reason

    run(main())


def test_a_command_needs_no_more_than_its_words(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path / "state") as service,
            user_of(service) as user,
            FakeAgent(service.address, devices=3) as agent,
        ):
            first, typed, steps = await user.submit(
                wire.JobSpec(command=["/home/ada/train.sh", "--fast"]),
                wire.JobSpec(command=["./a"], job_type="mine"),
                wire.JobSpec(command=["./b"], total_steps=1e9),
            )
            jobs = await user.until("running", first, typed, steps)
            assert [job.job_type for job in jobs] == ["train.sh", "mine", "b"]
            assert [job.total_steps for job in jobs] == [0.0, 0.0, 1e9]
            launches = lambda: {going.launch.job_id: going.launch for going in agent.going.values()}  # noqa: E731
            await until(lambda: first in launches(), "its launch has come to the agent", launches)
            assert math.isinf(launches()[first].until_step)
            with pytest.raises(grpc.aio.AioRpcError, match="did you mean 'net'"):
                await user.submit(wire.JobSpec(command=["./c"], job_type="nett"))

    run(main())


def test_without_steps_the_wall_time_of_runs_stands_for_them() -> None:
    async def main() -> None:
        desk = Untold()
        await desk.begin()
        desk.ends(100.0, complete=True)
        desk.more()
        way = Setting("train.py~1", "v100")
        assert desk.speed() == pytest.approx(0.01, rel=0.05), "runs per second"
        assert way in desk.state.untold.ranges, "runs are not equally long"
        for second in range(40):  # the next one shows its steps
            desk.report(float(second), 7.0 * second)
        assert desk.speed() == pytest.approx(7.0)
        assert way not in desk.state.untold.ranges
        desk.ends(40.0, complete=True, steps_done=280.0)
        desk.more()
        desk.ends(30.0, complete=True)  # and the last one does not
        assert desk.speed() == pytest.approx(7.0)
        again = desk.again()
        assert again.speeds == desk.state.speeds
        assert again.untold.counted == desk.state.untold.counted

    run(main())


def test_explain_says_why_a_lease_measured_nothing() -> None:
    """A job that says the same step again and again, and the next one of its type."""

    async def main() -> None:
        desk = Untold()
        await desk.begin()
        for second in range(20):
            desk.report(float(second), 10.0, 10.0)
        desk.ends(20.0, complete=True, steps_done=10.0)
        desk.more()
        document = explained(desk.state, desk.here, 1, desk.now_s)
        assert document["speeds"]["v100"]["from"] == "estimated"
        assert document["speeds"]["v100"]["not_measured"] == "no step was done"
        assert document["left_from"] == "1 job of its type before it"
        for second in range(40):
            desk.report(float(second), 7.0 * second)
        assert "not_measured" not in explained(desk.state, desk.here, 1, desk.now_s)["speeds"]["v100"]

    run(main())


def test_a_server_of_an_older_log_brings_its_rate_when_it_comes_again() -> None:
    state = State(configuration())
    note = {"name": "one", "address": "", "boot_id": "b"}
    for epoch, more in enumerate(({}, {"rate": [0.25, 0.3]}, {})):
        state.apply(Entry(WorkerJoined(0.0, Server(0, "k80", 1), epoch), note | more))
        assert state.untold.rates["k80"] == (Rate() if epoch == 0 else Rate(0.25, 0.3))


def test_why_a_job_has_failed_is_said_while_it_runs_again_and_after_a_preemption() -> None:
    async def main() -> None:
        desk = Untold()

        def explanation() -> dict[str, Any]:
            return explained(desk.state, desk.here, 0, desk.now_s)

        await desk.begin()
        assert "failed" not in explanation()["why"]
        desk.ends(2.0, failed=True, reason="exit code 3: no disk")
        desk.now_s += 120.0
        desk.wake()
        assert (explanation()["state"], explanation()["launches"]) == ("running", 2)
        assert explanation()["why"].endswith("; it failed once: exit code 3: no disk")
        desk.ends(2.0, reason="stopped: preempted")
        assert desk.status(0).reason.endswith("exit code 3: no disk")
        assert explanation()["why"].endswith("; it failed once: exit code 3: no disk")
        desk.ends(2.0, failed=True, reason="exit code 4")
        assert explanation()["why"].endswith("; it failed 2 times, last: exit code 4")

    run(main())


@pytest.mark.parametrize("seed", range(8))
def test_a_told_speed_beside_estimated_ones_is_in_every_end_of_their_ranges(seed: int) -> None:
    """Speeds that jobs bring, estimates and servers come in any order; what policies see is of one table."""
    chance, state = np.random.default_rng(seed), State(configuration())
    for n in range(1, 40):
        name, width = f"kind{chance.integers(4)}", int(chance.choice((1, 1, 2, 4)))
        device = str(chance.choice(("v100", "k80", "cpu", "h100")))
        row = [name, width, device, 2.0 + n, 1.0, 90.0]
        event: Any = JobSubmitted(float(n), Job(state.next_job_id, name, scale_factor=width, arrival_s=float(n)))
        match chance.choice(("joins", "told", "untold", "foretold")):
            case "joins":
                event = WorkerJoined(float(n), Server(n, device, 4), n)
                note: dict[str, Any] = {"name": f"s{n}", "address": "", "boot_id": "b", "rate": [1.0 + n, 0.5]}
            case "told":
                note = {"command": ["true"], "speeds": {device: 3.0 + n}}
            case "untold":
                note = {"command": ["true"], "untold": True}
            case _:
                note = {"command": ["true"], "untold": True, "foretold": [row]}
        state.apply(Entry(event, note))
        jobs, known = [record.job for record in state.jobs.values()], state.mechanism.throughputs
        types = ("v100", "k80", "cpu", "h100")
        ways, anew = (ways_to_run(jobs, types, table) for table in (known, replace(known)))
        for one, other in ((ways.throughput_M, anew.throughput_M), (ways.upper_M, anew.upper_M)):
            np.testing.assert_array_equal(one, other)
        assert all(lower <= known.isolated[way] <= upper for way, (lower, upper) in known.ranges.items())


def test_a_log_of_jobs_that_say_their_steps_and_no_speeds_can_be_replayed(tmp_path: Path) -> None:
    async def main() -> None:
        desk = Untold()
        await desk.begin(total_steps=280.0)
        for second in range(40):
            desk.report(float(second), 7.0 * second)
        desk.ends(40.0, steps_done=280.0, complete=True)
        log = Log(str(tmp_path))
        log.configure(json.loads(json.dumps(configuration().to_json())))
        log.append([record_of(n, entry) for n, entry in enumerate(desk.log, 1)])
        log.close()

    run(main())
    recorded = read_recorded(str(tmp_path))
    assert not recorded.untold, "users said how long they are"
    result = simulate(load_policy("fifo"), recorded.jobs, recorded.cluster, recorded.throughputs)
    assert result.summary()["jct_mean_s"] == pytest.approx(40.0)


def test_a_run_of_no_time_measures_nothing() -> None:
    async def main() -> None:
        desk = Untold()
        await desk.begin()
        desk.ends(1e-310, complete=True)
        assert desk.again().jobs[0].ended == "complete", "the log takes it"
        assert desk.speed() == 1.0

    run(main())


def test_jobs_whose_users_say_speeds_come_after_jobs_of_which_nothing_is_said() -> None:
    async def main() -> None:
        desk = Untold()
        await desk.begin()
        told = Job(1, "train.py~2", 100.0, arrival_s=desk.now_s, owner="ben")
        note = {"command": ["train.py"], "type": "train.py", "speeds": {"v100": 92.0}}
        desk._apply([Entry(JobSubmitted(desk.now_s, told), note)])
        for _ in range(3):
            desk.now_s += 400.0
            desk.wake()
        assert desk.state.allocation is not None
        lower = desk.state.allocation.snapshot.configurations.lower_M
        assert lower is not None and 92.0 in lower.tolist(), "the policy knows the speed at both ends"
        assert desk.again().speeds == desk.state.speeds

    run(main())
