"""CycleGAN: images of one kind into images of the other and back, without pairs (the shape of monet2photo).

The data are generated: a bright disc on dark ground, and a dark square on bright ground. Two generators, two
judges, two optimizers. Unpaired image-to-image translation: Zhu et al., ICCV 2017, with least squares for the
judges.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader

from experiments.workloads.common import Generated, options, show
from gavelx.training import Training, own_device

CYCLE = 10.0
"""The weight of coming back to where one began."""


def convolution(before: int, after: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(before, after, 3, stride, padding=1), nn.InstanceNorm2d(after), nn.ReLU(inplace=True)]


def generator(width: int) -> nn.Module:
    return nn.Sequential(
        *convolution(3, width),
        *convolution(width, 2 * width, stride=2),
        *convolution(2 * width, 2 * width),
        nn.Upsample(scale_factor=2),
        *convolution(2 * width, width),
        nn.Conv2d(width, 3, 3, padding=1),
        nn.Tanh(),
    )


def judge(width: int) -> nn.Module:
    """One verdict for each patch."""
    return nn.Sequential(
        nn.Conv2d(3, width, 4, 2, padding=1),
        nn.LeakyReLU(0.2, inplace=True),
        *convolution(width, 2 * width, stride=2),
        nn.Conv2d(2 * width, 1, 3, padding=1),
    )


def mean_square(verdict: Tensor, truth: float) -> Tensor:
    return (verdict - truth).square().mean()


def main() -> None:
    args = options(__doc__, steps=20_000, batch_size=4, quick_steps=40, quick_batch_size=4)
    device = own_device(args.device)
    size, width = (16, 8) if args.quick else (128, 64)
    axis = torch.linspace(-1, 1, size)

    def pair(chance: torch.Generator) -> tuple[Tensor, Tensor]:
        """An image of each kind, of its own place and colour; they have nothing to do with each other."""
        (x, y), (u, v) = torch.rand(2, 2, generator=chance) - 0.5
        warm, cold = torch.rand(2, 3, 1, 1, generator=chance)
        disc = ((axis - x) ** 2 + (axis[:, None] - y) ** 2 < 0.16).float()
        square = torch.maximum((axis - u).abs(), (axis[:, None] - v).abs()).lt(0.4).float()
        return 2 * disc * warm - 1, 1 - 2 * square * cold

    forth, back = generator(width).to(device), generator(width).to(device)
    judges = nn.ModuleList([judge(width), judge(width)]).to(device)
    of_generators = torch.optim.Adam([*forth.parameters(), *back.parameters()], lr=2e-4, betas=(0.5, 0.999))
    of_judges = torch.optim.Adam(judges.parameters(), lr=2e-4, betas=(0.5, 0.999))
    data = Generated(200 if args.quick else 6_000, pair, args.seed)
    loader = DataLoader(data, args.batch_size, shuffle=True)
    parts = {"forth": forth, "back": back, "judges": judges, "generators": of_generators, "judging": of_judges}
    with Training(**parts, total_steps=args.steps, every_s=args.every_s) as training:
        for batch in training.batches(loader):
            a, b = (part.to(device) for part in batch)
            as_b, as_a = forth(a), back(b)
            cycle = F.l1_loss(back(as_b), a) + F.l1_loss(forth(as_a), b)
            loss = mean_square(judges[0](as_a), 1) + mean_square(judges[1](as_b), 1) + CYCLE * cycle
            of_generators.zero_grad()
            loss.backward()
            of_generators.step()
            of_judges.zero_grad()
            for one, real, made in zip(judges, (a, b), (as_a, as_b), strict=True):
                (mean_square(one(real), 1) + mean_square(one(made.detach()), 0)).backward()
            of_judges.step()
            training.done(loss=loss)
            show(training, loss, args.print_every)


if __name__ == "__main__":
    main()
