"""How far looking ahead could get: the same search, told how fast jobs really are, and which ones are to come.

    python -m experiments.dl2.oracle [--traces 24] [--nodes 6]

Prints the difference to Optimus of looking ahead, and of the oracle, which no scheduler can be.
"""

import argparse
from collections.abc import Sequence

import numpy as np

from experiments.dl2.__main__ import NOISE, TEST, ahead, jct
from experiments.dl2.world import SLOT_S, mean_jct, optimus, room, traces
from gavelx.slots.ahead import Ahead
from gavelx.slots.greedy import Greedy, Steps
from gavelx.slots.model import Floats, Slots, chosen_at


class Oracle(Ahead):
    """Plans are played with all jobs of the trace, at their true speeds, until the last one is complete."""

    def values_CK(self, slots: Slots, speed_CKJ: Sequence[Floats]) -> Floats:
        C, B, K = len(speed_CKJ), len(self.candidates), len(slots.kind_KJ)
        rest = Greedy(self.steps, [one for _ in range(C) for one in self.candidates for _ in range(K)])
        plans = slots.take(np.tile(np.arange(K), C * B))
        plans = plans.at_speeds(np.concatenate([np.tile(one, (B, 1)) for one in speed_CKJ]), self.slot_s)
        while not plans.over_K.all():
            plans = plans.advance(chosen_at(plans, rest), self.slot_s)
        return np.asarray(plans.jct_s_KJ.sum(axis=1).reshape(C, B, K).min(axis=1))


def by_oracle(slots: Slots, oracle: Oracle) -> Floats:
    """Of each trace, the mean completion time in slots."""
    while not slots.over_K.all():
        slots = slots.advance(oracle(slots), SLOT_S)
    return mean_jct(slots)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.dl2.oracle", description=str(__doc__).split("\n")[0]
    )
    parser.add_argument("--traces", type=int, default=24)
    parser.add_argument("--nodes", type=int, default=6)
    options = parser.parse_args(arguments)
    for noise in (0.0, NOISE):
        slots = traces(range(TEST, TEST + options.traces), options.nodes, noise=noise)
        others = jct(slots, optimus(options.nodes, slots.sizes)).mean()
        oracle = Oracle(Steps.hull(slots.sizes, room(options.nodes)), SLOT_S)
        looked, told = jct(slots, ahead(options.nodes, slots.sizes)).mean(), by_oracle(slots, oracle).mean()
        print(f"noise {noise:.1%}: looking ahead {looked / others - 1:+.2%}, oracle {told / others - 1:+.2%}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
