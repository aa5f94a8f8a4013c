"""A policy that was learned: a small network says which steps are worth taking."""

import math
from pathlib import Path
from time import perf_counter

from gavelx.allocation import Allocation
from gavelx.errors import UserError
from gavelx.execution import Execution
from gavelx.policies.base import Policy
from gavelx.policies.lookahead import Model
from gavelx.policies.network import Network
from gavelx.slots.greedy import Steps
from gavelx.slots.model import NONE
from gavelx.slots.moves import FEATURES, Moves
from gavelx.slots.turns import handed_out
from gavelx.snapshot import Kind, Snapshot

SLOT_S = 360.0
"""For how long a decision holds, where the weights do not say."""


class Learned(Policy):
    """Of each job take the step that the network holds to be best, the best ones first while there is room; look
    again, until no step is better than none.

    A step begins a job in its least size on some type, or brings it to its next corner of speed over devices
    (:class:`gavelx.slots.greedy.Steps`). The network sees each step as numbers without a unit, so it may have
    learned from other jobs, fewer jobs and other clusters. A step for which there is no room is never taken.

    ``weights``: a file that :mod:`gavelx.learning` wrote. Its digest is part of the policy's name: a log or a
    result says by what was decided. ``slot_s``: for how long a decision holds; default: as when it was learned.
    Raises :class:`UserError` for a file that holds no such network.

    Source: DL2 (Peng et al., "DL2: A deep learning-driven scheduler for deep learning clusters", 2019), where a
    network hands out workers one by one (:class:`Dl2` does). Not kept: its input of fixed length and its 3 J + 1
    actions; there is one small network for every step of every job, so the order of jobs does not matter.
    """

    ignores = ("weights",)
    uses = frozenset[Kind]({"sizes"})

    def __init__(self, weights: str | Path, slot_s: float | None = None) -> None:
        self.file, self.network = Path(weights), Network.load(weights)
        slot = self.network.note.get("slot_s", SLOT_S) if slot_s is None else slot_s
        if not (isinstance(slot, int | float) and 0.0 < slot < math.inf):
            raise UserError(f"slot_s is {slot!r}", where=str(weights), expected="seconds, more than 0")
        self.slot_s = float(slot)
        if (wide := (len(self.network.mean_F), len(self.network.biases[-1]))) != (FEATURES, 1):
            problem = f"the network reads {wide[0]} numbers for each step, and says {wide[1]}"
            raise UserError(problem, where=str(weights), expected=f"{FEATURES} and 1, as this version has them")

    def allocate(self, snapshot: Snapshot) -> Allocation:
        begin_s = perf_counter()
        model, execution = Model.of(snapshot), Execution(refresh_s=self.slot_s, whole_devices=True)
        if not len(model.job_N):
            return model.choices.none(execution)
        slots = model.slots(snapshot.steps_left_J[None, :], elapsed_s_J=snapshot.elapsed_s_J)
        moves = Moves.along(Steps.hull(model.sizes, snapshot.devices_A.astype(float)))
        size_N = handed_out(slots, moves, self.network, self.slot_s)[0]
        assert ((size_N == NONE) | (model.speed_N(size_N) > 0.0)).all()
        seconds = perf_counter() - begin_s
        return model.choices.allocation(model.chosen_V(size_N), execution, path="network", seconds=seconds)

    def __repr__(self) -> str:
        slot = f", slot_s={self.slot_s:g}" if self.slot_s != self.network.note.get("slot_s", SLOT_S) else ""
        return f"Learned({str(self.file)!r}{slot})"

    def __str__(self) -> str:
        return f"learned({self.file.name}, {self.network.digest})"
