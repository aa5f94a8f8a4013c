"""All that a job is: what a checkpoint has, and what a process that joins gets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gavelx.training import objects
from gavelx.training.checkpoints import CheckpointError
from gavelx.training.contexts import seed_all
from gavelx.training.curve import Curve
from gavelx.training.determinism import Bits
from gavelx.training.gang import Agreement
from gavelx.training.position import Reader
from gavelx.training.progress import Progress
from gavelx.training.updates import Updates

FORMAT = 2
READABLE = (1, 2)
"""Format 1 has no position in samples; its number of processes is the number of generator states."""
Content = dict[str, Any]
"""Tensors, numbers, texts, and lists and dicts of these."""


@dataclass
class State:
    """Collects the state of a job from its owners, and gives it back to them.

    ``objects`` are those of the script, by name. ``processes_then`` is the number of processes that saved the
    state.
    """

    objects: Mapping[str, Any]
    progress: Progress
    reader: Reader
    curve: Curve
    bits: Bits
    updates: Updates | None
    processes_then: int = 1

    def generators(self) -> dict[str, Any]:
        """Those of this process, and of the logical workers that it computes."""
        return self.reader.states() | {"contexts": self.updates.generators() if self.updates else {}}

    def saved(self, generators: list[dict[str, Any]], processes: int) -> Content:
        """For a checkpoint, with the generators of all processes."""
        contexts = {number: one for states in generators for number, one in states.pop("contexts").items()}
        return self.content(generators, contexts, processes)

    def content(self, generators: list[dict[str, Any]], contexts: dict[int, Any], processes: int) -> Content:
        return {
            "format": FORMAT,
            **self.progress.state_dict(),
            "curve": self.curve.state_dict(),
            "parts": {name: objects.state_of(name, one) for name, one in self.objects.items()},
            "chance": generators,
            "contexts": contexts,
            "world_size": processes,
            "made_with": self.bits.made_with(processes),
            "bits_kept": self.bits.kept,
            **(self.updates.state_dict() if self.updates else {}),
        }

    def put(self, content: Content) -> None:
        """Take the state of a checkpoint, or as a joiner that of the others; all but generators of processes."""
        for name, state in content["parts"].items():
            objects.put_state(self.objects[name], state)
        self.progress.load_state_dict(content)
        self.curve.load_state_dict(content.get("curve", {}))
        self.processes_then = content.get("world_size") or len(content["chance"])
        if self.updates is not None:
            self.updates.load_state_dict(content)

    def put_generators(self, generators: list[dict[str, Any]], agreement: Agreement, seed: int) -> None:
        """Those of the process of our rank, if there was one; others are seeded anew."""
        if len(generators) != agreement.world_size:
            self.progress.batch = self.progress.batch * len(generators) // agreement.world_size
        if agreement.rank < len(generators):
            self.reader.take(generators[agreement.rank])
        else:
            seed_all(seed, int(self.progress.step), agreement.rank)
            self.reader.begin_anew()

    def count_batches(self, loader: Any, processes: int) -> None:
        """The position of a rigid job, where the checkpoint is of an elastic one, which counts samples."""
        at = self.progress
        if at.seen:
            at.batch, at.seen = at.seen // ((getattr(loader, "batch_size", None) or 1) * processes), 0

    def count_samples(self, loader: Any) -> None:
        """The position of an elastic job, where the checkpoint is of a rigid one, which counts batches."""
        at = self.progress
        if at.batch:
            seen = at.batch * loader.batch_size * self.processes_then
            at.seen, at.batch = min(len(loader.dataset), seen), 0

    def check_fits(self, name: str, content: Content) -> None:
        """Raises :class:`CheckpointError` for a checkpoint of another script, or of another time."""
        if content.get("format") not in READABLE:
            known = " and ".join(map(str, READABLE))
            raise CheckpointError(f"{name} is of format {content.get('format')}; this gavelx knows {known}")
        if content["parts"].keys() != self.objects.keys():
            here, there = ", ".join(self.objects), ", ".join(content["parts"])
            raise CheckpointError(f"{name} holds {there}; this script saves {here}")

    def check_bits(self, name: str, content: Content, agreement: Agreement) -> None:
        """Whether the bits of ``name`` can be continued, on all processes."""
        then = dict(content["made_with"])
        if "processes" not in then and content.get("chance"):
            then["processes"] = len(content["chance"])
        now = self.bits.made_with(agreement.world_size)
        self.bits.check(name, then, now, content.get("bits_kept", True))
        self.bits.kept = agreement.total(float(not self.bits.kept))[0] == 0
