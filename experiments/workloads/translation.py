"""A Transformer that translates sentences (the shape of Multi30k).

The data are generated: the other language has a word for each of ours and says them in the reverse order, the
verb (the first word) excepted. Attention is all you need: Vaswani et al., NeurIPS 2017.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader

from experiments.workloads.common import Generated, options, show
from gavelx.training import Training, own_device

LENGTH = 12
BEGIN = 0


class Translator(nn.Module):
    def __init__(self, words: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.transformer = nn.Transformer(
            width, 4, layers, layers, dim_feedforward=4 * width, dropout=0.1, batch_first=True
        )
        self.transformer.encoder.enable_nested_tensor = False  # it needs a mask of padding; all are equally long
        self.output = nn.Linear(width, words)
        self.register_buffer("place", places(LENGTH, width))
        self.register_buffer("later", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        embedded = [self.embedding(words) + self.place for words in (source, target)]
        return self.output(self.transformer(*embedded, tgt_mask=self.later, tgt_is_causal=True))


def places(length: int, width: int) -> Tensor:
    """Sines and cosines that tell where a word stands (section 3.5)."""
    angle = torch.arange(length)[:, None] * torch.exp(-math.log(1e4) * torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)


def main() -> None:
    args = options(__doc__, steps=20_000, batch_size=128, quick_steps=60, quick_batch_size=16)
    device = own_device(args.device)
    words, width, layers = (50, 32, 2) if args.quick else (8_000, 512, 6)
    word_of = 1 + torch.randperm(words - 1, generator=torch.Generator().manual_seed(args.seed))

    def sentence(chance: torch.Generator) -> tuple[Tensor, Tensor]:
        source = torch.randint(1, words, (LENGTH,), generator=chance)
        said = torch.cat([source[:1], source[1:].flip(0)])
        return source, word_of[said - 1]

    model = Translator(words, width, layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3 if args.quick else 3e-4, betas=(0.9, 0.98))
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=max(1, args.steps // 10))
    data = Generated(1_000 if args.quick else 30_000, sentence, args.seed)
    loader = DataLoader(data, args.batch_size, shuffle=True)
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    with Training(**parts, total_steps=args.steps, every_s=args.every_s) as training:
        for batch in training.batches(loader):
            source, target = (part.to(device) for part in batch)
            before = F.pad(target[:, :-1], (1, 0), value=BEGIN)
            loss = F.cross_entropy(model(source, before).flatten(0, 1), target.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            training.done(loss=loss)
            show(training, loss, args.print_every)


if __name__ == "__main__":
    main()
