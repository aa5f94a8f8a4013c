"""DL2 as published: one network of fixed input and output hands out devices, action by action.

Legend: N kinds of jobs, L job types.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from gavelx.allocation import Allocation
from gavelx.errors import PolicyError, UserError
from gavelx.execution import Execution
from gavelx.policies.base import Policy
from gavelx.policies.learned import Learned
from gavelx.policies.lookahead import Model
from gavelx.policies.network import Network
from gavelx.slots.greedy import Steps
from gavelx.slots.model import NONE
from gavelx.slots.moves import Moves
from gavelx.slots.turns import in_turn
from gavelx.slots.window import Window
from gavelx.snapshot import Kind, Snapshot

KIND = "dl2"


@dataclass(frozen=True)
class Reads:
    """What a network of DL2 is for: these job types and accelerator types, so many jobs, slots of so long."""

    types: tuple[str, ...]
    accelerators: tuple[str, ...]
    jobs: int
    slot_s: float

    @property
    def note(self) -> dict[str, Any]:
        """For :class:`Network`."""
        return {"kind": KIND, **asdict(self)}

    @staticmethod
    def of(note: Mapping[str, Any]) -> "Reads":
        """What a note says. Raises ``KeyError``, ``TypeError`` or ``ValueError`` for one of something else."""
        if note["kind"] != KIND:
            raise ValueError(note["kind"])
        jobs, slot_s = int(note["jobs"]), float(note["slot_s"])
        if not 0 < slot_s < math.inf:
            raise ValueError(slot_s)
        return Reads(tuple(map(str, note["types"])), tuple(map(str, note["accelerators"])), jobs, slot_s)

    def window(self, moves: Moves, type_of_N: Sequence[str]) -> Window:
        """The window on jobs of these types. What is left counts in slots at a job's fastest, for its epochs."""
        place = {name: n for n, name in enumerate(self.types)}
        type_N = np.array([place.get(name, NONE) for name in type_of_N], dtype=np.int64)
        return Window(moves, type_N, moves.sizes.best_N * self.slot_s, len(self.types), self.jobs, self.slot_s)


class Dl2(Policy):
    """Ask the network for one action after the other, until it stops: the next size of one job, on one type.

    It is the form of DL2 for all-reduce, where a job has workers and no servers. The network sees the oldest jobs
    alone, as many as it learned with, and later ones wait; a job type that it has not learned is none of its
    types. A size for which there is no room is never taken.

    ``weights``: a file that `gavelx learn reinforce` wrote; it also says which types of jobs and accelerators it
    is for. Its digest is part of the policy's name. Raises :class:`UserError` for a file that holds no such one.

    Source: DL2 (Peng et al., "DL2: A deep learning-driven scheduler for deep learning clusters", 2019), sections
    4.1 and 4.2. Our deviations: a step leads to the next corner of speed over devices; a job's age counts from its
    arrival; what is left counts in slots at its fastest; an action without room is masked, and does not end the
    slot. :class:`Learned` has a network without fixed length.
    """

    ignores = ("weights",)
    uses = frozenset[Kind]({"sizes"})

    def __init__(self, weights: str | Path) -> None:
        self.file, self.network = Path(weights), Network.load(weights)
        expected = "a weights file that `gavelx learn reinforce` wrote"
        try:
            self.reads = reads = Reads.of(self.network.note)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError("holds no network of DL2", where=str(weights), expected=expected) from error
        A = len(reads.accelerators)
        wide = reads.jobs * (len(reads.types) + 3 + A), reads.jobs * A + 1
        if (len(self.network.mean_F), len(self.network.biases[-1])) != wide:
            raise UserError("its network is not what its note says", where=str(weights), expected=expected)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        begin_s, reads = perf_counter(), self.reads
        if tuple(snapshot.accelerators) != reads.accelerators:
            learned, asked = (", ".join(one) for one in (reads.accelerators, snapshot.accelerators))
            raise PolicyError(
                f"it learned on {learned}, and is asked about {asked}",
                where=str(self),
                hint="learn on such a cluster, or use `gavelx learn imitate`",
            )
        model, execution = Model.of(snapshot), Execution(refresh_s=reads.slot_s, whole_devices=True)
        if not len(model.job_N):
            return model.choices.none(execution)
        slots = model.slots(snapshot.steps_left_J[None, :], elapsed_s_J=snapshot.elapsed_s_J)
        moves = Moves.along(Steps.hull(model.sizes, snapshot.devices_A.astype(float)))
        window = reads.window(moves, [snapshot.jobs[j].job_type for j in model.job_N])
        size_N = in_turn(slots, moves, window.best(self.network.outputs))[0]
        seconds = perf_counter() - begin_s
        return model.choices.allocation(model.chosen_V(size_N), execution, path="network", seconds=seconds)

    def __repr__(self) -> str:
        return f"Dl2({str(self.file)!r})"

    def __str__(self) -> str:
        return f"dl2({self.file.name}, {self.network.digest})"


def decided_by(weights: str | Path) -> Learned | Dl2:
    """The policy of a weights file, of either kind. Raises :class:`UserError` for a file that holds none."""
    return Dl2(weights) if Network.load(weights).note.get("kind") == KIND else Learned(weights)
