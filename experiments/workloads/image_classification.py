"""ResNet-18 on images of 32 x 32 (the shape of CIFAR-10).

The data are generated: a class is a grating of its own direction, width and colour, under noise, shifted at
random. Deep residual learning: He et al., CVPR 2016; with the stem that is usual for small images.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler

from experiments.workloads.common import Generated, options, show
from gavelx.training import Gang, Training

CLASSES = 10


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(before, width, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        same = stride == 1 and before == width
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.convolutions(x) + self.shortcut(x))


def resnet18(width: int) -> nn.Module:
    """Eight blocks, two of each width; 64 is the original."""
    blocks, before = [], width
    for stage in range(4):
        for stride in (1 if stage == 0 else 2, 1):
            blocks.append(Block(before, width << stage, stride))
            before = width << stage
    stem = [nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, CLASSES))


def image(chance: torch.Generator) -> tuple[Tensor, Tensor]:
    label = torch.randint(CLASSES, (), generator=chance)
    shift, noise = torch.rand((), generator=chance), torch.randn(3, 32, 32, generator=chance)
    angle, waves = math.pi * label / CLASSES, 2 + label % 3
    y, x = torch.meshgrid(torch.linspace(0, 1, 32), torch.linspace(0, 1, 32), indexing="ij")
    grating = torch.sin(2 * math.pi * (waves * (x * torch.cos(angle) + y * torch.sin(angle)) + shift))
    colour = torch.stack([torch.cos(angle), torch.sin(angle), torch.ones(())])
    return colour[:, None, None] * grating + 0.5 * noise, label


def main() -> None:
    args = options(__doc__, steps=20_000, batch_size=128, quick_steps=60, quick_batch_size=16)
    with Gang(args.device) as gang:
        model = gang.parallel(resnet18(8 if args.quick else 64).to(gang.device))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
        data = Generated(512 if args.quick else 50_000, image, args.seed)
        sampler = DistributedSampler(data, gang.world_size, gang.rank, seed=args.seed)
        loader = DataLoader(data, args.batch_size, sampler=sampler, drop_last=True)
        parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
        with Training(**parts, total_steps=args.steps, every_s=args.every_s) as training:
            for batch in training.batches(loader):
                images, labels = (part.to(gang.device) for part in batch)
                loss = F.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()
                training.done(loss=loss)
                show(training, loss, args.print_every)


if __name__ == "__main__":
    main()
