"""Small models with dropout and BatchNorm, and data that are augmented with every global generator."""

import random
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

SIDE, CLASSES = 16, 10


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(3 * SIDE * SIDE, 384),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(384, 384),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(384, CLASSES),
    )


def cnn() -> nn.Module:
    def block(inner: int, outer: int) -> list[nn.Module]:
        return [nn.Conv2d(inner, outer, 3, 2, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU()]

    head = [nn.Flatten(), nn.Dropout(0.2), nn.Linear(64 * 4, 1024), nn.ReLU(), nn.Linear(1024, CLASSES)]
    return nn.Sequential(*block(3, 16), *block(16, 32), *block(32, 64), *head)


class Transformer(nn.Module):
    """Rows of an image as tokens."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.inputs = nn.Linear(3 * SIDE, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.outputs = nn.Linear(width, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        rows = images.permute(0, 2, 1, 3).flatten(2)
        return self.outputs(self.body(self.inputs(rows)).mean(1))  # type: ignore[no-any-return]


def large_transformer() -> nn.Module:
    """For images of 32 x 32; 3 million parameters."""
    layer = nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.1, batch_first=True)
    body = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    return nn.Sequential(
        nn.Flatten(2), nn.Unflatten(2, (16, 64)), nn.Flatten(1, 2), nn.Linear(64, 256), body, Mean()
    )


class Mean(nn.Module):
    """The mean of all tokens, as classes."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs = nn.Linear(256, CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.outputs(tokens.mean(1))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Two convolutions, and a way around them."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inner, outer, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outer),
            nn.ReLU(),
            nn.Conv2d(outer, outer, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outer),
        )
        self.around = nn.Conv2d(inner, outer, 1, stride, bias=False) if inner != outer else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.around(x))


def resnet() -> nn.Module:
    """ResNet-18 for images of 32 x 32; 11 million parameters."""
    widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)]
    blocks = [Block(*width) for width in [*widths, (512, 512, 1)]]
    first = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES))


MODELS: dict[str, Callable[[], nn.Module]] = {"mlp": mlp, "cnn": cnn, "transformer": Transformer}
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-4),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
}


class Images(Dataset[tuple[torch.Tensor, int]]):
    """Random images, flipped by Python's generator, shifted by numpy's and blurred by torch's."""

    def __init__(self, count: int) -> None:
        chance = torch.Generator().manual_seed(1234)
        self.images = torch.randn(count, 3, SIDE, SIDE, generator=chance)
        self.labels = torch.randint(0, CLASSES, (count,), generator=chance)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        image = self.images[i]
        if random.random() < 0.5:
            image = image.flip(2)
        image = torch.roll(image, tuple(map(int, np.random.randint(-2, 3, size=2))), (1, 2))
        return image + 0.01 * torch.randn_like(image), int(self.labels[i])
