"""What is known of speeds: what the table says, what leases measured, what is gone by, and how sure it is."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gavelx.estimator.online import Learned
from gavelx.estimator.steady_speed import interval
from gavelx.measurements import Way
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.api.auth import Caller
from gavelx.service.api.calls import Call
from gavelx.service.state.state import State
from gavelx.throughputs import Setting

Json = dict[str, Any]


async def speeds(call: Call, request: wire.SpeedsRequest) -> wire.SpeedsReply:
    """Of the job types with this text in their names that the caller may know of."""
    state, rejected = call.state, call.agents.measuring.rejected
    mine, text = set(_types(state, call.caller)), request.job_type.lower()
    known = (way for way in _ways(state) if {way.job_type, getattr(way, "partner", way.job_type)} <= mine)
    rows = [_row(state, way, rejected.get(way)) for way in known if text in way.job_type.lower()]
    return wire.SpeedsReply(speeds_json=json.dumps({"refine": state.refine, "rows": rows}))


def _types(state: State, caller: Caller) -> Iterator[str]:
    """Those of the table, and of the caller's jobs; of all jobs for an operator."""
    yield from state.job_types
    ids = state.jobs if caller.role == "operator" else state.of_owner.get(caller.owner, ())
    yield from (state.jobs[job_id].job.job_type for job_id in ids)


def _ways(state: State) -> list[Way]:
    """All that the table says of jobs alone, and whatever was measured."""
    return list(dict.fromkeys([*(way for way in state.said if isinstance(way, Setting)), *state.online]))


def _row(state: State, way: Way, rejected: tuple[int, str] | None) -> Json:
    used: Mapping[Any, float] = state.speeds_of(way)
    said, learned = state.said.get(way), state.online.learned(way)
    row = way._asdict() | {"table": said, "in_use": used.get(way)}
    row["wrong"] = said is not None and state.online.contradicts(way, said)
    if learned is not None:
        row["measured"] = _measured(learned)
    if rejected is not None:
        row["rejected"], row["rejected_why"] = rejected
    return row


def _measured(learned: Learned) -> Json:
    lower, upper = interval(learned.speed, learned.relative_error)
    return {
        "steps_per_second": learned.speed,
        "lower": lower,
        "upper": upper,
        "relative_error": learned.relative_error,
        "leases": learned.count,
        "seconds": learned.seconds,
        "measured_at": learned.latest[-1].measured_at,
        "drifts": learned.drifts,
        "drifted_at": learned.drifted_at or None,
    }
