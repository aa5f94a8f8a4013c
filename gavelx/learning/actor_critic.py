"""DL2's second stage: reinforcement, with an actor, a critic, job-aware exploration and a replay buffer.

Traces are played beside each other, slot by slot. All decisions of a slot earn the epochs that its jobs train in
it, each as a part of all epochs of the job (DL2, section 4.1). After each slot the actor and the critic learn from
decisions of the last slots, drawn from a buffer.

Legend: K clusters, J jobs of each, I inputs, A actions, D coordinates of a size, b decisions of a batch.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gavelx.learning.supervised import Decisions, arrays_of, masked, multilayer, noted, torch_of
from gavelx.policies.network import Network
from gavelx.slots.model import NONE, Bools, Floats, Ints, Schedule, Slots, chosen
from gavelx.slots.turns import Choose, Turn, in_turn
from gavelx.slots.window import Window

UNEVEN = 10
"""So many times more workers than servers, or the other way round, are a poor state."""
AVERAGE = 0.05
"""By how much the mean reward, the baseline where there is no critic, follows the latest one."""


@dataclass(frozen=True)
class Options:
    """DL2's (section 4), each of which its Table 2 leaves out; ``explore`` is its epsilon.

    ``replay``: decisions in the buffer; 0 learns from those of the last slot alone.
    """

    rate: float = 1e-4
    discount: float = 0.9
    entropy: float = 0.1
    explore: float = 0.4
    replay: int = 8192
    batch: int = 256
    critic: bool = True


@dataclass(frozen=True, eq=False)
class Experience:
    """Decisions, what their slots earned, and what was seen at the beginning of the next one."""

    decisions: Decisions
    reward_n: NDArray[np.float32]
    next_nI: NDArray[np.float32]

    def take(self, n_b: Ints) -> "Experience":
        one = self.decisions
        taken = Decisions(one.x_nI[n_b], one.open_nA[n_b], one.action_n[n_b], one.row_n[n_b])
        return Experience(taken, self.reward_n[n_b], self.next_nI[n_b])

    @staticmethod
    def together(one: "Experience", other: "Experience") -> "Experience":
        return Experience(
            Decisions.together([one.decisions, other.decisions]),
            np.concatenate([one.reward_n, other.reward_n]),
            np.concatenate([one.next_nI, other.next_nI]),
        )


class ActorCritic:
    """A learner that begins as a network is."""

    def __init__(self, window: Window, begin: Network, options: Options = Options(), seed: int = 0) -> None:
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        self.window, self.options, self.random = window, options, np.random.default_rng([seed, 34])
        self.scale_I = begin.scale_F.astype(np.float32)
        self.actor, self.critic = torch_of(begin), multilayer(window.inputs, 1)
        both = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(both, lr=options.rate)
        self.buffer: Experience | None = None
        self.mean_reward, self.decisions = 0.0, 0
        self.least, self.best = float("inf"), self._weights()

    @property
    def network(self) -> Network:
        """The actor without torch."""
        return arrays_of(self.actor, self.scale_I)

    def play(self, slots: Slots, most: int = 1000) -> None:
        """Learn from whole traces, or so many slots of them."""
        whole_KJ = np.maximum(slots.left_KJ, 1e-300)
        for _ in range(most):
            if slots.over_K.all():
                break
            found: list[Decisions] = []
            later = slots.advance(chosen(slots, self._schedule(found)), self.window.slot_s)
            if found:
                reward_K = ((slots.left_KJ - later.left_KJ) / whole_KJ).sum(axis=1)
                self._learn(Decisions.together(found), reward_K, self._beginning(later))
            slots = later

    def judged(self, worth: float, tolerance: float) -> None:
        """What the network is worth, less is better. One worse than the best by more than a part is undone."""
        if worth < self.least:
            self.least, self.best = worth, self._weights()
        elif worth > self.least * (1.0 + tolerance):
            self.actor.load_state_dict(self.best["actor"])
            self.critic.load_state_dict(self.best["critic"])
            self.buffer = None

    def _weights(self) -> dict[str, Any]:
        return deepcopy({"actor": self.actor.state_dict(), "critic": self.critic.state_dict()})

    def _schedule(self, into: list[Decisions]) -> Schedule:
        def schedule(seen: Slots) -> Ints:
            return in_turn(seen, self.window.moves, noted(self.window, self._by_chance, into))

        return schedule

    def _by_chance(self, turn: Turn) -> Ints:
        """An action as likely as the actor holds it to be, or in a poor state at times the one that mends it."""
        open_KA = self.window.open_KA(turn)
        x_KI = torch.from_numpy(self.window.seen(turn.slots, turn.size_KJ) * self.scale_I)
        with torch.no_grad():
            logit_KA = masked(self.actor(x_KI), torch.from_numpy(open_KA)).numpy()
        action_K = (logit_KA + self.random.gumbel(size=logit_KA.shape)).argmax(axis=1)
        move_K = self.window.move_K(action_K)
        if self.options.explore <= 0.0:
            return move_K
        better_K = mends(self.window, turn)
        mend_K = (better_K != NONE) & (self.random.random(len(move_K)) < self.options.explore)
        return np.where(mend_K, better_K, move_K)

    def _beginning(self, slots: Slots) -> NDArray[np.float32]:
        """What is seen at the beginning of a slot; zero where no job is there."""
        seen, _ = slots.live()
        return self.window.seen(seen, np.full(seen.kind_KJ.shape, NONE))

    def _learn(self, found: Decisions, reward_K: Floats, next_KI: NDArray[np.float32]) -> None:
        """As many batches as there were decisions for."""
        rows = found.row_n
        latest = Experience(found, reward_K[rows].astype(np.float32), next_KI[rows])
        self.decisions += len(rows)
        self.mean_reward += AVERAGE * (float(reward_K.mean()) - self.mean_reward)
        replay, batch = self.options.replay, self.options.batch
        before = self.buffer if replay else None
        whole = latest if before is None else Experience.together(before, latest)
        if replay:
            whole = whole.take(np.arange(max(0, len(whole.reward_n) - replay), len(whole.reward_n)))
        self.buffer = whole
        for _ in range(max(1, len(rows) // batch)):
            self._step(whole.take(self.random.integers(len(whole.reward_n), size=batch)))

    def _step(self, batch: Experience) -> None:
        """One step of Adam: -log p(action) advantage - entropy, and the critic's squared error."""
        scale_I, options = torch.from_numpy(self.scale_I), self.options
        x_bI, next_bI = (torch.from_numpy(one) * scale_I for one in (batch.decisions.x_nI, batch.next_nI))
        reward_b = torch.from_numpy(batch.reward_n)
        loss = torch.zeros(())
        if options.critic:
            value_b = self.critic(x_bI)[:, 0]
            with torch.no_grad():
                later_b = torch.where((next_bI != 0.0).any(dim=1), self.critic(next_bI)[:, 0], 0.0)
                target_b = reward_b + options.discount * later_b
            advantage_b = (target_b - value_b).detach()
            loss = loss + nn.functional.mse_loss(value_b, target_b)
        else:
            advantage_b = reward_b - self.mean_reward
        open_bA = torch.from_numpy(batch.decisions.open_nA)
        logp_bA = masked(self.actor(x_bI), open_bA).log_softmax(dim=1)
        action_b = torch.from_numpy(batch.decisions.action_n)
        entropy = -(logp_bA.exp() * logp_bA.masked_fill(~open_bA, 0.0)).sum(dim=1).mean()
        gain = (logp_bA.gather(1, action_b[:, None])[:, 0] * advantage_b).mean()
        loss = loss - gain - options.entropy * entropy
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def state(self) -> dict[str, Any]:
        """All that is needed to go on, for ``torch.save``."""
        buffer = self.buffer
        return {
            **self._weights(),
            "least": self.least,
            "best": self.best,
            "optimizer": self.optimizer.state_dict(),
            "random": self.random.bit_generator.state,
            "mean_reward": self.mean_reward,
            "decisions": self.decisions,
            "buffer": None if buffer is None else [torch.from_numpy(one) for one in _columns(buffer)],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.actor.load_state_dict(state["actor"])
        self.critic.load_state_dict(state["critic"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.random.bit_generator.state = state["random"]
        self.mean_reward, self.decisions = float(state["mean_reward"]), int(state["decisions"])
        self.least, self.best = float(state["least"]), state["best"]
        if state["buffer"] is not None:
            *decisions, reward_n, next_nI = (one.numpy() for one in state["buffer"])
            self.buffer = Experience(Decisions(*decisions), reward_n, next_nI)


def mends(window: Window, turn: Turn) -> Ints:
    """The move that mends a poor state, ``NONE`` where there is room for none, or the state is not poor.

    Poor are several workers without a server, several servers without a worker, and many times more of one than of
    the other (DL2, section 4.3); moves are a worker, a server, or both. Without servers no state is poor.
    """
    moves, J = window.moves, min(window.jobs, turn.size_KJ.shape[1])
    if moves.grade_NVD.shape[2] != 2 or moves.next_NWM.shape[2] != 3:
        return np.full(len(turn.row_K), NONE)
    size_KJ, allowed_KJM = turn.size_KJ[:, :J], turn.allowed_KJM[:, :J]
    count_KJD = moves.grade_NVD[turn.slots.kind_KJ[:, :J], size_KJ] * (size_KJ != NONE)[:, :, None]
    worker_KJ, server_KJ = count_KJD[:, :, 0], count_KJD[:, :, 1]
    poor_KJM = np.zeros(allowed_KJM.shape, dtype=bool)
    poor_KJM[:, :, 0] = _short_of(worker_KJ, server_KJ)
    poor_KJM[:, :, 1] = _short_of(server_KJ, worker_KJ)
    flat_KX = (poor_KJM & allowed_KJM).reshape(len(size_KJ), -1)
    return np.where(flat_KX.any(axis=1), flat_KX.argmax(axis=1), NONE)


def _short_of(few_KJ: Ints, many_KJ: Ints) -> Bools:
    return np.asarray((many_KJ > 1) & (many_KJ > UNEVEN * few_KJ))


def greedy(window: Window, network: Network) -> Schedule:
    """What the network decides: its best action, again and again."""
    choose: Choose = window.best(network.outputs)
    return lambda slots: in_turn(slots, window.moves, choose)


def _columns(one: Experience) -> tuple[NDArray[Any], ...]:
    found = one.decisions
    return found.x_nI, found.open_nA, found.action_n, found.row_n, one.reward_n, one.next_nI
