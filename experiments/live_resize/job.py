"""The job whose pauses are measured: 90 MB of parameters, or as many layers as are named.

Rank 0 prints when each step was, and the processes.
"""

import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

from gavelx.training import Gang, Training

LAYERS, WIDTH = 22, 1024
"""A layer of this width has 4 MiB."""


def main() -> None:
    torch.set_num_threads(1)
    layers = int(sys.argv[1]) if len(sys.argv) > 1 else LAYERS
    torch.manual_seed(0)
    with Gang("cpu") as gang:
        body = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(layers)))
        model = gang.parallel(body)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
        loader = DataLoader(TensorDataset(torch.randn(256, WIDTH)), batch_size=2)
        with Training(gang=gang, model=model, optimizer=optimizer) as training:
            for (inputs,) in training.batches(loader):
                if training.backward(model(inputs).square().mean()):
                    optimizer.step()
                    optimizer.zero_grad()
                    training.done()
                    if gang.rank == 0:
                        sys.stdout.write(f"{time.monotonic()} {gang.world_size}\n")


if __name__ == "__main__":
    main()
