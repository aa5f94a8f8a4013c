"""Both stages of DL2 in rounds: round 0 imitates a scheduler, and each later one reinforces on other traces."""

import io
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from gavelx.learning.actor_critic import ActorCritic, Options
from gavelx.learning.lessons import Lesson
from gavelx.learning.supervised import cloned, demonstrated
from gavelx.policies.dl2 import Reads
from gavelx.policies.network import Network

TOLERANCE = 0.02


@dataclass(frozen=True, eq=False)
class Reinforced:
    """How far reinforcement has come: ``state`` is the learner's, as :func:`torch.save` writes it."""

    number: int
    network: Network
    moves: int
    state: bytes

    def arrays(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"state": np.frombuffer(self.state, dtype=np.uint8), "moves": np.array(self.moves)}

    @staticmethod
    def of(number: int, network: Network, arrays: Mapping[str, Any]) -> "Reinforced":
        """What those arrays hold."""
        return Reinforced(number, network, int(arrays["moves"]), arrays["state"].tobytes())


def reinforcement(
    lesson: Callable[[int], Lesson],
    reads: Reads,
    *,
    seed: int = 0,
    rounds: int = 20,
    steps: int = 1000,
    options: Options = Options(),  # noqa: B008  (frozen)
    tolerance: float = TOLERANCE,
    after: Reinforced | None = None,
) -> Generator[Reinforced, float, None]:
    """Imitate the teacher of a lesson, with so many steps; then reinforce on a lesson a round, up to ``rounds``.

    The rounds beyond the first ask nothing of the teacher. ``after`` goes on from an earlier round, and gives it
    once more, to hear what it is worth.

    What each round is worth on validation traces is sent back, less is better. One that is worse than the best one
    by more than ``tolerance``, a part of it, is undone: the next goes on from the best. DL2 has no such thing, and
    its learner drifts away (`experiments/results/dl2.md`); infinity leaves it out.
    """

    first = lesson(0)
    window = reads.window(first.moves, first.types)
    if after is None:
        seen = demonstrated(window, first.slots, first.teacher)
        learner = ActorCritic(window, cloned(window, seen, seed=seed, steps=steps), options, seed)
        after = _reached(0, learner, reads)
    else:
        learner = ActorCritic(window, after.network, options, seed)
        learner.restore(torch.load(io.BytesIO(after.state), weights_only=True))
    learner.judged((yield after), tolerance)
    for number in range(after.number + 1, rounds + 1):
        one = lesson(number)
        learner.window = reads.window(one.moves, one.types)
        learner.play(one.slots)
        learner.judged((yield _reached(number, learner, reads)), tolerance)


def _reached(number: int, learner: ActorCritic, reads: Reads) -> Reinforced:
    buffer = io.BytesIO()
    torch.save(learner.state(), buffer)
    network = replace(learner.network, note=reads.note)
    return Reinforced(number, network, learner.decisions, buffer.getvalue())
