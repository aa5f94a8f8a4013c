"""The job whose losses are compared: a small network learns noisy labels. Rank 0 prints the loss of each epoch.

In the epochs in which it is about to be resized it does one step in a while, so that the change comes within them.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from gavelx.training import Gang, Training

SAMPLES, INPUTS, CLASSES, WRONG = 4096, 32, 10, 0.1
STEP_S = 0.1


def data(seed: int) -> tuple[Tensor, Tensor]:
    """Labels are those of a random network; some are drawn by chance."""
    chance = torch.Generator().manual_seed(seed)
    x = torch.randn(SAMPLES, INPUTS, generator=chance)
    first, second = (torch.randn(INPUTS, n, generator=chance) for n in (INPUTS, CLASSES))
    labels = (torch.tanh(x @ first / INPUTS**0.5) @ second).argmax(1)
    wrong = torch.rand(SAMPLES, generator=chance) < WRONG
    return x, torch.where(wrong, torch.randint(CLASSES, (SAMPLES,), generator=chance), labels)


def main() -> None:
    told = json.loads(os.environ["LOSS_JOB"])
    torch.set_num_threads(1)
    torch.manual_seed(told["seed"])
    x, y = data(told["seed"])
    with Gang("cpu") as gang:
        body = nn.Sequential(
            nn.Linear(INPUTS, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, CLASSES)
        )
        model = gang.parallel(body)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, told["epochs"])
        loader = DataLoader(TensorDataset(x, y), batch_size=told["batch"])
        parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
        with Training(gang=gang, **parts, seed=told["seed"]) as training:
            for _ in training.epochs(told["epochs"]):
                for inputs, targets in training.batches(loader):
                    loss = cross_entropy(model(inputs), targets)
                    if training.backward(loss):
                        optimizer.step()
                        optimizer.zero_grad()
                        training.done(loss=loss)
                        if any(
                            training.epoch >= epoch and not Path(file).exists() for epoch, file in told["changes"]
                        ):
                            time.sleep(STEP_S)
                scheduler.step()
                if gang.rank == 0:
                    with torch.no_grad():
                        of_all = cross_entropy(model(x), y).item()
                    line = {"epoch": training.epoch, "loss": of_all, "processes": gang.world_size}
                    sys.stdout.write(json.dumps(line) + "\n")
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
