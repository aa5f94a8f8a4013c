"""What the log says of work that a preemption has lost, and how it knows."""

import json
from pathlib import Path

import grpc
import pytest

from gavelx.mechanism.events import LeaseEnded
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.session import AgentSession, Stream
from gavelx.service.api.explain import explained
from gavelx.service.api.server import _check_same
from gavelx.service.state.leases import LeaseRecord
from gavelx.service.state.state import State
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.records import entry_of, record_of
from tests.service.agents import configuration, serving, spec, user_of
from tests.service.desk import Desk
from tests.service.running import run


async def stopped(desk: Desk, session: AgentSession, stream: Stream) -> LeaseRecord:
    """The first of two jobs that take turns, told to stop."""
    while not any(run.stopping for run in desk.state.runs.values()):
        desk.now_s += 1.0
        desk.wake()
    (lease,) = [run for run in desk.state.runs.values() if run.stopping]
    return lease


def word(desk: Desk, session: AgentSession, stream: Stream, run: LeaseRecord, **said: float | bool) -> LeaseEnded:
    """The agent's last word on a lease, and what the log makes of it."""
    ended = wire.Ended(report_id="r", lease_id=run.lease.id, job_id=run.lease.job_id, **said)  # type: ignore[arg-type]
    desk.here.receive(session, stream, wire.FromAgent(ended=ended))
    desk.settle()
    (event,) = [e.event for e in desk.log if isinstance(e.event, LeaseEnded) and e.event.lease_id == run.lease.id]
    return event


@pytest.mark.parametrize(
    ("said", "lost_s"),
    [
        ({"held_s": 3.0}, 3.0),
        ({"held_s": 3.0, "steps_done": 7.0}, 0.0),
        ({"held_s": 0.0}, 0.0),
        ({"held_s": 3.0, "failed": True}, 0.0),
        ({"held_s": 3.0, "complete": True}, 0.0),
    ],
)
def test_a_preemption_has_lost_all_the_time_of_a_lease_that_saved_nothing(
    said: dict[str, float | bool], lost_s: float
) -> None:
    async def main() -> None:
        desk = Desk()
        session, stream = await desk.agent("one", 1)
        desk.submit(1e6, 1e6)
        desk.wake()
        event = word(desk, session, stream, await stopped(desk, session, stream), **said)
        assert event.lost_s == lost_s
        live = desk.state.mechanism.live
        j = live.index[event.job_id]
        assert (bool(live.protected[j]), float(live.lost_s[j])) == (lost_s > 0, lost_s)
        if lost_s:
            document = explained(desk.state, desk.here, event.job_id, desk.now_s)
            assert document["protected"] and "3 s of work are lost" in document["why"]

    run(main())


@pytest.mark.parametrize(("steps", "lost_s"), [(0.0, 3.0), (7.0, 0.0)])
def test_a_restart_in_another_size_loses_what_a_preemption_would(steps: float, lost_s: float) -> None:
    async def main() -> None:
        desk = Desk()
        session, stream = await desk.agent("one", 1)
        desk.submit(1e6)
        desk.wake()
        (lease,) = desk.state.runs.values()
        lease.continued_by = 9
        assert word(desk, session, stream, lease, held_s=3.0, steps_done=steps).lost_s == lost_s

    run(main())


@pytest.mark.parametrize(("steps", "lost_s"), [(40.0, 5.0), (41.0, 0.0)])
def test_what_an_earlier_lease_had_saved_does_not_count_as_this_ones(steps: float, lost_s: float) -> None:
    """Its devices were given out before the lease before had said how far it came."""

    async def main() -> None:
        desk = Desk()
        one, first = await desk.agent("one", 1)
        desk.submit(1e6)
        desk.wake()
        two, second = await desk.agent("two", 1)
        desk._apply(desk.here.drain("one", desk.now_s, undo=False))
        desk.wake()
        earlier, later = desk.state.runs.values()
        assert word(desk, one, first, earlier, steps_done=40.0, held_s=2.0).lost_s == 0.0
        assert later.from_steps == 40.0
        desk._apply(desk.here.drain("two", desk.now_s, undo=False))
        assert word(desk, two, second, later, steps_done=steps, held_s=5.0).lost_s == lost_s

    run(main())


def test_a_state_made_anew_from_the_log_knows_what_was_lost() -> None:
    async def main() -> None:
        desk = Desk()
        session, stream = await desk.agent("one", 1)
        desk.submit(1e6, 1e6)
        desk.wake()
        word(desk, session, stream, await stopped(desk, session, stream), held_s=3.0)
        again = State(configuration())
        for n, entry in enumerate(desk.log):
            again.apply(entry_of(record_of(n, entry)))
        for name in ("protected", "lost_s"):
            assert (
                getattr(again.mechanism.live, name).tolist() == getattr(desk.state.mechanism.live, name).tolist()
            )
        assert again.mechanism.lost_s == 3.0

    run(main())


def test_a_log_that_does_not_know_of_protection_goes_on_with_what_it_was_made_with() -> None:
    made = json.loads(json.dumps(configuration().to_json()))
    del made["rules"]["protect_s"]
    found = Configuration.from_json(made)
    assert found == configuration()
    _check_same(json.loads(json.dumps(found.to_json())), json.loads(json.dumps(configuration().to_json())))


def test_whether_a_job_may_be_preempted_is_said_when_it_is_submitted(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as service, user_of(service) as user:
            ids = await user.submit(*(spec(preemptible=each) for each in ("", "auto", "yes", "no")))
            said = [service.scheduler.state.jobs[i].job.preemptible for i in ids]
            assert said == ["auto", "auto", "yes", "no"]
            with pytest.raises(grpc.aio.AioRpcError, match="preemptible is 'maybe'; expected auto, yes, no"):
                await user.submit(spec(preemptible="maybe"))

    run(main())
