"""The life of a lease on one server, as the scheduler knows it: states, events, and one table of what follows.

A lease is over when each of its parts is ``REPORTED`` or ``LOST``; when that is in the log, they are forgotten. An
event that the table does not have for a state is a mistake of ours. No clock is read here: the caller decides
whether a launch may still be on its way.
"""

from collections.abc import Mapping
from enum import StrEnum


class PartState(StrEnum):
    """Where a part of a lease is in its life."""

    QUEUED = "queued"
    """Its agent was never told."""
    LAUNCHING = "launching"
    """Its agent was told, and has not mentioned it since."""
    RUNNING = "running"
    """Its agent mentions it in heartbeats."""
    QUEUED_AGAIN = "queued again"
    """Its agent was told and does not know it: it is to be told once more."""
    STOPPING = "stopping"
    """It is to end, and its agent may have it."""
    REPORTED = "reported"
    """A final report is there: its agent's, or ours where nothing ran."""
    LOST = "lost"
    """Its server was lost before a report, and nothing runs there by all clocks."""


class PartEvent(StrEnum):
    """What happens to a part of a lease."""

    LAUNCH_SENT = "launch sent"
    MENTIONED = "mentioned"
    """In a heartbeat."""
    NOT_THERE = "not there"
    """Left out of three heartbeats, though it should run."""
    STOP = "stop"
    """It is asked to end: preempted, or another part of its gang has ended."""
    LAUNCH_VOID = "launch void"
    """Left out of three heartbeats, and no launch on its way would be obeyed any more."""
    FINAL_REPORT = "final report"
    """Or a refusal of the launch."""
    SERVER_LOST = "server lost"


_S, _E = PartState, PartEvent

TRANSITIONS: Mapping[PartState, Mapping[PartEvent, PartState]] = {
    _S.QUEUED: {
        _E.LAUNCH_SENT: _S.LAUNCHING,
        _E.MENTIONED: _S.RUNNING,  # an agent that was told by the service before this one
        _E.STOP: _S.REPORTED,
        _E.FINAL_REPORT: _S.REPORTED,
        _E.SERVER_LOST: _S.REPORTED,
    },
    _S.LAUNCHING: {
        _E.MENTIONED: _S.RUNNING,
        _E.NOT_THERE: _S.QUEUED_AGAIN,
        _E.STOP: _S.STOPPING,
        _E.FINAL_REPORT: _S.REPORTED,
        _E.SERVER_LOST: _S.LOST,
    },
    _S.RUNNING: {
        _E.MENTIONED: _S.RUNNING,
        _E.NOT_THERE: _S.QUEUED_AGAIN,
        _E.STOP: _S.STOPPING,
        _E.FINAL_REPORT: _S.REPORTED,
        _E.SERVER_LOST: _S.LOST,
    },
    _S.QUEUED_AGAIN: {
        _E.LAUNCH_SENT: _S.LAUNCHING,
        _E.MENTIONED: _S.RUNNING,
        _E.NOT_THERE: _S.QUEUED_AGAIN,
        _E.STOP: _S.STOPPING,
        _E.FINAL_REPORT: _S.REPORTED,
        _E.SERVER_LOST: _S.LOST,
    },
    _S.STOPPING: {
        _E.MENTIONED: _S.STOPPING,
        _E.STOP: _S.STOPPING,
        _E.LAUNCH_VOID: _S.REPORTED,
        _E.FINAL_REPORT: _S.REPORTED,
        _E.SERVER_LOST: _S.LOST,
    },
    _S.REPORTED: {
        _E.MENTIONED: _S.REPORTED,  # by a heartbeat that the report has overtaken
        _E.FINAL_REPORT: _S.REPORTED,  # agents repeat it until it is acknowledged
    },
    _S.LOST: {
        _E.FINAL_REPORT: _S.REPORTED,  # late
    },
}
TO_SEND = frozenset({PartState.QUEUED, PartState.QUEUED_AGAIN})
STANDING = TO_SEND | {PartState.LAUNCHING, PartState.RUNNING}
"""What its agent may run on: what is renewed with each heartbeat."""
EXPOSED = frozenset({PartState.LAUNCHING, PartState.RUNNING, PartState.QUEUED_AGAIN, PartState.STOPPING})
"""Something may run on the server."""
OVER = frozenset({PartState.REPORTED, PartState.LOST})


def after(state: PartState, event: PartEvent) -> PartState:
    """The state that follows."""
    assert event in TRANSITIONS[state], f"a part of a lease that is {state} cannot be told: {event}"
    return TRANSITIONS[state][event]


def diagram() -> str:
    """The table as a state diagram in Mermaid's language: an arrow for each change of state."""
    names = {state: state.replace(" ", "_") for state in PartState}
    arrows: dict[tuple[str, str], list[str]] = {}
    for state, row in TRANSITIONS.items():
        for event, then in row.items():
            if then is not state:
                arrows.setdefault((names[state], names[then]), []).append(event)
    lines = [f"    {one} --> {other}: {', '.join(events)}" for (one, other), events in arrows.items()]
    over = [f"    {names[state]} --> [*]: the end is in the log" for state in PartState if state in OVER]
    return "\n".join(["stateDiagram-v2", "    [*] --> queued", *lines, *over])
