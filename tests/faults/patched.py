"""gavelx as it is, in a world that is not: ``python -m tests.faults.patched FOLDER GARBLES PLANT COMMAND ...``.

What is changed is around the product: the wall clock jumps about by years all the time; writes take as long as the
file FOLDER/slow says; an agent's messages are doubled and reordered. Only a *planted* bug changes the product.
"""

import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.faults.plants import PLANTS

YEARS_S = 3e8
REALLY = time.time


def jumping() -> float:
    """A wall clock that nobody may believe."""
    return REALLY() + random.uniform(-YEARS_S, YEARS_S)


def slowed(write: Callable[..., Any], folder: Path) -> Callable[..., Any]:
    """The same write on a disk that may be slow now."""

    def slow(*arguments: Any, **named: Any) -> Any:
        with suppress(OSError, ValueError):
            time.sleep(float((folder / "slow").read_text()))
        return write(*arguments, **named)

    return slow


class Garbled:
    """Messages in another order, and some of them twice."""

    def __init__(self, garbles: float) -> None:
        self.garbles = garbles
        self._later: list[Any] = []

    def again(self, message: Any) -> list[Any]:
        """What comes out when this one comes in."""
        late = [each for each in self._later if random.random() < 0.5]
        self._later = [each for each in self._later if each not in late]
        if random.random() < self.garbles:
            self._later.append(message)  # it is overtaken,
            return late if random.random() < 0.5 else [message, *late]  # or comes twice
        return [message, *late]

    def forget(self) -> None:
        self._later.clear()


def garble(agent: Any, garbles: float) -> None:
    """Put a bad messenger between the agent and its stream; hello and welcome stay where they are."""
    heard, said = Garbled(garbles), Garbled(garbles)
    hello, receive, due = agent.hello, agent.receive, agent.due

    def new_stream(self: Any) -> Any:
        heard.forget()
        said.forget()
        return hello(self)

    def hear(self: Any, message: Any) -> None:
        for each in [message] if message.HasField("welcome") else heard.again(message):
            receive(self, each)

    def say(self: Any) -> list[Any]:
        return [each for message in due(self) for each in said.again(message)]

    agent.hello, agent.receive, agent.due = new_stream, hear, say


def main() -> None:
    folder, garbles, plant, *words = sys.argv[1:]
    time.time = jumping
    import gavelx.worker.devices
    import gavelx.worker.state
    from gavelx.cli import main as gavelx_main
    from gavelx.service.store.database import Store
    from gavelx.worker.agent import Agent

    gavelx.worker.devices._gpus = lambda: ([], 0)  # devices are what was declared, wherever this runs
    gavelx.worker.devices.visible_ids = lambda: None
    Store.write = slowed(Store.write, Path(folder))  # type: ignore[method-assign]
    gavelx.worker.state.write_json = slowed(gavelx.worker.state.write_json, Path(folder))
    if float(garbles):
        garble(Agent, float(garbles))
    if plant:
        PLANTS[plant]()
    sys.argv = ["gavelx", *words]
    gavelx_main()


if __name__ == "__main__":
    main()
