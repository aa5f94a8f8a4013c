"""DL2's first stage: a network of fixed length learns the actions of a scheduler that is there already.

Legend: I inputs, A actions, n decisions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gavelx.policies.network import Network
from gavelx.slots.model import NONE, Bools, Ints, Schedule, Slots, chosen
from gavelx.slots.turns import Choose, Turn, in_turn
from gavelx.slots.window import OWN, Window

HIDDEN = (256, 256)
BATCH, RATE = 256, 0.005


@dataclass(frozen=True, eq=False)
class Decisions:
    """What was seen, which actions there were, and which one was taken; ``row_n``: on which cluster."""

    x_nI: NDArray[np.float32]
    open_nA: Bools
    action_n: Ints
    row_n: Ints

    @staticmethod
    def together(parts: "Sequence[Decisions]") -> "Decisions":
        columns = ("x_nI", "open_nA", "action_n", "row_n")
        return Decisions(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))


def noted(window: Window, choose: Choose, into: list[Decisions]) -> Choose:
    """The same choices, each of which is noted."""

    def choose_and_note(turn: Turn) -> Ints:
        move_K = choose(turn)
        action_K = np.where(move_K == NONE, window.actions - 1, move_K)
        into.append(Decisions(window.seen(turn.slots, turn.size_KJ), window.open_KA(turn), action_K, turn.row_K))
        return move_K

    return choose_and_note


def demonstrated(window: Window, slots: Slots, teacher: Schedule) -> Decisions:
    """The actions of whole traces that lead to the sizes of a teacher, which are carried out."""
    found: list[Decisions] = []

    def schedule(seen: Slots) -> Ints:
        target_KJ = np.where(seen.live_KJ, teacher(seen), NONE)
        in_turn(seen, window.moves, noted(window, window.towards(target_KJ), found))
        return target_KJ

    while not slots.over_K.all():
        slots = slots.advance(chosen(slots, schedule), window.slot_s)
    return Decisions.together(found)


def cloned(window: Window, seen: Decisions, *, seed: int = 0, steps: int = 3000) -> Network:
    """A network that takes the same actions: cross-entropy over those for which there was room, Adam.

    DL2's inputs are raw numbers; here each is divided by its standard deviation over all jobs that were seen.
    """
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    scale_I = _scale(window, seen)
    x_nI, open_nA, action_n = (torch.from_numpy(one) for one in (seen.x_nI * scale_I, seen.open_nA, seen.action_n))
    net = multilayer(window.inputs, window.actions)
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
    falls = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        batch = torch.randint(len(action_n), (BATCH,))
        loss = nn.functional.cross_entropy(masked(net(x_nI[batch]), open_nA[batch]), action_n[batch])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        falls.step()
    return arrays_of(net, scale_I)


def agreement(window: Window, network: Network, seen: Decisions) -> float:
    """The part of the decisions in which the network would do the same."""
    logit_nA = np.where(seen.open_nA, network.outputs(seen.x_nI), -np.inf)
    return float((logit_nA.argmax(axis=1) == seen.action_n).mean())


def multilayer(inputs: int, outputs: int) -> nn.Sequential:
    """DL2's network: two hidden layers of 256."""
    wide = (inputs, *HIDDEN)
    layers = [each for before, after in pairwise(wide) for each in (nn.Linear(before, after), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(wide[-1], outputs))


def masked(logit_nA: torch.Tensor, open_nA: torch.Tensor) -> torch.Tensor:
    """Actions for which there is no room are never taken."""
    return logit_nA.masked_fill(~open_nA, -1e9)


def arrays_of(net: nn.Sequential, scale_I: NDArray[np.float32]) -> Network:
    """The same network without torch."""
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    return Network(
        0.0 * scale_I,
        scale_I,
        tuple(layer.weight.detach().numpy().T.copy() for layer in linear),
        tuple(layer.bias.detach().numpy().copy() for layer in linear),
    )


def torch_of(network: Network) -> nn.Sequential:
    """The network in torch; its inputs are scaled before."""
    layers: list[nn.Module] = []
    for weight, bias in zip(network.weights, network.biases, strict=True):
        linear = nn.Linear(*weight.shape)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(weight.T.copy()))
            linear.bias.copy_(torch.from_numpy(bias.copy()))
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _scale(window: Window, seen: Decisions) -> NDArray[np.float32]:
    """One over the standard deviation of each input of a job, the same for every place in the window."""
    x_nF = seen.x_nI.reshape(-1, window.wide)
    there = x_nF[x_nF.any(axis=1)]
    scale_F = 1.0 / np.maximum(there.std(axis=0), 1e-3)
    scale_F[: window.types] = 1.0
    assert len(scale_F) > window.types + OWN
    return np.tile(scale_F, window.jobs).astype(np.float32)
