"""The few lines that join policy, mechanism and backend, simulated or real."""

from collections.abc import Callable, Iterable
from typing import Protocol

from gavelx.allocation import Allocation
from gavelx.mechanism import Mechanism
from gavelx.mechanism.commands import Command, Solve
from gavelx.mechanism.events import Allocated, Event
from gavelx.snapshot import Snapshot


class Backend(Protocol):
    """Where jobs run: it yields events in order of time and carries out commands."""

    now_s: float

    def events(self) -> Iterable[Event]:
        """Yield events until no more can happen."""

    def execute(self, command: Command) -> None:
        """Carry out a command of the mechanism; its outcome is reported as events."""

    def post(self, event: Event) -> None:
        """Add an event from outside the backend, such as a policy's answer."""


def drive(mechanism: Mechanism, allocate: Callable[[Snapshot], Allocation], backend: Backend) -> None:
    """Run until the backend has no more events."""
    for event in backend.events():
        for command in mechanism.handle(event):
            if isinstance(command, Solve):
                backend.post(Allocated(backend.now_s, allocate(command.snapshot)))
            else:
                backend.execute(command)
