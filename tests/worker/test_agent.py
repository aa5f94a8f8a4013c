"""The agent's decisions without socket and process: messages in, messages out, on a clock of our own."""

from gavelx.rpc import wire_pb2 as wire
from gavelx.worker.agent import RESEND_S, Agent
from gavelx.worker.devices import Devices
from gavelx.worker.emulation import SleepRunner
from tests.worker.scheduler import make_launch


class Stage:
    """An agent whose jobs sleep, welcomed, on a clock that we turn."""

    def __init__(self) -> None:
        self.time_s = 100.0
        self.runner = SleepRunner(grace_s=5.0, clock=lambda: self.time_s)
        self.agent = Agent("server", "127.0.0.1", Devices("v100", ("0", "1")), self.runner)
        self.agent.hello()
        self.receive(welcome={"server_id": 3, "heartbeat_s": 2.0, "grace_s": 5.0})

    def receive(self, **message: object) -> None:
        self.agent.receive(wire.ToAgent(**message))  # type: ignore[arg-type]

    def launch(self, lease_id: int, sent_s: float, valid_for_s: float = 60.0, **more: object) -> None:
        self.receive(launch=make_launch(lease_id, "sleep", sent_s=sent_s, valid_for_s=valid_for_s, **more))

    def said(self, kind: str) -> list[object]:
        """All of one kind that is to be sent now."""
        messages = self.agent.due()
        return [getattr(message, kind) for message in messages if message.WhichOneof("message") == kind]

    def standing(self) -> list[int]:
        self.agent.due()
        return sorted(self.runner.standing())


def test_a_heartbeat_is_sent_at_once_and_then_at_intervals() -> None:
    stage = Stage()
    assert [beat.sent_s for beat in stage.said("heartbeat")] == [100.0]
    assert stage.said("heartbeat") == []
    assert stage.agent.wait_s() == 2.0
    stage.time_s = 102.0
    assert [beat.sent_s for beat in stage.said("heartbeat")] == [102.0]


def test_a_lease_runs_until_the_heartbeats_time_plus_what_is_valid() -> None:
    stage = Stage()
    stage.launch(1, sent_s=100.0, valid_for_s=20.0)
    stage.time_s = 110.0
    stage.receive(renewed={"sent_s": 108.0, "valid_for_s": 20.0, "lease_ids": [1]})
    stage.time_s = 122.9  # it would have lapsed at 120, softly from 115 on
    assert stage.standing() == [1]
    stage.time_s = 123.0
    assert stage.standing() == []
    (ended,) = stage.runner.ended()
    assert not ended.failed
    assert "lapsed" in ended.reason


def test_a_late_or_impossible_answer_prolongs_nothing() -> None:
    stage = Stage()
    stage.launch(1, sent_s=100.0, valid_for_s=20.0)
    stage.time_s = 110.0
    stage.receive(renewed={"sent_s": 109.0, "valid_for_s": 20.0, "lease_ids": [1]})
    stage.receive(renewed={"sent_s": 105.0, "valid_for_s": 100.0, "lease_ids": [1]})  # an older one
    stage.receive(renewed={"sent_s": 900.0, "valid_for_s": 100.0, "lease_ids": [1]})  # from another clock
    stage.time_s = 124.0
    assert stage.standing() == []


def test_an_answer_from_before_a_launch_does_not_stop_it() -> None:
    stage = Stage()
    stage.launch(1, sent_s=100.0)
    stage.receive(renewed={"sent_s": 100.0, "valid_for_s": 60.0, "lease_ids": []})
    assert stage.standing() == [1]
    stage.time_s = 102.0
    stage.receive(renewed={"sent_s": 102.0, "valid_for_s": 60.0, "lease_ids": []})
    assert stage.standing() == []


def test_devices_that_are_not_here_are_refused() -> None:
    stage = Stage()
    stage.launch(1, sent_s=100.0, slots=[2])
    stage.launch(2, sent_s=100.0, slots=[])
    assert [refused.lease_id for refused in stage.said("refused")] == [1, 2]


def test_a_launch_that_comes_too_late_or_from_another_clock_is_ignored() -> None:
    stage = Stage()
    stage.launch(1, sent_s=100.0, valid_for_s=5.0)
    stage.launch(2, sent_s=1e6)
    assert stage.said("refused") == []
    assert stage.standing() == []


def test_a_report_is_sent_until_it_is_acknowledged() -> None:
    stage = Stage()
    stage.launch(1, sent_s=100.0, until_step=10.0, steps_per_s=10.0)
    stage.time_s = 101.5
    (ended,) = stage.said("ended")
    assert (ended.complete, ended.steps_done, ended.held_s) == (True, 10.0, 1.0)
    assert stage.said("ended") == []
    stage.time_s += RESEND_S
    assert stage.said("ended") == [ended]
    stage.agent.hello()  # another stream
    assert stage.said("ended") == []
    stage.receive(welcome={"server_id": 3})
    assert stage.said("ended") == [ended]
    stage.receive(acknowledged={"report_id": ended.report_id})
    stage.time_s += 10 * RESEND_S
    assert stage.said("ended") == []


def test_who_leaves_takes_nothing_new_and_waits_to_be_heard() -> None:
    stage = Stage()
    stage.launch(1, sent_s=100.0)
    stage.agent.leave()
    stage.launch(2, sent_s=100.0)
    first, *_ = stage.agent.due()
    assert first.heartbeat.leaving  # before it says what has ended, or it would be sent more
    assert stage.standing() == []
    stage.time_s += 2.0
    assert [beat.leaving for beat in stage.said("heartbeat")] == [True]
    assert not stage.agent.left
    (ended,) = stage.runner.ended()
    stage.receive(acknowledged={"report_id": ended.report_id})
    assert not stage.agent.left
    stage.receive(renewed={"sent_s": 102.0, "valid_for_s": 60.0})
    assert stage.agent.left


def test_who_has_nothing_to_do_says_that_he_leaves_at_once() -> None:
    """Else he would be given jobs until his silence is noticed."""
    stage = Stage()
    assert [beat.leaving for beat in stage.said("heartbeat")] == [False]
    stage.time_s += 0.5
    stage.agent.leave()
    assert not stage.agent.left
    assert [beat.leaving for beat in stage.said("heartbeat")] == [True]
    stage.receive(renewed={"sent_s": 100.5, "valid_for_s": 60.0})
    assert stage.agent.left


def test_who_leaves_and_finds_nobody_does_not_try_for_ever() -> None:
    """Each new stream tells the agent again that it is to leave."""
    stage = Stage()
    stage.launch(1, sent_s=100.0)
    stage.agent.leave()
    for _ in range(4):
        stage.time_s += 5.0
        stage.agent.hello()
        stage.agent.leave()
    assert stage.agent.left


def test_who_leaves_and_is_not_heard_goes_in_the_end() -> None:
    stage = Stage()
    stage.launch(1, sent_s=100.0)
    stage.agent.leave()
    stage.time_s += 14.0
    assert not stage.agent.left
    stage.time_s += 1.0
    assert stage.agent.left


def test_a_scheduler_that_says_nothing_is_given_up() -> None:
    stage = Stage()
    stage.time_s += 10.0
    assert not stage.agent.silent
    stage.time_s += 0.1
    assert stage.agent.silent


def test_who_is_stopped_before_he_is_launched_never_runs() -> None:
    stage = Stage()
    stage.receive(stop={"lease_id": 1})
    assert [refused.lease_id for refused in stage.said("refused")] == [1]
    stage.launch(1, sent_s=100.0)  # it was overtaken
    assert stage.standing() == []
    stage.agent.hello()  # on another stream nothing of that can come any more
    stage.receive(welcome={"server_id": 3, "heartbeat_s": 2.0, "grace_s": 5.0})
    stage.launch(1, sent_s=100.0)
    assert stage.standing() == [1]
