"""The life of a part of a lease: the table, its drawing, and that the service goes through all of it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.mechanism.events import LeaseEnded, WorkerLost
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents import tracking
from gavelx.service.agents.part_states import (
    EXPOSED,
    OVER,
    STANDING,
    TO_SEND,
    TRANSITIONS,
    PartEvent,
    PartState,
    after,
    diagram,
)
from gavelx.service.store.records import Entry
from tests.faults.virtual import play
from tests.service.desk import Desk
from tests.service.running import run
from tests.service.test_gangs import beat, gang

PAGE = Path(__file__).parents[2] / "docs" / "walks" / "a_lease_on_a_machine.md"
Rows = set[tuple[PartState, PartEvent]]
ROWS: Rows = {(state, event) for state, row in TRANSITIONS.items() for event in row}

RARE: Rows = {
    (PartState.QUEUED, PartEvent.MENTIONED),
    (PartState.QUEUED, PartEvent.FINAL_REPORT),
    (PartState.QUEUED_AGAIN, PartEvent.MENTIONED),
    (PartState.QUEUED_AGAIN, PartEvent.FINAL_REPORT),
    (PartState.QUEUED_AGAIN, PartEvent.SERVER_LOST),
}
"""Rows that random faults do not come to; they have tests of their own."""


def test_the_page_shows_the_table() -> None:
    (shown,) = re.findall(r"```mermaid\n(.*?)\n```", PAGE.read_text(), re.DOTALL)
    assert shown == diagram(), (
        "python -c 'from gavelx.service.agents.part_states import diagram; print(diagram())'"
    )


def test_every_state_can_be_reached_and_left() -> None:
    reached, before = {PartState.QUEUED}, set[PartState]()
    while reached != before:
        before = set(reached)
        reached |= {then for state in before for then in TRANSITIONS[state].values()}
    assert reached == set(PartState) == set(TRANSITIONS)
    assert set(PartState) == EXPOSED | TO_SEND | OVER
    assert not OVER & (EXPOSED | TO_SEND | STANDING)


@given(st.lists(st.sampled_from(PartEvent)))
def test_what_is_over_never_runs_again_and_is_launched_only_where_it_is_to_be_sent(
    events: list[PartEvent],
) -> None:
    state = PartState.QUEUED
    for event in events:
        if event not in TRANSITIONS[state]:
            with pytest.raises(AssertionError, match=f"is {state} cannot be told: {event}"):
                after(state, event)
            continue
        then = after(state, event)
        assert event is not PartEvent.LAUNCH_SENT or state in TO_SEND
        assert state not in OVER or then in OVER
        assert state is not PartState.STOPPING or then not in STANDING
        assert event not in {PartEvent.SERVER_LOST, PartEvent.FINAL_REPORT} or then in OVER
        state = then


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rows]:
    """The rows of the table that the service goes through."""
    rows: Rows = set()

    def noted(state: PartState, event: PartEvent) -> PartState:
        rows.add((state, event))
        return after(state, event)

    monkeypatch.setattr(tracking, "after", noted)
    yield rows


async def _one_that_was_never_told() -> tuple[Desk, int]:
    """A gang over two servers, the second of which was cut off before its launch was sent."""
    desk = Desk()
    await desk.agent("one", 1)
    two, b = await desk.agent("two", 1)
    desk.here.left(two, b)
    desk.submit_gang(2, 1e6)
    desk.wake()
    (lease_id,) = desk.state.runs
    return desk, lease_id


def ends(desk: Desk) -> list[int]:
    return [entry.event.lease_id for entry in desk.log if isinstance(entry.event, LeaseEnded)]


def test_an_agent_may_speak_of_a_lease_before_it_is_told(walked: Rows) -> None:
    """Another scheduler told it, of which the log is an older copy."""

    async def mentions() -> None:
        desk, lease_id = await _one_that_was_never_told()
        report = wire.LeaseReport(lease_id=lease_id, job_id=0)
        first = wire.FromAgent(heartbeat=wire.Heartbeat(sent_s=1.0, leases=[report]))
        two, _ = await desk.agent("two", 1, first)
        assert desk.here.tracked.part(lease_id, two.server_id).state is PartState.RUNNING

    async def reports() -> None:
        desk, lease_id = await _one_that_was_never_told()
        ended = wire.Ended(report_id="r", lease_id=lease_id, job_id=0)
        two, _ = await desk.agent("two", 1, wire.FromAgent(ended=ended))
        assert desk.here.tracked.part(lease_id, two.server_id).state is PartState.REPORTED
        assert not ends(desk), "the other part has to stop first"

    run(mentions())
    run(reports())
    assert {(PartState.QUEUED, event) for event in (PartEvent.MENTIONED, PartEvent.FINAL_REPORT)} <= walked


@pytest.mark.parametrize("event", [PartEvent.MENTIONED, PartEvent.FINAL_REPORT, PartEvent.SERVER_LOST])
def test_a_lease_that_is_to_be_launched_again_may_turn_up(walked: Rows, event: PartEvent) -> None:
    """Its agent is about to leave, so nothing is sent to it."""

    async def main() -> None:
        desk = Desk()
        lease_id, [(one, a), _] = await gang(desk)
        for n in range(3):
            leaving = wire.Heartbeat(sent_s=2.0 + n, leaving=True)
            desk.here.receive(one, a, wire.FromAgent(heartbeat=leaving))
        part = desk.here.tracked.part(lease_id, one.server_id)
        assert part.state is PartState.QUEUED_AGAIN
        match event:
            case PartEvent.MENTIONED:
                beat(desk, one, a, 9.0, lease_id)
            case PartEvent.FINAL_REPORT:
                ended = wire.Ended(report_id="r", lease_id=lease_id, job_id=0)
                desk.here.receive(one, a, wire.FromAgent(ended=ended))
            case PartEvent.SERVER_LOST:
                desk._apply([Entry(WorkerLost(desk.now_s, one.server_id, 0))])
        assert part.state is TRANSITIONS[PartState.QUEUED_AGAIN][event]

    run(main())
    assert (PartState.QUEUED_AGAIN, event) in walked


TELLING = (600_302, 600_315, 600_316, 600_329)
"""Runs that go through all the rest of the table; others follow, should they do so no more."""


@pytest.mark.slow
def test_the_service_goes_through_the_rest_of_the_table(walked: Rows) -> None:
    for seed in (*TELLING, *range(600_330, 600_360)):
        assert play(seed) == []
        if walked >= ROWS - RARE:
            return
    raise AssertionError(f"never seen: {sorted(ROWS - RARE - walked)}")
