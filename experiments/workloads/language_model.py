"""An LSTM that predicts the next word (the shape of Wikitext-2).

The data are generated: a text of a language in which each word is followed by one of a few, more often by the
first of them (a Markov chain of order one with Zipf's frequencies), so there is something to learn and a best
loss.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.workloads.common import options, show
from gavelx.training import Training, own_device

FOLLOWERS = 8


class LanguageModel(nn.Module):
    def __init__(self, words: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True, dropout=0.2)
        self.output = nn.Linear(width, words)

    def forward(self, text: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(text))
        return self.output(states)


def text(words: int, length: int, seed: int) -> Tensor:
    """A walk along the chain."""
    chance = torch.Generator().manual_seed(seed)
    follower_WF = torch.randint(words, (words, FOLLOWERS), generator=chance)
    frequency_F = 1.0 / torch.arange(1.0, FOLLOWERS + 1)
    choices = torch.multinomial(frequency_F, length, replacement=True, generator=chance).tolist()
    table, word, walk = follower_WF.tolist(), 0, []
    for choice in choices:
        word = table[word][choice]
        walk.append(word)
    return torch.tensor(walk)


def main() -> None:
    args = options(__doc__, steps=20_000, batch_size=64, quick_steps=60, quick_batch_size=8)
    device = own_device(args.device)
    words, width, length = (200, 32, 16) if args.quick else (10_000, 512, 64)
    model = LanguageModel(words, width, layers=2).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2 if args.quick else 1e-3)
    sentences = text(words, (length + 1) * (400 if args.quick else 30_000), args.seed).view(-1, length + 1)
    loader = torch.utils.data.DataLoader(sentences, args.batch_size, shuffle=True, drop_last=True)
    with Training(model=model, optimizer=optimizer, total_steps=args.steps, every_s=args.every_s) as training:
        for batch in training.batches(loader):
            inputs, targets = batch[:, :-1].to(device), batch[:, 1:].to(device)
            loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            training.done(loss=loss)
            show(training, loss, args.print_every)


if __name__ == "__main__":
    main()
