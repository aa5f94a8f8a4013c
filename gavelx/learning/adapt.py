"""Reinforcement of the network that has no fixed length: what imitation learned is adapted to the cluster at hand.

Each time that the network looks, every job draws one of its moves, or none, as likely as the network holds it to
be good; so many jobs change at once, where one action after the other would have to change together. A slot costs
the time that jobs spent in it: the sum is the total completion time, exactly. Each trace is played several times,
and what a play cost from some slot on counts against the mean of all plays of that trace there, so arrivals, which
no critic can foresee, are not counted (PPO, Schulman et al., 2017, with this baseline).

Legend: K clusters, J jobs of each, M moves of a job, F features, T slots, n draws of a job.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gavelx.learning.imitate import as_arrays
from gavelx.learning.lessons import Lesson
from gavelx.learning.supervised import torch_of
from gavelx.policies.network import Network
from gavelx.slots.model import NONE, Bools, Floats, Ints, Slots, chosen
from gavelx.slots.moves import Moves
from gavelx.slots.turns import carried_out

PLAYS, SHARP = 4, 2.0
"""Plays of each trace; and by how much draws are surer than what the network learned to say by imitation."""
DISCOUNT, CLIP, RATE, EPOCHS, BATCH = 0.9, 0.2, 3e-4, 2, 2048
PATIENCE = 300
"""Slots after which a play is stopped."""


@dataclass(frozen=True, eq=False)
class Draws:
    """What jobs drew: the features of their moves, which of them had room, the draw (M: none), and how likely it
    was; ``place_n``: on which cluster, and in which slot."""

    features_nMF: NDArray[np.float32]
    open_nM: Bools
    draw_n: Ints
    logp_n: NDArray[np.float32]
    place_n: Ints


class Played(NamedTuple):
    """The draws of whole plays, and what each slot of each cost, in slots of a job (K x T)."""

    draws: Draws
    cost_KT: Floats


World = tuple[Slots, Moves, float]
"""Traces, how their jobs grow, and the seconds of a slot."""


@dataclass(frozen=True, eq=False)
class Adapted:
    """How far adaptation has come: a round needs nothing of the ones before but their network."""

    number: int
    network: Network
    moves: int

    def arrays(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"moves": np.array(self.moves)}

    @staticmethod
    def of(number: int, network: Network, arrays: Mapping[str, Any]) -> "Adapted":
        """What those arrays hold."""
        return Adapted(number, network, int(arrays["moves"]))


def adaptation(
    lesson: Callable[[int], Lesson],
    network: Network,
    *,
    seed: int = 0,
    rounds: int = 12,
    after: Adapted | None = None,
) -> Generator[Adapted, float, None]:
    """A round on each lesson, up to ``rounds``; round 0 is the network as it came.

    ``after`` goes on from an earlier round, and gives it once more.
    """
    after = Adapted(0, network, 0) if after is None else after
    yield after
    for number in range(after.number + 1, rounds + 1):
        one = lesson(number)
        world = (one.slots, one.moves, one.slot_s)
        learned, moves = _round(after.network, world, seed=1000 * seed + number)
        after = Adapted(number, learned, after.moves + moves)
        yield after


def adapted(network: Network, world: World, *, seed: int) -> Network:
    """The network after a round: the traces are played several times, and it learns from what was better."""
    return _round(network, world, seed=seed)[0]


def _round(network: Network, world: World, *, seed: int) -> tuple[Network, int]:
    """The same, and how many draws it learned from."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    slots, moves, slot_s = world
    net = torch_of(network)
    every_K = np.repeat(np.arange(len(slots.kind_KJ)), PLAYS)
    random = np.random.default_rng([seed, 36])
    played = _played(net, network, (slots.take(every_K), moves, slot_s), random)
    _improve(net, network, played.draws, _advantages(played))
    after = replace(as_arrays(net, *(torch.from_numpy(one) for one in _ends(network))), note=network.note)
    return after, len(played.draws.draw_n)


def _ends(network: Network) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return network.mean_F.astype(np.float32), network.scale_F.astype(np.float32)


def _logits(
    net: nn.Sequential, network: Network, features_nMF: NDArray[np.float32], open_nM: Bools
) -> torch.Tensor:
    """Of each move, and last of none."""
    mean_F, scale_F = _ends(network)
    value_nM = SHARP * net(torch.from_numpy((features_nMF - mean_F) * scale_F))[..., 0]
    value_nM = value_nM.masked_fill(~torch.from_numpy(open_nM), -1e9)
    return torch.cat([value_nM, torch.zeros(len(value_nM), 1)], dim=1).log_softmax(dim=1)


def _played(net: nn.Sequential, network: Network, world: World, random: np.random.Generator) -> Played:
    """Whole plays, each on a cluster of its own."""
    slots, moves, slot_s = world
    found: list[Draws] = []
    costs: list[Floats] = []

    def schedule(seen: Slots) -> Ints:
        size_KJ = np.full(seen.kind_KJ.shape, NONE)
        going_KJ = seen.live_KJ
        while True:
            allowed_KJM = moves.allowed_KJM(seen, size_KJ) & going_KJ[:, :, None]
            k_n, j_n = np.nonzero(allowed_KJM.any(axis=2))
            if not len(k_n):
                return size_KJ
            features_nMF, open_nM = moves.features(seen, size_KJ, slot_s)[k_n, j_n], allowed_KJM[k_n, j_n]
            with torch.no_grad():
                logp_nX = _logits(net, network, features_nMF, open_nM).numpy()
            draw_n = (logp_nX + random.gumbel(size=logp_nX.shape)).argmax(axis=1)
            logp_n = logp_nX[np.arange(len(draw_n)), draw_n]
            found.append(Draws(features_nMF, open_nM, draw_n, logp_n, k_n * PATIENCE + len(costs)))
            goes_n = draw_n < allowed_KJM.shape[2]
            m_KJ, worth_KJ = np.zeros(size_KJ.shape, dtype=np.int64), np.zeros(size_KJ.shape)
            m_KJ[k_n[goes_n], j_n[goes_n]] = draw_n[goes_n]
            worth_KJ[k_n[goes_n], j_n[goes_n]] = np.exp(logp_n[goes_n])
            size_KJ, going_KJ = carried_out(seen, moves, size_KJ, m_KJ, worth_KJ)

    while not slots.over_K.all() and len(costs) < PATIENCE:
        later = slots.advance(chosen(slots, schedule), slot_s)
        ended_s_KJ = np.where(np.isnan(later.done_s_KJ), later.time_s, later.done_s_KJ)
        costs.append(np.where(slots.live_KJ, ended_s_KJ - slots.time_s, 0.0).sum(axis=1) / slot_s)
        slots = later
    return Played(_together(found), np.stack(costs, axis=1))


def _advantages(played: Played) -> NDArray[np.float32]:
    """How much less than in the other plays of the trace was to come, at each draw, over its spread."""
    later_KT: Floats = np.zeros_like(played.cost_KT)
    to_come_K = np.zeros(len(later_KT))
    for t in reversed(range(later_KT.shape[1])):
        to_come_K = played.cost_KT[:, t] + DISCOUNT * to_come_K
        later_KT[:, t] = to_come_K
    by_trace: Floats = later_KT.reshape(len(later_KT) // PLAYS, PLAYS, -1)
    mean: Floats = np.asarray(by_trace.mean(axis=1, keepdims=True))
    better_KT = (mean - by_trace).reshape(later_KT.shape)
    k_n, t_n = np.divmod(played.draws.place_n, PATIENCE)
    advantage_n = better_KT[k_n, t_n]
    return np.asarray(advantage_n / max(float(advantage_n.std()), 1e-6), dtype=np.float32)


def _improve(net: nn.Sequential, network: Network, draws: Draws, advantage_n: NDArray[np.float32]) -> None:
    """Draws that turned out better become likelier, by no more than ``CLIP`` each time."""
    optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
    for _ in range(EPOCHS):
        order_n = torch.randperm(len(advantage_n)).numpy()
        for begin in range(0, len(order_n), BATCH):
            b = order_n[begin : begin + BATCH]
            logp_bX = _logits(net, network, draws.features_nMF[b], draws.open_nM[b])
            logp_b = logp_bX.gather(1, torch.from_numpy(draws.draw_n[b])[:, None])[:, 0]
            ratio_b = (logp_b - torch.from_numpy(draws.logp_n[b])).exp()
            better_b = torch.from_numpy(advantage_n[b])
            loss = -torch.min(ratio_b * better_b, ratio_b.clamp(1.0 - CLIP, 1.0 + CLIP) * better_b).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()


def _together(parts: Sequence[Draws]) -> Draws:
    names = ("features_nMF", "open_nM", "draw_n", "logp_n", "place_n")
    return Draws(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
