"""Advantage actor-critic on cart and pole (the family of A3C).

There are no data: several carts are driven at once, and a step learns from what the next few pushes gave. The
loss curve is of the policy and the critic together; beside it stands the mean length of the last attempts, which
should rise. Mnih et al., ICML 2016; the cart's equations: Barto, Sutton and Anderson, 1983.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.workloads.common import options, show
from gavelx.training import Training, own_device

GRAVITY, CART_KG, POLE_KG, HALF_POLE_M, PUSH_N, TICK_S = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
TRACK_M, FALLEN_RAD, TICKS = 2.4, 0.2095, 500
PUSHES = 16
"""Between two steps of learning."""


class Carts:
    """So many carts, each with a pole on it: place, speed, angle, angular speed. One that fails begins anew."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.state = 0.1 * torch.rand(count, 4, device=device) - 0.05
        self.ticks = torch.zeros(count, device=device)
        self.mean_ticks = torch.zeros((), device=device)

    def push(self, right: Tensor) -> tuple[Tensor, Tensor]:
        """The state after a push to the right (1) or left (0), and which carts have failed."""
        _, speed, angle, turning = self.state.unbind(1)
        kg, sin, cos = CART_KG + POLE_KG, angle.sin(), angle.cos()
        force = (PUSH_N * (2 * right - 1) + POLE_KG * HALF_POLE_M * turning.square() * sin) / kg
        turn = (GRAVITY * sin - cos * force) / (HALF_POLE_M * (4 / 3 - POLE_KG * cos.square() / kg))
        pull = force - POLE_KG * HALF_POLE_M * turn * cos / kg
        change = torch.stack([speed, pull, turning, turn], dim=1)
        self.state = self.state + TICK_S * change
        self.ticks = self.ticks + 1
        failed = (self.state[:, 0].abs() > TRACK_M) | (self.state[:, 2].abs() > FALLEN_RAD) | (self.ticks >= TICKS)
        self._begin_anew(failed)
        return self.state, failed

    def _begin_anew(self, failed: Tensor) -> None:
        if failed.any():
            self.mean_ticks = 0.95 * self.mean_ticks + 0.05 * self.ticks[failed].mean()
        fresh = 0.1 * torch.rand(self.state.shape, device=self.state.device) - 0.05
        self.state = torch.where(failed[:, None], fresh, self.state)
        self.ticks = torch.where(failed, 0.0, self.ticks)

    def state_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value.to(self.state.device))


def main() -> None:
    args = options(__doc__, steps=20_000, batch_size=256, quick_steps=60, quick_batch_size=8)
    device = own_device(args.device)
    width = 32 if args.quick else 256
    body = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
    model = nn.ModuleDict({"body": body, "actor": nn.Linear(width, 2), "critic": nn.Linear(width, 1)}).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    carts = Carts(args.batch_size, device)
    parts = {"model": model, "optimizer": optimizer, "carts": carts}
    with Training(**parts, total_steps=args.steps, every_s=args.every_s) as training:
        for _ in training.steps():
            loss = play(model, carts)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            training.done(loss=loss)
            show(training, loss, args.print_every)
    print(f"mean attempt {carts.mean_ticks.item():.0f} ticks")


def play(model: nn.ModuleDict, carts: Carts, discount: float = 0.99) -> Tensor:
    """Drive for a few pushes; the loss of the policy, less a bit of its entropy, and of the critic."""
    chosen, entropies, values, failures = [], [], [], []
    state = carts.state
    for _ in range(PUSHES):
        features = model["body"](state)
        policy = torch.distributions.Categorical(logits=model["actor"](features), validate_args=False)
        right = policy.sample()
        chosen.append(policy.log_prob(right))
        entropies.append(policy.entropy())
        values.append(model["critic"](features).squeeze(1))
        state, failed = carts.push(right)
        failures.append(failed)
    with torch.no_grad():
        back = model["critic"](model["body"](state)).squeeze(1)
    returns = []
    for failed in reversed(failures):
        back = 1.0 + discount * torch.where(failed, 0.0, back)
        returns.insert(0, back)
    value_PC, return_PC = torch.stack(values), torch.stack(returns)
    advantage_PC = (return_PC - value_PC).detach()
    policy_loss = -(torch.stack(chosen) * advantage_PC).mean() - 0.01 * torch.stack(entropies).mean()
    return policy_loss + 0.5 * F.smooth_l1_loss(value_PC, return_PC)


if __name__ == "__main__":
    main()
