"""Bugs of the kind that we fear, to see that the judge catches each. Nothing else uses them."""

import math
from typing import Any


def _forgets_the_deadline() -> None:
    """An agent whose leases have no end."""
    from gavelx.worker.runner import ProcessRunner

    start = ProcessRunner.start
    ProcessRunner.start = lambda self, launch, until_s: start(self, launch, 1e12)  # type: ignore[method-assign]


def _answers_too_early() -> None:
    """A service that acts on what is not on disk yet: it writes when it finds time, once an hour."""
    import time

    from gavelx.service.store.log import Log

    append, waiting, last_s = Log.append, list[Any](), [-math.inf]

    def late(self: Any, records: Any) -> None:
        waiting.extend(records)
        if time.monotonic() - last_s[0] < 3600.0:
            self.last_sequence = records[-1].sequence
            return
        self.last_sequence, last_s[0] = waiting[0].sequence - 1, time.monotonic()
        append(self, waiting)
        waiting.clear()

    Log.append = late  # type: ignore[method-assign]


def _gives_up_too_early() -> None:
    """A service that thinks a server lost as soon as it misses a heartbeat, whatever it may still run."""
    from gavelx.service.agents.registry import AgentRegistry
    from gavelx.service.agents.timing import Timing

    AgentRegistry._is_exposed = lambda self, session: False  # type: ignore[method-assign]
    Timing.silent_s = property(lambda self: 2 * self.heartbeat_s)  # type: ignore[assignment,method-assign]


def _counts_twice() -> None:
    """A service that takes every report for news."""
    from gavelx.mechanism.events import LeaseEnded
    from gavelx.service.agents.completions import LeaseCompletions
    from gavelx.service.store.records import Entry

    hear = LeaseCompletions.hear

    def again(self: Any, server_id: int, message: Any) -> None:
        hear(self, server_id, message)
        figures = message.lease_id, message.job_id, message.steps_done, message.held_s
        if message.job_id in self._state.jobs:
            self._post(lambda now_s: [Entry(LeaseEnded(now_s, *figures))])

    LeaseCompletions.hear = again  # type: ignore[method-assign]


def _begins_anew() -> None:
    """An agent that tidies up a job's folder before it launches it."""
    from pathlib import Path

    from gavelx.worker.runner import ProcessRunner

    order = ProcessRunner._order

    def tidied(self: Any, *told: Any) -> Any:
        found = order(self, *told)
        (Path(found["job_folder"]) / "checkpoint").unlink(missing_ok=True)
        return found

    ProcessRunner._order = tidied  # type: ignore[method-assign]


PLANTS = {
    "forgets the deadline": _forgets_the_deadline,
    "answers too early": _answers_too_early,
    "gives up too early": _gives_up_too_early,
    "counts twice": _counts_twice,
    "begins anew": _begins_anew,
}
