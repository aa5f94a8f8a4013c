"""What an experiment is: points to simulate, and a section of RESULTS.md made of those that are done."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from experiments.runner import Task
from experiments.store import Store


@dataclass(frozen=True)
class Selection:
    """What of an experiment to run. None: all that it has.

    ``loads`` are arrival rates (jobs/h), or numbers of jobs where all are there at the start. ``tiny`` is the same
    code on a small cluster with few jobs, for tests.
    """

    policies: tuple[str, ...] | None = None
    loads: tuple[float, ...] | None = None
    seeds: tuple[int, ...] | None = None
    rules: tuple[str, ...] = ("published",)
    tiny: bool = False

    def wants_policy(self, *names: str) -> bool:
        return self.policies is None or any(name in self.policies for name in names)

    def wants_load(self, load: float) -> bool:
        return self.loads is None or load in self.loads


class Experiment(Protocol):
    """A figure or a table: what has to be simulated for it, and what is then written."""

    @property
    def name(self) -> str:
        """What ``--only`` calls it."""

    def tasks(self, selection: Selection) -> list[Task]:
        """The points of the selection."""

    def report(self, store: Store, folder: Path, tiny: bool) -> str:
        """Write plots and tables of all that the store has; return the section of RESULTS.md."""


def markdown_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
