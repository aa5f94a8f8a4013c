"""The few lines that join policy, mechanism and backend, simulated or real."""

from collections.abc import Callable, Generator, Iterable
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


def questions(mechanism: Mechanism, backend: Backend) -> Generator[Snapshot, Allocation, None]:
    """Every snapshot that the mechanism asks a policy about, until the backend has no more events."""
    for event in backend.events():
        for command in mechanism.handle(event):
            if isinstance(command, Solve):
                now_s = backend.now_s
                backend.post(Allocated(now_s, (yield command.snapshot)))
            else:
                backend.execute(command)


def drive(mechanism: Mechanism, allocate: Callable[[Snapshot], Allocation], backend: Backend) -> None:
    """Run until the backend has no more events."""
    asked = questions(mechanism, backend)
    snapshot = next(asked, None)
    while snapshot is not None:
        try:
            snapshot = asked.send(allocate(snapshot))
        except StopIteration:
            return
