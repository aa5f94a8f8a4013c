"""Learn the moves of a schedule that is too slow, or knows too much, to be asked each time.

In each slot the teacher says in which sizes jobs should run. Every move of every job is then a question with an
answer: is it on the way there? The network learns the answers, so neither the order of moves nor that of jobs is
learned with them. From the second round on the student hands out devices itself, and the teacher says what it
would have done there (DAgger; Ross, Gordon and Bagnell, AISTATS'11).

Legend: K clusters, J jobs of each, M moves of a job, F features, n moves that were seen.
"""

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gavelx.learning.lessons import Lesson
from gavelx.policies.network import Network
from gavelx.slots.model import NONE, Slots
from gavelx.slots.moves import FEATURES, Moves
from gavelx.slots.turns import Score, handed_out

HIDDEN = (64, 64)
BATCH = 4096
SEEN = 0.5
"""The part of the states of a slot from which moves are learned."""


@dataclass(frozen=True, eq=False)
class Seen:
    """Moves that were seen, and whether each was on the way to what the teacher wanted."""

    features_nF: NDArray[np.float32]
    right_n: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Round:
    """How far learning has come after so many rounds: all that is needed to go on."""

    number: int
    network: Network
    seen: tuple[Seen, ...]
    random_state: dict[str, Any]

    @property
    def moves(self) -> int:
        """The number of moves seen so far."""
        return sum(len(one.right_n) for one in self.seen)

    def arrays(self) -> dict[str, Any]:
        """For a checkpoint."""
        arrays: dict[str, Any] = {"random": np.array(json.dumps(self.random_state))}
        for n, seen in enumerate(self.seen):
            arrays |= {f"features{n}": seen.features_nF, f"right{n}": seen.right_n}
        return arrays

    @staticmethod
    def of(number: int, network: Network, arrays: Mapping[str, Any]) -> "Round":
        """What those arrays hold."""
        seen = tuple(Seen(arrays[f"features{n}"], arrays[f"right{n}"]) for n in range(number))
        return Round(number, network, seen, dict(json.loads(str(arrays["random"]))))


def seen_in(lesson: Lesson, random: np.random.Generator, student: Score | None = None) -> Seen:
    """Moves of whole traces. The student's sizes are carried out; where it hands out nothing, so that the trace
    would never end, and without a student, the teacher's."""
    slots, slot_s = lesson.slots, lesson.slot_s
    features, right = [np.zeros((0, FEATURES), dtype=np.float32)], [np.zeros(0, dtype=np.float32)]
    while not slots.over_K.all():
        seen, job_KL = slots.live()
        size_KJ = np.full(slots.kind_KJ.shape, NONE)
        if job_KL.shape[1]:
            target_KL = np.where(seen.live_KJ, lesson.teacher(seen), NONE)
            for features_nF, right_n in _on_the_way(lesson.moves, seen, target_KL, slot_s, random):
                features.append(features_nF)
                right.append(right_n)
            done_KL = target_KL if student is None else handed_out(seen, lesson.moves, student, slot_s)
            done_KL = np.where((done_KL != NONE).any(axis=1, keepdims=True), done_KL, target_KL)
            np.put_along_axis(size_KJ, job_KL, np.where(seen.live_KJ, done_KL, NONE), axis=1)
        slots = slots.advance(size_KJ, slot_s)
    return Seen(np.concatenate(features), np.concatenate(right))


def _on_the_way(
    moves: Moves, slots: Slots, target_KJ: NDArray[np.int64], slot_s: float, random: np.random.Generator
) -> "list[tuple[NDArray[np.float32], NDArray[np.float32]]]":
    """States between no device and the teacher's sizes, one move after the other in an order that is drawn.

    One move in twenty is not on the way, so that states beyond the teacher's are seen, too.
    """
    found, size_KJ, rows = [], np.full(target_KJ.shape, NONE), np.arange(len(target_KJ))
    while len(rows):
        part = slots.take(rows)
        allowed_KJM = moves.allowed_KJM(part, size_KJ[rows])
        right_KJM = moves.towards_KJM(part, size_KJ[rows], target_KJ[rows])
        look_K = random.random(len(rows)) < SEEN
        if look_K.any():
            chosen = part.take(np.flatnonzero(look_K))
            shown_KJM = allowed_KJM[look_K]
            features = moves.features(chosen, size_KJ[rows][look_K], slot_s)
            found.append((features[shown_KJM], right_KJM[look_K][shown_KJM].astype(np.float32)))
        errs_K11 = (random.random(len(rows)) < 0.05)[:, None, None]
        open_KJM = allowed_KJM & (right_KJM | (errs_K11 & right_KJM.any(axis=(1, 2), keepdims=True)))
        draw_K = np.where(open_KJM, random.random(open_KJM.shape), -1.0).reshape(len(rows), -1)
        flat_K = draw_K.argmax(axis=1)
        goes_K = draw_K.max(axis=1) >= 0.0
        j_K, m_K = (one[goes_K] for one in np.divmod(flat_K, allowed_KJM.shape[2]))
        kind_K = part.kind_KJ[goes_K][np.arange(len(j_K)), j_K]
        rows = rows[goes_K]
        size_KJ[rows, j_K] = moves.next_NWM[kind_K, size_KJ[rows, j_K], m_K]
    return found


def fitted(seen: Sequence[Seen], seed: int, steps: int) -> Network:
    """A network that tells right moves from others: cross-entropy, Adam, a learning rate that falls to zero."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    features_nF = torch.from_numpy(np.concatenate([one.features_nF for one in seen]))
    right_n = torch.from_numpy(np.concatenate([one.right_n for one in seen]))
    mean_F, scale_F = features_nF.mean(dim=0), 1.0 / features_nF.std(dim=0).clamp(min=1e-3)
    net = perceptron()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    loss_of = nn.BCEWithLogitsLoss()
    for _ in range(steps):
        batch = torch.randint(len(right_n), (BATCH,))
        loss = loss_of(net((features_nF[batch] - mean_F) * scale_F)[:, 0], right_n[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return as_arrays(net, mean_F, scale_F)


def perceptron() -> nn.Sequential:
    """The network in torch."""
    wide = (FEATURES, *HIDDEN)
    layers = [each for before, after in pairwise(wide) for each in (nn.Linear(before, after), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(wide[-1], 1))


def as_arrays(net: nn.Sequential, mean_F: torch.Tensor, scale_F: torch.Tensor) -> Network:
    """The same network without torch."""
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    return Network(
        mean_F.numpy(),
        scale_F.numpy(),
        tuple(layer.weight.detach().numpy().T.copy() for layer in linear),
        tuple(layer.bias.detach().numpy().copy() for layer in linear),
    )


def imitation(
    lesson: Callable[[int], Lesson],
    *,
    seed: int = 0,
    rounds: int = 3,
    steps: int = 600,
    slot_s: float | None = None,
    after: Round | None = None,
) -> Generator[Round, float, None]:
    """Learn from a lesson a round; the traces of each are others. ``after`` goes on from an earlier round.

    ``slot_s`` is noted in the weights: for how long a decision holds.
    """
    random = np.random.default_rng([seed, 25])
    seen, network = (after.seen, after.network) if after is not None else ((), None)
    if after is not None:
        random.bit_generator.state = after.random_state
    for number in range(after.number if after is not None else 0, rounds):
        seen = (*seen, seen_in(lesson(number), random, network))
        network = replace(fitted(seen, seed, steps), note={} if slot_s is None else {"slot_s": slot_s})
        yield Round(number + 1, network, seen, dict(random.bit_generator.state))


def imitated(lesson: Callable[[int], Lesson], *, seed: int = 0, rounds: int = 3, steps: int = 600) -> Network:
    """The network after the last round."""
    *_, last = imitation(lesson, seed=seed, rounds=rounds, steps=steps)
    return last.network
