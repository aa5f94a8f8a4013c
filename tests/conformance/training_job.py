"""A model of a few weights, trained at the declared speed of its device, by as many processes as its gang has."""

import os
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

from experiments.deployed.paced import DEVICE, Pace
from gavelx.training import Gang, Training

EVERY_S = 1.0


def main() -> None:
    speeds = dict(pair.split("=") for pair in sys.argv[1].split(","))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    with Gang("cpu") as gang:
        model = gang.parallel(torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        loader = DataLoader(TensorDataset(torch.randn(1000, 4)), batch_size=8)
        with Training(gang=gang, model=model, optimizer=optimizer, every_s=EVERY_S) as training:
            pace = Pace(float(speeds[os.environ[DEVICE]]))
            for (inputs,) in training.batches(loader):
                loss = model(inputs).square().mean()
                if training.backward(loss):
                    optimizer.step()
                    optimizer.zero_grad()
                    pace.wait()
                    training.done(loss=loss)
                    print(f"step {training.step} loss {loss.item()!r}")


if __name__ == "__main__":
    main()
