"""An autoencoder that recommends (the shape of ML-20M).

The data are generated: users and films have a few hidden tastes, and a user has seen some of the films that suit
him. The input is what he has seen with some left out; the output should be all of it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader

from experiments.workloads.common import Generated, options, show
from gavelx.training import Training, own_device

TASTES = 6


def main() -> None:
    args = options(__doc__, steps=20_000, batch_size=512, quick_steps=80, quick_batch_size=32)
    device = own_device(args.device)
    films, width = (300, 32) if args.quick else (20_000, 512)
    suits_FT = torch.randn(films, TASTES, generator=torch.Generator().manual_seed(args.seed))

    def user(chance: torch.Generator) -> tuple[Tensor, ...]:
        likes_F = suits_FT @ torch.randn(TASTES, generator=chance)
        return ((likes_F + torch.randn(films, generator=chance) > 3.0).float(),)

    model = nn.Sequential(
        nn.Dropout(0.5),
        nn.Linear(films, width),
        nn.Tanh(),
        nn.Linear(width, width),
        nn.Tanh(),
        nn.Linear(width, films),
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3 if args.quick else 1e-3)
    loader = DataLoader(
        Generated(1_000 if args.quick else 100_000, user, args.seed), args.batch_size, shuffle=True
    )
    with Training(model=model, optimizer=optimizer, total_steps=args.steps, every_s=args.every_s) as training:
        for (batch,) in training.batches(loader):
            seen = batch.to(device)
            loss = F.binary_cross_entropy_with_logits(model(seen), seen)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            training.done(loss=loss)
            show(training, loss, args.print_every)


if __name__ == "__main__":
    main()
