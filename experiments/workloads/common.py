"""What the workloads share: options, seeds, and the loss curve that each prints."""

import argparse
import random
from collections.abc import Callable

import torch
from torch import Tensor

from gavelx.training import Training


def options(
    family: str | None, *, steps: int, batch_size: int, quick_steps: int, quick_batch_size: int
) -> argparse.Namespace:
    """The command line of a workload, with its seeds set.

    ``--quick`` is the same job with a small model and little data: seconds on two processor cores.
    """
    parser = argparse.ArgumentParser(description=(family or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small model and little data")
    parser.add_argument("--steps", type=int, help=f"until complete (default {steps}; quick {quick_steps})")
    parser.add_argument("--batch-size", type=int, help=f"(default {batch_size}; quick {quick_batch_size})")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every-s", type=float, default=300.0, help="seconds between two checkpoints")
    parser.add_argument("--print-every", type=int, default=10, help="steps between two lines of the loss curve")
    parser.add_argument("--device", help="cpu or cuda (default: cuda where there is one)")
    parser.add_argument("--threads", type=int, help="of torch, on the processor (quick: 1)")
    args = parser.parse_args()
    args.steps = args.steps or (quick_steps if args.quick else steps)
    args.batch_size = args.batch_size or (quick_batch_size if args.quick else batch_size)
    if args.threads or args.quick:  # small models gain nothing by more, and lose much on a busy machine
        torch.set_num_threads(args.threads or 1)
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    return args


def show(training: Training, loss: Tensor, every: int) -> None:
    """One line of the loss curve, with all digits, so that two curves can be compared bit for bit."""
    if training.step % every == 0 or training.finished:
        print(f"step {training.step} loss {loss.item()!r}", flush=True)


class Generated(torch.utils.data.Dataset[tuple[Tensor, ...]]):
    """Generated examples: each is made when it is asked for, from its number and the seed alone."""

    def __init__(self, count: int, make: Callable[[torch.Generator], tuple[Tensor, ...]], seed: int) -> None:
        self.count, self.make, self.seed = count, make, seed

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> tuple[Tensor, ...]:
        return self.make(torch.Generator().manual_seed(self.seed * self.count + i))
