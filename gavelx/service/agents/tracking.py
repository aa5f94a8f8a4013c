"""What is known of the leases that have not ended, part by part; nothing of it need survive a restart."""

import math
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.convert import safe_number
from gavelx.service.agents.part_states import EXPOSED, OVER, PartEvent, PartState, after
from gavelx.service.state.leases import LeaseRecord


@dataclass(slots=True)
class TrackedPart:
    """A part of a lease. ``missed`` counts heartbeats in a row that leave it out.

    ``begun_s``: since when it is held, on our clock, as far as heartbeats say. ``valid_until_s``: until when, on
    the agent's clock, a launch that is on its way is obeyed. ``next_id``: the lease to which the job is to go
    over, as its agent knows; ``leaving``: processes that have yet to leave then.
    """

    state: PartState = PartState.QUEUED
    missed: int = 0
    begun_s: float = math.inf
    valid_until_s: float = -math.inf
    next_id: int | None = None
    leaving: int = 0

    def happened(self, event: PartEvent) -> None:
        """Go on to the state that follows."""
        self.state = after(self.state, event)

    def mentioned(self, report: wire.LeaseReport, heard_s: float) -> None:
        """Its agent speaks of it in a heartbeat. That which took the shortest time tells best when it began."""
        self.happened(PartEvent.MENTIONED)
        if (held_s := safe_number(report.held_s)) > 0.0:  # else the job has not gone over to it yet
            self.begun_s = min(self.begun_s, heard_s - held_s)
        self.missed, self.valid_until_s = 0, -math.inf
        self.next_id, self.leaving = report.next_id if report.HasField("next_id") else None, report.leaving

    def on_new_stream(self) -> None:
        """Its agent begins another stream, on which nothing is on its way."""
        self.missed, self.valid_until_s = 0, -math.inf


@dataclass(slots=True)
class TrackedLease:
    """The parts of a lease, and their final reports in the order in which they came, by server.

    ``complete_s``: since when rank 0 is complete; ``ending``: the end of the lease is on its way to the log.
    ``resizing_s``: since when its job is to go over to it from another lease, without a restart; ``took_s``: how
    long that took.
    """

    parts: dict[int, TrackedPart]
    finals: dict[int, wire.Ended] = field(default_factory=dict)
    complete_s: float | None = None
    ending: bool = False
    resizing_s: float | None = None
    took_s: float = 0.0

    @property
    def is_over(self) -> bool:
        return all(part.state in OVER for part in self.parts.values())


class TrackedLeases:
    """By lease id."""

    def __init__(self) -> None:
        self._leases: dict[int, TrackedLease] = {}

    def __getitem__(self, lease_id: int) -> TrackedLease:
        return self._leases[lease_id]

    def __iter__(self) -> Iterator[tuple[int, TrackedLease]]:
        return iter(list(self._leases.items()))

    def get(self, lease_id: int) -> TrackedLease | None:
        return self._leases.get(lease_id)

    def begin(self, run: LeaseRecord, state: PartState = PartState.QUEUED) -> TrackedLease:
        """A lease that was given out, and the state of its parts but those whose servers are lost."""
        parts = {part.server_id: TrackedPart(PartState.LOST if part.over else state) for part in run.parts}
        return self._leases.setdefault(run.lease.id, TrackedLease(parts))

    def end(self, lease_id: int) -> TrackedLease | None:
        """Forget a lease whose end is in the log, or that was lost as a whole."""
        return self._leases.pop(lease_id, None)

    def part(self, lease_id: int, server_id: int) -> TrackedPart:
        return self._leases[lease_id].parts[server_id]

    def in_state(self, states: Set[PartState], lease_ids: Iterable[int], server_id: int) -> list[int]:
        """Those of these leases whose part on a server is in one of these states."""
        return [i for i in lease_ids if self.part(i, server_id).state in states]

    def is_exposed(self, lease_ids: Iterable[int], server_id: int) -> bool:
        """Whether something may run on a server."""
        return any(self.part(i, server_id).state in EXPOSED for i in lease_ids)
